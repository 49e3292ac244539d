"""What goes wrong inside the daemon. None of these reaches the caller of a tool: that is `core.failures`.

FetchdError
├── NoGatewayError            there is no gateway to use, and none may or can be started
├── StaleGatewayError         the running gateway does not know a name that the configuration has
├── TransportError            an answer of the gateway could not be had, or broke off
│   ├── NoAnswerError         before the response head: not reachable, reset, not HTTP, head too large
│   └── BrokenAnswerError     after the response head: the body broke off or its framing is wrong
├── ChannelError              a provider could not be reached, or its answer broke off; the text names no other party
└── StoreError                pages cannot be kept or had; one line for the operator, says what to do
    ├── StoreUnavailableError the disk or the database: full, read-only, damaged, busy
    │   ├── DatabaseDamagedError  its file is no database, or not a whole one
    │   └── DatabaseReplacedError its file was removed or replaced while in use
    ├── StoreFullError        the size limit is reached, and what is kept is needed
    ├── StoreKeyError         a key file is missing, unreadable, foreign or open to others
    ├── BlobMissingError      no blob of this digest
    └── BlobDamagedError      the bytes kept under a digest have another one
"""


class FetchdError(Exception):
    """Root of the daemon's own errors."""


class NoGatewayError(FetchdError):
    """No gateway. The text is one line for the operator and says what to do (SPEC 1.10)."""


class StaleGatewayError(FetchdError):
    """The running gateway has rules of before. The text is one line for the operator and says what to do."""


class TransportError(FetchdError):
    """The gateway did not deliver. The text is for logs; it may name a foreign cause."""


class NoAnswerError(TransportError):
    """No response head arrived."""


class BrokenAnswerError(TransportError):
    """The head arrived, the whole body did not."""


class ChannelError(FetchdError):
    """The provider channel did not deliver, or could not be made. The text is our own words, for logs and operators.

    The foreign error is dropped, not kept as the cause: it may quote what the other side sent.
    """


class StoreError(FetchdError):
    """Root of the store's errors; raised only through its subclasses."""


class StoreUnavailableError(StoreError):
    """Nothing was kept of what was being written; trying again may work once the cause is gone."""


class DatabaseDamagedError(StoreUnavailableError):
    """The file is no database, or not a whole one."""


class DatabaseReplacedError(StoreUnavailableError):
    """The file was removed or replaced while in use."""


class StoreFullError(StoreError):
    """The page was not kept."""


class StoreKeyError(StoreError):
    """A key cannot be used; the message names the file, never key material."""


class BlobMissingError(StoreError):
    """No such blob. `known`: there was one, and it has been dropped since."""

    def __init__(self, digest: str, *, known: bool = False) -> None:
        self.digest = digest
        self.known = known
        super().__init__(f"{digest} was kept and has been dropped since" if known else f"no blob {digest}")


class BlobDamagedError(StoreError):
    """A blob's bytes are not what its name says. `found`: digest and size of what is there."""

    def __init__(self, digest: str, found: str, size: int) -> None:
        self.digest = digest
        self.found = found
        self.size = size
        super().__init__(f"{digest} is damaged: the {size} bytes kept have the digest {found}")
