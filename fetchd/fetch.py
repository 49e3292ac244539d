"""The use case: one call of web_fetch, from its arguments to the text a model may read (SPEC 2, 3).

1 arguments → 2 admission, no network → 3 hops → 4 text → 5 envelope, audit line

A call ends in a `FetchResult`, never in an exception, but for cancellation: a dropped call leaves its
connection closed and one audit line behind.
"""

import asyncio
import logging
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Final, Protocol

from proxy_addons.audit import AuditUnavailableError, CallOutcome, FetchRecord
from proxy_addons.policy.admission import decide_url
from proxy_addons.policy.content_types import ContentClass
from proxy_addons.policy.targets import Target
from proxy_addons.policy.verdicts import Failure
from proxy_addons.policy.wire import policy_name

from .core.arguments import FetchArguments, parse_arguments, read_arguments
from .core.caller import Caller
from .core.charset import UTF_8, decode_text, parse_label
from .core.envelope import NONCE_BYTES, render_envelope
from .core.failures import Message, ToolFailure, fail
from .core.gateway_answers import explain_verdict
from .core.header import Extraction, render_page_text
from .core.progress import FetchProgress, Phase
from .core.windows import cut_text
from .decoding import Decoders
from .extract.pool import Extractor
from .hops import METHOD, Body, HopChain
from .offered_pages import MAX_HEAD, MAX_TEXT, FetchedPage
from .transport import Transport

TOOL: Final = "web_fetch"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FetchResult:
    """How a call ended. `text` is enveloped; only that of a hard failure is the bare message.

    final_url (serialized, query kept), truncated and extraction are set on success only.
    """

    text: str
    fetch_id: str
    failure: ToolFailure | None = None
    final_url: str | None = None
    truncated: bool | None = None
    extraction: Extraction | None = None

    @property
    def is_hard(self) -> bool:
        """Whether the call failed, instead of returning a text."""
        return self.failure is not None and self.failure.failure is Failure.HARD


class FetchLog(Protocol):
    """What the use case asks of the audit log; the whole interface is `proxy_addons.audit.AuditSink`."""

    def append(self, record: FetchRecord) -> int:
        """Write one line; raises AuditUnavailableError."""
        ...

    def query_digest(self, query: str) -> str | None:
        """The keyed digest that stands for a query."""
        ...


@dataclass(frozen=True, slots=True)
class _Page:
    """The content of a success, and the body it was made of. text, html: what the search index is offered."""

    body: Body
    content: str
    truncated: bool
    extraction: Extraction
    text: str
    html: str


@dataclass(slots=True)
class _Call:
    """What is known of a call so far, for its audit line."""

    caller: Caller
    fetch_id: str
    started: float
    asked_at: int
    progress: FetchProgress
    target: Target | None = None
    chain: HopChain | None = None


def fresh_nonce() -> str:
    """A nonce for one envelope."""
    return secrets.token_hex(NONCE_BYTES)


def fresh_fetch_id() -> str:
    """An id for one call, 20 hex digits: milliseconds since 1970, so that ids sort; 32 random bits."""
    return f"{time.time_ns() // 1_000_000:012x}{secrets.token_hex(4)}"


