"""Failures to sign in, by address. Tokens hold 256 random bits, so this keeps noise down rather than guesses out;
hence no bound over all addresses together, with which one stranger could lock the operator out."""

from collections import OrderedDict, deque
from collections.abc import Callable
from math import ceil
from typing import Final

MAX_FAILURES: Final = 10
WINDOW_SECONDS: Final = 60.0
MAX_ADDRESSES: Final = 1_024


class Attempts:
    """The last failures of the last addresses."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock: Final = clock
        self._failures: Final[OrderedDict[str, deque[float]]] = OrderedDict()

    def wait(self, address: str) -> int:
        """Seconds before the address may try again; 0: now."""
        failures = self._failures.get(address)
        if failures is None or len(failures) < MAX_FAILURES:
            return 0
        return max(0, ceil(failures[0] + WINDOW_SECONDS - self._clock()))

    def fail(self, address: str) -> None:
        """The address had nothing of ours."""
        failures = self._failures.setdefault(address, deque(maxlen=MAX_FAILURES))
        failures.append(self._clock())
        self._failures.move_to_end(address)
        if len(self._failures) > MAX_ADDRESSES:
            self._failures.popitem(last=False)
