"""The words of a line by which programs tell lines apart."""

from enum import StrEnum


class LineKind(StrEnum):
    """The ``kind`` member of a line."""

    DECISION = "decision"
    CLOSE = "close"
    FETCH = "fetch"
    SEARCH = "search"
    WEB = "web"
    ASK = "ask"
    EVENT = "event"
    CHECKPOINT = "checkpoint"


class CallOutcome(StrEnum):
    """How a call of the daemon ended: with text, a soft or a hard failure, or dropped by its caller."""

    SUCCESS = "success"
    SOFT = "soft"
    HARD = "hard"
    ABORTED = "aborted"
