"""What goes wrong inside the daemon. None of these reaches the caller of a tool: that is `core.failures`.

FetchdError
├── NoGatewayError            there is no gateway to use, and none may or can be started
└── TransportError            an answer of the gateway could not be had, or broke off
    ├── NoAnswerError         before the response head: not reachable, reset, not HTTP, head too large
    └── BrokenAnswerError     after the response head: the body broke off or its framing is wrong
"""


class FetchdError(Exception):
    """Root of the daemon's own errors."""


class NoGatewayError(FetchdError):
    """No gateway. The text is one line for the operator and says what to do (SPEC 1.10)."""


class TransportError(FetchdError):
    """The gateway did not deliver. The text is for logs; it may name a foreign cause."""


class NoAnswerError(TransportError):
    """No response head arrived."""


class BrokenAnswerError(TransportError):
    """The head arrived, the whole body did not."""
