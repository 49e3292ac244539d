"""The use case: one call of web_search, from its arguments to the text a model may read (SPEC 4).

1 arguments → 2 each provider of the chain: capabilities → its turn → its answer → domain lists, count → 3 envelope

A call ends in a `SearchResult`, never in an exception, but for cancellation: a dropped call ends its search at once
and leaves one audit line behind. Each provider that was asked has its own, written before its rows are handed out.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from secrets import token_bytes
from typing import Final, Protocol

from fetchd.core.caller import Caller
from fetchd.core.envelope import render_envelope
from fetchd.core.failures import FailureKind
from fetchd.core.progress import FetchProgress, Phase
from fetchd.fetch import fresh_fetch_id, fresh_nonce
from proxy_addons.audit import AuditUnavailableError, SearchRecord
from proxy_addons.policy.config_search import ProviderConfig, SearchConfig, SearchProviderName

from .arguments import parse_search_arguments, read_search_arguments
from .capabilities import find_refused
from .domains import keep_rows
from .interface import SearchAnswer, SearchArguments, SearchFailure, SearchProvider
from .outcome import TOOL, SearchCall, SearchResult, make_record
from .pacing import BusyError, Pace
from .results import find_blank_url, render_results
from .way import find_circle, name_installation

DEADLINE_SECONDS: Final = 30.0
"""Of a whole call, all of its providers included (SPEC 4)."""

REQUEST_FAILED: Final = SearchFailure(FailureKind.TRANSPORT, "request failed")
DIED: Final = SearchFailure(FailureKind.OTHER, "the search task did not finish")

_log = logging.getLogger(__name__)

__all__ = ("DEADLINE_SECONDS", "DIED", "REQUEST_FAILED", "TOOL", "SearchLog", "SearchResult", "WebSearch")


class SearchLog(Protocol):
    """What the use case asks of the audit log; the whole interface is `proxy_addons.audit.AuditSink`."""

    def append(self, record: SearchRecord) -> int:
        """Write one line; raises AuditUnavailableError."""
        ...

    def query_digest(self, query: str) -> str | None:
        """The keyed digest that stands for a query."""
        ...


class WebSearch:
    """The tool web_search over these providers. config: asked at each call, so that a reload is taken."""

    def __init__(
        self,
        providers: Mapping[str, SearchProvider],
        config: Callable[[], SearchConfig],
        log: SearchLog,
        *,
        deadline: float = DEADLINE_SECONDS,
        make_nonce: Callable[[], str] = fresh_nonce,
        make_fetch_id: Callable[[], str] = fresh_fetch_id,
        installation: str | None = None,
    ) -> None:
        self._providers: Final = providers
        self._config: Final = config
        self._audit: Final = log
        self._deadline: Final = deadline
        self._make_nonce: Final = make_nonce
        self._make_fetch_id: Final = make_fetch_id
        self._installation: Final = installation or name_installation(token_bytes(8))
        self._paces: Final[dict[str, Pace]] = {}
        self._told: Final[set[str]] = set()
        """Providers that the log has been told of that they cannot be used: once is enough."""

    async def call(
        self,
        arguments: str | bytes | Mapping[str, object],
        caller: Caller,
        progress: FetchProgress | None = None,
    ) -> SearchResult:
        """Run one call. arguments: the JSON text of it, or what a JSON reader made of that.

        Raises nothing but CancelledError.
        """
        progress = progress or FetchProgress()
        progress.phase = Phase.SEARCHING
        now = time.monotonic()
        call = SearchCall(
            caller, self._make_fetch_id(), now + self._deadline, self._config(), progress, began=now
        )
        try:
            return await self._run(arguments, call)
        except asyncio.CancelledError:
            self._write(call, None)
            raise
        except Exception:  # noqa: BLE001 - a fault of ours fails closed: kind Other
            _log.exception("web_search %s died", call.fetch_id)
            return self._end(DIED, call)

    async def _run(self, arguments: str | bytes | Mapping[str, object], call: SearchCall) -> SearchResult:
        parsed = (
            parse_search_arguments(arguments)
            if isinstance(arguments, str | bytes)
            else read_search_arguments(arguments)
        )
        if isinstance(parsed, SearchFailure):
            return self._end(parsed, call)
        call.arguments = parsed
        chain = call.config.chain
        result: SearchResult | None = None
        for index, name in enumerate(chain):
            call.attempt, call.provider, call.began = index + 1, name.value, time.monotonic()
            # Each of those left has an equal part of the time that is left: one that hangs does not take it all.
            seconds = max(0.0, call.ends - call.began) / (len(chain) - index)
            result = self._end(await self._ask(name, parsed, call, seconds), call)
            if result.failure is None or result.failure.kind is FailureKind.OTHER:
                break
        return result if result is not None else self._end(DIED, call)

    async def _ask(
        self, name: SearchProviderName, arguments: SearchArguments, call: SearchCall, seconds: float
    ) -> SearchAnswer | SearchFailure:
        """One provider's answer, held to the arguments."""
        provider = self._providers.get(name)
        if provider is None:
            if name not in self._told:
                self._told.add(name)
                _log.error("web_search: provider %s cannot be used; fetchd config check says why", name.value)
            return REQUEST_FAILED
        refused = find_refused(name.value, provider.capabilities, arguments)
        if refused is not None:
            return refused
        if name is SearchProviderName.GATEWAY:  # before its turn, which the search that it came from may hold
            circle = find_circle(call.caller.way, self._installation)
            if circle is not None:
                return circle
        caller = replace(call.caller, way=(*call.caller.way, self._installation))
        limits = call.config.providers.get(name) or ProviderConfig(name)
        pace, started = self._paces.setdefault(name, Pace()), False
        try:
            ends = asyncio.get_running_loop().time() + seconds
            async with asyncio.timeout_at(ends):
                async with pace.turn(call.caller.agent, limits.concurrency, limits.requests_per_minute):
                    started = True
                    answer = await provider.search(arguments, caller, ends)
        except BusyError:
            return _busy(name)
        except TimeoutError:
            return REQUEST_FAILED if started else _busy(name)
        return answer if isinstance(answer, SearchFailure) else _hold(answer, arguments)

    def _end(self, outcome: SearchAnswer | SearchFailure, call: SearchCall) -> SearchResult:
        """The result of an attempt, once its line is written."""
        result = self._render(outcome, call)
        # Nothing is handed out that the log does not know of.
        return result if self._write(call, result) else self._render(DIED, call)

    def _render(self, outcome: SearchAnswer | SearchFailure, call: SearchCall) -> SearchResult:
        cost = None
        if isinstance(outcome, SearchAnswer) and call.arguments is not None:
            query, cost = call.arguments.query, outcome.credits
            text = render_results(query, outcome.rows)
            if isinstance(text, str):
                enveloped = render_envelope(text, self._make_nonce())
                rows, dropped = outcome.rows, outcome.dropped
                return SearchResult(enveloped, call.fetch_id, None, rows, dropped, call.provider, query, cost)
            outcome = text
        failure = outcome if isinstance(outcome, SearchFailure) else DIED
        message = failure.message.encode("utf-8", "backslashreplace").decode("utf-8")
        return SearchResult(
            f"{TOOL}: {message}", call.fetch_id, failure, provider=call.provider, credits=cost
        )

    def _write(self, call: SearchCall, result: SearchResult | None) -> bool:
        """Whether the line of an attempt could be written. result: None where the call was dropped."""
        digest = self._audit.query_digest(call.arguments.query) if call.arguments is not None else None
        try:
            self._audit.append(make_record(call, result, digest, time.monotonic()))
        except AuditUnavailableError as error:
            _log.error("web_search %s: %s", call.fetch_id, error)
            return False
        return True


def _hold(answer: SearchAnswer, arguments: SearchArguments) -> SearchAnswer | SearchFailure:
    """The rows that the arguments let through, whatever the provider says it did."""
    blank = find_blank_url(answer.rows)
    if blank is not None:
        return blank
    kept = keep_rows(answer.rows, arguments.include_domains, arguments.exclude_domains)
    dropped = answer.dropped + len(answer.rows) - len(kept)
    return replace(answer, rows=kept[: arguments.count], dropped=dropped)


def _busy(name: SearchProviderName) -> SearchFailure:
    return SearchFailure(
        FailureKind.BACKEND, f'provider "{name}" has too many searches waiting; try again in a few seconds'
    )
