"""The scripted provider: answers what it is told to. Ships for the tests of whoever searches."""

import asyncio
from collections.abc import Iterable, Mapping
from math import inf
from types import MappingProxyType
from typing import Final

from fetchd.core.caller import Caller

from .interface import Argument, Capability, SearchAnswer, SearchArguments, SearchFailure, Support

ALL_NATIVE: Final[Mapping[Argument, Capability]] = MappingProxyType(
    {argument: Capability(Support.NATIVE) for argument in Argument}
)

type Script = SearchAnswer | SearchFailure | Exception | None
"""What one search ends in; an exception is raised, and None never answers."""


class ScriptedProvider:
    """`script`: one entry a search, the last for all that follow. `asked`: what it was asked, by whom. `callers`,
    `ends`: the same of all of it.
    """

    def __init__(
        self,
        script: Iterable[Script] = (),
        name: str = "local",
        capabilities: Mapping[Argument, Capability] = ALL_NATIVE,
    ) -> None:
        self._name: Final = name
        self._capabilities: Final = capabilities
        self._script = list(script) or [SearchAnswer(())]
        self.asked: list[tuple[SearchArguments, str]] = []
        self.callers: list[Caller] = []
        self.ends: list[float] = []
        self.at_work = 0
        self.hanging: Final = asyncio.Event()
        """Set while a search is under way that never answers."""

    @property
    def name(self) -> str:
        return self._name

    @property
    def capabilities(self) -> Mapping[Argument, Capability]:
        return self._capabilities

    async def search(
        self, arguments: SearchArguments, caller: Caller, ends: float = inf
    ) -> SearchAnswer | SearchFailure:
        self.asked.append((arguments, caller.agent))
        self.callers.append(caller)
        self.ends.append(ends)
        entry = self._script.pop(0) if len(self._script) > 1 else self._script[0]
        self.at_work += 1
        try:
            if entry is None:
                self.hanging.set()
                await asyncio.Event().wait()
            await asyncio.sleep(0)
        finally:
            self.at_work -= 1
            self.hanging.clear()
        if isinstance(entry, Exception):
            raise entry
        return entry if entry is not None else SearchAnswer(())