class WebFetch:
    """The tool web_fetch over one transport, one extractor and one audit log. offer: told of each page that was
    handed out; must not wait or fail."""

    def __init__(
        self,
        transport: Transport,
        extractor: Extractor,
        log: FetchLog,
        *,
        offer: Callable[[FetchedPage], object] = lambda _page: None,
        make_nonce: Callable[[], str] = fresh_nonce,
        make_fetch_id: Callable[[], str] = fresh_fetch_id,
    ) -> None:
        self._transport: Final = transport
        self._extractor: Final = extractor
        self._decoders: Final = Decoders()
        self._audit: Final = log
        self._offer: Final = offer
        self._make_nonce: Final = make_nonce
        self._make_fetch_id: Final = make_fetch_id

    async def call(
        self,
        arguments: str | bytes | Mapping[str, object],
        caller: Caller,
        progress: FetchProgress | None = None,
    ) -> FetchResult:
        """Run one call. arguments: the JSON text of it, or what a JSON reader made of that.

        progress: kept up to date meanwhile. Raises nothing but CancelledError.
        """
        call = _Call(
            caller, self._make_fetch_id(), time.monotonic(), time.time_ns(), progress or FetchProgress()
        )
        try:
            outcome = await self._run(arguments, call)
        except asyncio.CancelledError:
            self._write_aborted(call)
            raise
        except Exception:  # noqa: BLE001 - a fault of ours fails closed: kind Other, SPEC 2
            _log.exception("web_fetch %s died", call.fetch_id)
            outcome = fail(Message.TASK_DIED)
        return self._finish(outcome, call)

    async def _run(self, arguments: str | bytes | Mapping[str, object], call: _Call) -> _Page | ToolFailure:
        parsed = (
            parse_arguments(arguments) if isinstance(arguments, str | bytes) else read_arguments(arguments)
        )
        if isinstance(parsed, ToolFailure):
            return parsed
        admission = decide_url(parsed.url, METHOD, call.caller.profile)
        call.target = admission.target
        if admission.verdict.refused or admission.target is None:
            return explain_verdict(admission.verdict)
        call.chain = HopChain(self._transport, self._decoders, call.caller, call.fetch_id, call.progress)
        body = await call.chain.follow(admission.target)
        if isinstance(body, ToolFailure):
            return body
        call.progress.phase = Phase.RENDERING
        return await self._read_text(body, parsed)

    async def _read_text(self, body: Body, arguments: FetchArguments) -> _Page | ToolFailure:
        """SPEC 2.1 row 6, then the content. Decoding and rendering take time: not on the event loop."""
        label = body.plan.charset
        encoding = UTF_8 if label is None else parse_label(label)
        if encoding is None:
            return fail(Message.CHARSET, url=body.target.display, charset=(label or "").lower())
        text = await asyncio.to_thread(decode_text, body.data, encoding, cut=body.cut)
        extraction, html = Extraction.PLAIN, ""
        if body.plan.content_class is ContentClass.HTML:
            rendering = await self._extractor.render(text, body.target.href, raw=arguments.raw)
            html = text[:MAX_HEAD]
            text, extraction = rendering.text, rendering.extraction
        window = cut_text(text, arguments.max_chars)
        return _Page(body, window.text, window.truncated or body.cut, extraction, text[:MAX_TEXT], html)

    def _finish(self, outcome: _Page | ToolFailure, call: _Call) -> FetchResult:
        result = self._render(outcome, call.fetch_id)
        try:
            self._audit.append(self._record(result, outcome, call))
        except AuditUnavailableError as error:
            # Nothing is handed out that the log does not know of.
            _log.error("web_fetch %s: %s", call.fetch_id, error)
            return self._render(fail(Message.TASK_DIED), call.fetch_id)
        if isinstance(outcome, _Page):
            self._offer(
                FetchedPage(
                    agent=call.caller.agent,
                    url=outcome.body.target.href,
                    asked_at=call.asked_at,
                    text=outcome.text,
                    html=outcome.html,
                )
            )
        return result

    def _render(self, outcome: _Page | ToolFailure, fetch_id: str) -> FetchResult:
        if isinstance(outcome, ToolFailure):
            hard = outcome.failure is Failure.HARD
            text = outcome.text if hard else render_envelope(outcome.text, self._make_nonce())
            return FetchResult(text, fetch_id, outcome)
        url, truncated, extraction = outcome.body.target.href, outcome.truncated, outcome.extraction
        text = render_page_text(url, truncated, extraction, outcome.content)
        return FetchResult(
            render_envelope(text, self._make_nonce()), fetch_id, None, url, truncated, extraction
        )

    def _record(self, result: FetchResult, outcome: _Page | ToolFailure, call: _Call) -> FetchRecord:
        record = replace(
            self._begin_record(call), text_sha256=sha256(result.text.encode("utf-8")).hexdigest()
        )
        if isinstance(outcome, ToolFailure):
            return replace(
                record,
                outcome=CallOutcome(outcome.failure.value),
                failure=outcome.kind,
                rule=outcome.rule,
                detail=outcome.text,
            )
        return replace(
            record,
            outcome=CallOutcome.SUCCESS,
            final_url=outcome.body.target.display,
            truncated=outcome.truncated,
            extraction=outcome.extraction,
            bytes=len(outcome.body.data),
        )

    def _write_aborted(self, call: _Call) -> None:
        try:
            self._audit.append(self._begin_record(call))
        except AuditUnavailableError as error:
            _log.error("web_fetch %s, dropped: %s", call.fetch_id, error)

    def _begin_record(self, call: _Call) -> FetchRecord:
        """What can be said of a call however far it came: as that of one that was dropped."""
        target, profile = call.target, call.caller.profile
        return FetchRecord(
            tool=TOOL,
            agent=call.caller.agent,
            profile=profile.name,
            policy=policy_name(profile),
            fetch_id=call.fetch_id,
            url=target.display if target is not None else None,
            query_digest=self._audit.query_digest(target.query.removeprefix("?")) if target else None,
            outcome=CallOutcome.ABORTED,
            status=call.chain.status if call.chain is not None else None,
            ms=(time.monotonic() - call.started) * 1000,
        )
