"""How far a call has come: written by the call as it goes, sampled by whoever shows it.

Nothing is called back, so showing progress can neither slow a call nor break it, and who samples sets the rate.
"""

from dataclasses import dataclass
from enum import StrEnum


class Phase(StrEnum):
    """What a call is at; the values are shown to people."""

    WAITING = "waiting for the server"
    READING = "reading the page"
    RENDERING = "rendering the page"
    SEARCHING = "searching"


@dataclass(slots=True)
class FetchProgress:
    """hop: 0 until the first redirect is followed. bytes: of the body so far, its content codings undone."""

    phase: Phase = Phase.WAITING
    hop: int = 0
    bytes: int = 0

    def render(self) -> str:
        """One line. It holds nothing that came from outside: a model may be shown it."""
        followed = f", redirect {self.hop}" if self.hop else ""
        read = f", {self.bytes:,} bytes" if self.bytes else ""
        return f"{self.phase}{followed}{read}"
