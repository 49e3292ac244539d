"""A call of web_search: what is known of it on its way, how it ended, and the audit line that says so. Pure."""

import re
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Final

from fetchd.core.caller import Caller
from fetchd.core.progress import FetchProgress
from proxy_addons.audit import CallOutcome, SearchRecord
from proxy_addons.policy.config_search import SearchConfig
from proxy_addons.policy.wire import policy_name

from .interface import SearchArguments, SearchFailure, SearchRow

TOOL: Final = "web_search"

_QUOTED_BODY: Final = re.compile(r"(backend returned \d+):.*", re.DOTALL)
"""What a provider wrote may repeat the query: the log has the status alone."""


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


@dataclass(slots=True)
class SearchCall:
    """What is known of a call so far. ends, began: by the monotonic clock; began: of the attempt under way."""

    caller: Caller
    fetch_id: str
    ends: float
    config: SearchConfig
    progress: FetchProgress
    began: float
    arguments: SearchArguments | None = None
    attempt: int = 0
    provider: str | None = None


def make_record(
    call: SearchCall, result: SearchResult | None, query_digest: str | None, now: float
) -> SearchRecord:
    """The line of an attempt. result: None where the call was dropped."""
    arguments, profile = call.arguments, call.caller.profile
    record = SearchRecord(
        tool=TOOL,
        agent=call.caller.agent,
        profile=profile.name,
        policy=policy_name(profile),
        fetch_id=call.fetch_id,
        attempt=call.attempt,
        provider=call.provider,
        outcome=CallOutcome.ABORTED,
        ms=(now - call.began) * 1000,
    )
    if arguments is not None:
        record = replace(
            record,
            query=arguments.query if call.config.log_queries else None,
            query_digest=query_digest,
            count=arguments.count,
            freshness=arguments.freshness,
            country=arguments.country,
            search_lang=arguments.search_lang,
            safesearch=arguments.safesearch,
            include_domains=arguments.include_domains,
            exclude_domains=arguments.exclude_domains,
        )
    return record if result is None else _add_end(record, result)


def _add_end(record: SearchRecord, result: SearchResult) -> SearchRecord:
    digest, failure = sha256(result.text.encode("utf-8")).hexdigest(), result.failure
    if failure is None:
        return replace(
            record,
            outcome=CallOutcome.SUCCESS,
            rows=len(result.rows),
            dropped=result.dropped,
            credits=result.credits,
            text_sha256=digest,
        )
    detail = _QUOTED_BODY.sub(r"\1", failure.logged or failure.message)
    return replace(
        record,
        outcome=CallOutcome.HARD,
        failure=failure.kind,
        detail=f"{TOOL}: {detail}",
        credits=result.credits,
        text_sha256=digest,
    )
