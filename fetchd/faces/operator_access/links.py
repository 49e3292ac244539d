"""One-time links: `fetchd operator link` asks for a code with the control secret, and the code signs in once."""

import secrets
from collections import OrderedDict
from collections.abc import Callable
from hashlib import sha256
from typing import Final

LINK_SECONDS: Final = 300.0
MAX_LINKS: Final = 16


class Links:
    """Codes that were not used yet, as digests."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock: Final = clock
        self._until: Final[OrderedDict[bytes, float]] = OrderedDict()

    def issue(self) -> str:
        """A code, good for LINK_SECONDS."""
        code = secrets.token_urlsafe(32)
        self._until[_key(code)] = self._clock() + LINK_SECONDS
        if len(self._until) > MAX_LINKS:
            self._until.popitem(last=False)
        return code

    def take(self, code: str) -> bool:
        """Whether the code counts; it never does again."""
        until = self._until.pop(_key(code), None)
        return until is not None and self._clock() < until


def _key(code: str) -> bytes:
    return sha256(code.encode("utf-8", "surrogatepass")).digest()
