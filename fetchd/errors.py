"""What goes wrong inside the daemon. None of these reaches a caller: faces speak `core.failures` only.

FetchdError
└── TransportError            an answer of the gateway could not be had, or broke off
    ├── NoAnswerError         before the response head: not reachable, reset, not HTTP, head too large
    └── BrokenAnswerError     after the response head: the body broke off or its framing is wrong
"""


class FetchdError(Exception):
    """Root of the daemon's own errors."""


class TransportError(FetchdError):
    """The gateway did not deliver. The text is for logs; it may name a foreign cause."""


class NoAnswerError(TransportError):
    """No response head arrived."""


class BrokenAnswerError(TransportError):
    """The head arrived, the whole body did not."""
