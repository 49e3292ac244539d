"""Our own faults in the log: where and of what kind, never what the exception says.

Messages of exceptions quote what they stumbled over, header fields with credentials among it: mitmproxy's layers put
whole events into theirs.
"""

import logging
import traceback
from types import TracebackType


class FaultFormatter(logging.Formatter):
    """Formats exceptions as a stack of code lines and a type, the causes before it."""

    def formatException(  # noqa: N802 (logging's name)
        self,
        ei: tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None],
    ) -> str:
        """The innermost cause first, as Python prints them."""
        shown: list[str] = []
        error: BaseException | None = ei[1]
        seen: set[int] = set()
        while error is not None and id(error) not in seen:
            seen.add(id(error))
            stack = "".join(traceback.format_tb(error.__traceback__))
            shown.append(f"{stack}{type(error).__qualname__}")
            error = error.__cause__ or error.__context__
        return "\n".join(reversed(shown))


def log_to_stderr() -> None:
    """Warnings and worse of this process, one format, to standard error."""
    handler = logging.StreamHandler()
    handler.setFormatter(FaultFormatter("%(name)s: %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
