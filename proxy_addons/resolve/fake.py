"""FakeResolver: answers from a table, in memory; passes the same conformance test as the real one."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .resolver import Answer, BadNameError, LookupFailure, RecordType, answer_without_query, parse_labels


@dataclass(frozen=True, slots=True)
class Held:
    """An outcome that comes when the event is set; if never, the look-up ends by cancellation."""

    until: asyncio.Event
    then: Answer


Outcome = Answer | Held


class FakeResolver:
    """`table` maps (name without last dot, type) to outcomes taken in turn, the last one for ever.

    A known name without an entry for the type is NODATA; an unknown name is NXDOMAIN. `asked` lists the
    look-ups that would have gone to a server.
    """

    def __init__(self, table: Mapping[tuple[str, RecordType], Outcome | Sequence[Outcome]]) -> None:
        self._table = {
            key: [outcome] if isinstance(outcome, (Answer, Held)) else list(outcome)
            for key, outcome in table.items()
        }
        self._names = {name for name, _ in table}
        self.asked: list[tuple[str, RecordType]] = []

    async def resolve(self, host: str, rtype: RecordType) -> Answer:
        """See Resolver.resolve."""
        try:
            own = answer_without_query(parse_labels(host), rtype)
        except BadNameError:
            return Answer(rtype, failure=LookupFailure.BAD_NAME)
        if own is not None:
            return own
        name = host.removesuffix(".").lower()
        self.asked.append((name, rtype))
        outcomes = self._table.get((name, rtype))
        if outcomes is None:
            return Answer(rtype, failure=None if name in self._names else LookupFailure.NXDOMAIN)
        outcome = outcomes.pop(0) if len(outcomes) > 1 else outcomes[0]
        if isinstance(outcome, Held):
            await outcome.until.wait()
            return outcome.then
        return outcome
