"""The use case: one call of web_search, from its arguments to the text a model may read (SPEC 4).

1 arguments → 2 each provider of the chain: capabilities → its turn → its answer → domain lists, count → 3 envelope

A call ends in a `SearchResult`, never in an exception, but for cancellation: a dropped call ends its search at once
and leaves one audit line behind. Each provider that was asked has its own, written before its rows are handed out.
"""

import asyncio
import logging
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Final, Protocol

from fetchd.core.caller import Caller
from fetchd.core.envelope import render_envelope
from fetchd.core.failures import FailureKind
from fetchd.core.progress import FetchProgress, Phase
from fetchd.fetch import fresh_fetch_id, fresh_nonce
from proxy_addons.audit import AuditUnavailableError, FetchOutcome, SearchRecord
from proxy_addons.policy.config_search import ProviderConfig, SearchConfig, SearchProviderName
from proxy_addons.policy.wire import policy_name

from .arguments import parse_search_arguments, read_search_arguments
from .capabilities import find_refused
from .domains import keep_rows
from .interface import SearchAnswer, SearchArguments, SearchFailure, SearchProvider, SearchRow
from .pacing import BusyError, Pace
from .results import find_blank_url, render_results

TOOL: Final = "web_search"
DEADLINE_SECONDS: Final = 30.0
"""Of a whole call, all of its providers included (SPEC 4)."""

REQUEST_FAILED: Final = SearchFailure(FailureKind.TRANSPORT, "request failed")
DIED: Final = SearchFailure(FailureKind.OTHER, "the search task did not finish")

_QUOTED_BODY: Final = re.compile(r"(backend returned \d+):.*", re.DOTALL)

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SearchResult:
    """How a call ended. `text` is enveloped; only that of a failure is the bare message.

    rows: those of the text, in its order. provider: who answered, or failed last; None when none was asked. query: as
    it was asked. credits: what the provider said it cost.
    """

    text: str
    fetch_id: str
    failure: SearchFailure | None = None
    rows: tuple[SearchRow, ...] = ()
    dropped: int = 0
    provider: str | None = None
    query: str = ""
    credits: float | None = None


class SearchLog(Protocol):
    """What the use case asks of the audit log; the whole interface is `proxy_addons.audit.AuditSink`."""

    def append(self, record: SearchRecord) -> int:
        """Write one line; raises AuditUnavailableError."""
        ...

    def query_digest(self, query: str) -> str | None:
        """The keyed digest that stands for a query."""
        ...


@dataclass(slots=True)
class _Call:
    """What is known of a call so far, for its audit lines."""

    caller: Caller
    fetch_id: str
    ends: float
    config: SearchConfig
    progress: FetchProgress
    arguments: SearchArguments | None = None
    attempt: int = 0
    provider: str | None = None
    began: float = 0.0


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
    ) -> None:
        self._providers: Final = providers
        self._config: Final = config
        self._audit: Final = log
        self._deadline: Final = deadline
        self._make_nonce: Final = make_nonce
        self._make_fetch_id: Final = make_fetch_id
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
        call = _Call(caller, self._make_fetch_id(), now + self._deadline, self._config(), progress, began=now)
        try:
            return await self._run(arguments, call)
        except asyncio.CancelledError:
            self._write(call, FetchOutcome.ABORTED)
            raise
        except Exception:  # noqa: BLE001 - a fault of ours fails closed: kind Other
            _log.exception("web_search %s died", call.fetch_id)
            return self._end(DIED, call)

    async def _run(self, arguments: str | bytes | Mapping[str, object], call: _Call) -> SearchResult:
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
        self, name: SearchProviderName, arguments: SearchArguments, call: _Call, seconds: float
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
        limits = call.config.providers.get(name) or ProviderConfig(name)
        pace, started = self._paces.setdefault(name, Pace()), False
        try:
            async with asyncio.timeout(seconds):
                async with pace.turn(call.caller.agent, limits.concurrency, limits.requests_per_minute):
                    started = True
                    answer = await provider.search(arguments, call.caller)
        except BusyError:
            return _busy(name)
        except TimeoutError:
            return REQUEST_FAILED if started else _busy(name)
        return answer if isinstance(answer, SearchFailure) else _hold(answer, arguments)

    def _end(self, outcome: SearchAnswer | SearchFailure, call: _Call) -> SearchResult:
        """The result of an attempt, once its line is written."""
        result = self._render(outcome, call)
        if not self._write(call, *_describe(result, outcome)):
            # Nothing is handed out that the log does not know of.
            return self._render(DIED, call)
        return result

    def _render(self, outcome: SearchAnswer | SearchFailure, call: _Call) -> SearchResult:
        if isinstance(outcome, SearchAnswer) and call.arguments is not None:
            text = render_results(call.arguments.query, outcome.rows)
            if isinstance(text, str):
                enveloped = render_envelope(text, self._make_nonce())
                return SearchResult(
                    enveloped,
                    call.fetch_id,
                    None,
                    outcome.rows,
                    outcome.dropped,
                    call.provider,
                    call.arguments.query,
                    outcome.credits,
                )
            outcome = text
        failure = outcome if isinstance(outcome, SearchFailure) else DIED
        message = failure.message.encode("utf-8", "backslashreplace").decode("utf-8")
        return SearchResult(f"{TOOL}: {message}", call.fetch_id, failure, provider=call.provider)

    def _write(self, call: _Call, outcome: FetchOutcome, facts: "_Facts | None" = None) -> bool:
        """Whether the line could be written."""
        try:
            self._audit.append(self._record(call, outcome, facts or _Facts()))
        except AuditUnavailableError as error:
            _log.error("web_search %s: %s", call.fetch_id, error)
            return False
        return True

    def _record(self, call: _Call, outcome: FetchOutcome, facts: "_Facts") -> SearchRecord:
        found, profile = call.arguments, call.caller.profile
        record = SearchRecord(
            tool=TOOL,
            agent=call.caller.agent,
            profile=profile.name,
            policy=policy_name(profile),
            fetch_id=call.fetch_id,
            attempt=call.attempt,
            provider=call.provider,
            outcome=outcome,
            failure=facts.failure,
            detail=facts.detail,
            rows=facts.rows,
            dropped=facts.dropped,
            credits=facts.credits,
            text_sha256=facts.text_sha256,
            ms=(time.monotonic() - call.began) * 1000,
        )
        if found is None:
            return record
        return replace(
            record,
            query=found.query if call.config.log_queries else None,
            query_digest=self._audit.query_digest(found.query),
            count=found.count,
            freshness=found.freshness,
            country=found.country,
            search_lang=found.search_lang,
            safesearch=found.safesearch,
            include_domains=found.include_domains,
            exclude_domains=found.exclude_domains,
        )


@dataclass(frozen=True, slots=True)
class _Facts:
    """What an audit line says of an attempt's end."""

    failure: str | None = None
    detail: str | None = None
    rows: int | None = None
    dropped: int | None = None
    credits: float | None = None
    text_sha256: str | None = None


def _describe(result: SearchResult, outcome: SearchAnswer | SearchFailure) -> tuple[FetchOutcome, _Facts]:
    cost = outcome.credits if isinstance(outcome, SearchAnswer) else None
    digest = sha256(result.text.encode("utf-8")).hexdigest()
    failure = result.failure
    if failure is None:
        return FetchOutcome.SUCCESS, _Facts(
            rows=len(result.rows), dropped=result.dropped, credits=cost, text_sha256=digest
        )
    detail = _QUOTED_BODY.sub(r"\1", failure.logged or failure.message)
    return FetchOutcome.HARD, _Facts(
        failure=failure.kind, detail=f"{TOOL}: {detail}", credits=cost, text_sha256=digest
    )


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
