"""The use case: one call of page_read, from its inputs to the packet bound to a digest (SPEC 5).

1 inputs → 2 admission and allowlist, no network → 3 hops, body into the store → 4 slice → 5 audit line, receipt

A call ends in a `ReadOutcome`, never in an exception, but for cancellation. No result stands for a page that was not
read, and none is handed out before its receipt is sealed.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Protocol

from proxy_addons.audit import AuditUnavailableError, CallOutcome, EventRecord, FetchRecord, Head, Record
from proxy_addons.policy.admission import decide_url
from proxy_addons.policy.content_types import ContentClass, has_non_ascii, parse_content_type
from proxy_addons.policy.hosts import matches_any
from proxy_addons.policy.reading import derive_read_profile
from proxy_addons.policy.targets import Target
from proxy_addons.policy.verdicts import Rule
from proxy_addons.policy.wire import policy_name

from .core.caller import Caller
from .core.charset import UTF_8, parse_label
from .core.gateway_answers import explain_verdict
from .core.progress import FetchProgress, Phase
from .core.read_arguments import ExtractMode, ReadArguments, parse_read_arguments, read_read_arguments
from .core.read_failures import ReadCode, ReadFailure, extract_failed, policy_denied
from .core.read_packet import ReadResult, render_packet, render_time
from .core.response import Fields, field_values
from .decoding import Decoders
from .errors import StoreError, StoreFullError
from .extract.slices import SliceError, SlicePlan
from .fetch import fresh_fetch_id
from .hops import METHOD
from .offered_pages import KeptPage, cut_extracted
from .read_hops import PageHad, ReadChain
from .store import AuditPosition, Blob, PageRead, PageStore, Receipt, Validators
from .transport import Transport

TOOL: Final = "page_read"
INTERNAL: Final = ReadFailure(ReadCode.INTERNAL, "page_read: the read did not finish")

_log = logging.getLogger(__name__)


class Slicer(Protocol):
    """Makes of a kept body what was asked for, in bounded time and memory."""

    async def slice(self, path: Path, size: int, plan: SlicePlan) -> object:
        """A str, object or array, of a body of `size` bytes. Raises SliceError."""
        ...


class ReadLog(Protocol):
    """What the use case asks of the audit log; the whole interface is `proxy_addons.audit.AuditSink`."""

    @property
    def series(self) -> str:
        """The chain's name."""
        ...

    def append_line(self, record: Record) -> Head:
        """Write one line; raises AuditUnavailableError."""
        ...

    def query_digest(self, query: str) -> str | None:
        """The keyed digest that stands for a query."""
        ...


@dataclass(frozen=True, slots=True)
class ReadOutcome:
    """How a call ended: with a packet and its receipt, or with a failure."""

    fetch_id: str
    packet: Mapping[str, object] | None = None
    receipt: Receipt | None = None
    failure: ReadFailure | None = None


@dataclass(slots=True)
class _Call:
    """What is known of a call so far, for its audit line. `caller`: with the profile of page reads, which
    `base` became."""

    caller: Caller
    base: str
    fetch_id: str
    started: float
    asked_at: int
    progress: FetchProgress
    target: Target | None = None
    had: PageHad | None = None
    blob: Blob | None = None
    text_plan: SlicePlan | None = None


class PageReader:
    """The tool page_read over one transport, one store and one audit log. offer: told of each page that was handed
    out; must not wait or fail."""

    def __init__(
        self,
        transport: Transport,
        slicer: Slicer,
        store: PageStore,
        log: ReadLog,
        *,
        offer: Callable[[KeptPage], object] = lambda _page: None,
        make_fetch_id: Callable[[], str] = fresh_fetch_id,
    ) -> None:
        self._transport: Final = transport
        self._slicer: Final = slicer
        self._store: Final = store
        self._audit: Final = log
        self._offer: Final = offer
        self._decoders: Final = Decoders()
        self._make_fetch_id: Final = make_fetch_id

    async def call(
        self,
        arguments: str | bytes | Mapping[str, object],
        caller: Caller,
        max_bytes: int,
        progress: FetchProgress | None = None,
    ) -> ReadOutcome:
        """Run one call. arguments: the JSON text of it, or what a JSON reader made of that. max_bytes: the ceiling.

        Raises nothing but CancelledError.
        """
        parsed = (
            parse_read_arguments(arguments)
            if isinstance(arguments, str | bytes)
            else read_read_arguments(arguments)
        )
        narrowed = parsed.narrowed if isinstance(parsed, ReadArguments) else None
        reading = Caller(caller.agent, derive_read_profile(caller.profile, max_bytes, narrowed))
        call = _Call(
            reading, caller.profile.name, self._make_fetch_id(), time.monotonic(), time.time_ns(),
            progress or FetchProgress(),
        )  # fmt: skip
        try:
            outcome = parsed if isinstance(parsed, ReadFailure) else await self._run(parsed, call)
        except asyncio.CancelledError:
            self._write(call, CallOutcome.ABORTED)
            raise
        except StoreError as error:
            _log.error("page_read %s: %s", call.fetch_id, error)
            outcome = _store_failed(error)
        except Exception:  # noqa: BLE001 - a fault of ours fails closed
            _log.exception("page_read %s died", call.fetch_id)
            outcome = INTERNAL
        if isinstance(outcome, ReadFailure):
            return await self._fail(outcome, call)
        return await self._seal(outcome, call)

    async def _run(self, arguments: ReadArguments, call: _Call) -> ReadResult | ReadFailure:
        admission = decide_url(arguments.url, METHOD, call.caller.profile)
        target = call.target = admission.target
        if admission.verdict.refused or target is None:
            return _refused(admission.target, admission.verdict.rule, arguments, call) or ReadFailure(
                ReadCode.URL_REFUSED,
                explain_verdict(admission.verdict).text,
                rule=admission.verdict.rule.value if admission.verdict.rule is not None else None,
            )

        async def find_validators(hop: Target) -> Validators | None:
            if arguments.known_digest is None:
                return None
            return await self._store.find_validators(
                call.caller.agent, hop.display, self._digest_query(hop), arguments.known_digest
            )

        chain = ReadChain(
            self._transport, self._decoders, self._store, call.caller, call.fetch_id, call.progress,
            find_validators, call.base,
        )  # fmt: skip
        had = await chain.follow(target)
        if isinstance(had, ReadFailure):
            return had
        call.had = had
        fetched_at = datetime.now(UTC)
        blob = call.blob = had.blob if had.blob is not None else await self._known(arguments)
        as_text = plan_slice(had, replace(arguments, extract=ExtractMode.TEXT))
        call.text_plan = as_text if isinstance(as_text, SlicePlan) else None
        unchanged = blob.digest == arguments.known_digest
        extracted: object = None
        if not unchanged:
            call.progress.phase = Phase.RENDERING
            plan = plan_slice(had, arguments)
            if isinstance(plan, str):
                return extract_failed(blob.digest, plan)
            try:
                extracted = await self._slicer.slice(self._store.locate(blob.digest), blob.bytes, plan)
            except SliceError as error:
                return extract_failed(blob.digest, str(error))
        return ReadResult(
            had.target.href, had.status, blob.digest, arguments.extract, extracted, fetched_at,
            had.redirects, blob.bytes, had.retries, unchanged,
        )  # fmt: skip

    async def _known(self, arguments: ReadArguments) -> Blob:
        """The blob that a 304 is about; the store holds it since its validators were sent."""
        async with self._store.open_blob(arguments.known_digest or "") as reader:
            return reader.blob

    # --- the end -------------------------------------------------------------------------------------------------

    async def _seal(self, result: ReadResult, call: _Call) -> ReadOutcome:
        line = self._write(call, CallOutcome.SUCCESS, extraction=result.mode.value)
        if line is None or call.had is None or call.blob is None:
            return ReadOutcome(call.fetch_id, failure=INTERNAL)
        try:
            read = self._describe(call, call.had, call.blob, line, render_time(result.fetched_at))
            receipt = await self._store.seal(read)
        except StoreError as error:
            _log.error("page_read %s: %s", call.fetch_id, error)
            self._note_unsealed(call)
            return ReadOutcome(call.fetch_id, failure=_store_failed(error))
        self._offer(
            KeptPage(
                agent=call.caller.agent,
                url=result.final_url,
                asked_at=call.asked_at,
                blob=result.digest,
                size=result.size,
                path=self._store.locate(result.digest),
                plan=call.text_plan,
                text=cut_extracted(result.extracted) if result.mode is ExtractMode.TEXT else None,
            )
        )
        return ReadOutcome(call.fetch_id, render_packet(result), receipt)

    async def _fail(self, failure: ReadFailure, call: _Call) -> ReadOutcome:
        line = self._write(
            call,
            CallOutcome.HARD,
            failure=failure.code.value,
            rule=failure.rule,
            detail=failure.logged or failure.text,
        )
        if line is None:
            failure = INTERNAL
        elif failure.code is ReadCode.EXTRACT_FAILED and call.had is not None and call.blob is not None:
            try:  # the page itself was had, and stays to be asked for by its digest
                await self._store.note(
                    self._describe(call, call.had, call.blob, line, render_time(datetime.now(UTC)))
                )
            except StoreError as error:
                _log.error("page_read %s: %s", call.fetch_id, error)
        return ReadOutcome(call.fetch_id, failure=failure)

    def _describe(self, call: _Call, had: PageHad, blob: Blob, line: Head, fetched_at: str) -> PageRead:
        first = call.target or had.target
        return PageRead(
            id=call.fetch_id,
            tool=TOOL,
            agent=call.caller.agent,
            url=first.display,
            url_query_digest=self._digest_query(first),
            final_url=had.target.display,
            query_digest=self._digest_query(had.target),
            status=had.status,
            blob=blob,
            fetched_at=fetched_at,
            redirects=had.hops,
            policy=had.policy,
            fetch=AuditPosition(self._audit.series, line.seq, line.hash),
            decision=had.decision,
            revalidated=had.blob is None,
            validators=had.validators,
        )

    def _digest_query(self, target: Target) -> str | None:
        return self._audit.query_digest(target.query.removeprefix("?"))

    def _note_unsealed(self, call: _Call) -> None:
        try:
            self._audit.append_line(
                EventRecord(
                    event="receipt-failed",
                    detail="the page was read and its result withheld",
                    facts={"fetch_id": call.fetch_id},
                )
            )
        except AuditUnavailableError as error:
            _log.error("page_read %s: %s", call.fetch_id, error)

    def _write(
        self,
        call: _Call,
        outcome: CallOutcome,
        *,
        failure: str | None = None,
        rule: str | None = None,
        detail: str | None = None,
        extraction: str | None = None,
    ) -> Head | None:
        """The call's line; None when it cannot be written: nothing is handed out that the log does not know of."""
        target, profile, had = call.target, call.caller.profile, call.had
        record = FetchRecord(
            tool=TOOL,
            agent=call.caller.agent,
            profile=profile.name,
            policy=policy_name(profile),
            fetch_id=call.fetch_id,
            url=target.display if target is not None else None,
            query_digest=self._digest_query(target) if target is not None else None,
            outcome=outcome,
            failure=failure,
            rule=rule,
            detail=detail,
            final_url=had.target.display if had is not None else None,
            status=had.status if had is not None else None,
            extraction=extraction,
            content_digest=call.blob.digest if call.blob is not None else None,
            bytes=call.blob.bytes if call.blob is not None else None,
            ms=(time.monotonic() - call.started) * 1000,
        )
        try:
            return self._audit.append_line(record)
        except AuditUnavailableError as error:
            _log.error("page_read %s: %s", call.fetch_id, error)
            return None


def plan_slice(had: PageHad, arguments: ReadArguments) -> SlicePlan | str:
    """How the slice is made of the body, or why it cannot be (SPEC 2.1, rows 2, 3 and 6)."""
    content_class, essence, label = _declared_type(had.fields)
    wants_text = arguments.extract is ExtractMode.TEXT
    if wants_text and content_class is ContentClass.REFUSED:
        shown = essence or "a body without a content type"
        return f"{shown} cannot be returned as text"
    encoding = UTF_8 if label is None else parse_label(label)
    if encoding is None and wants_text:
        return f"unknown charset {(label or '')[:100].lower()}; its text cannot be decoded"
    return SlicePlan(
        arguments.extract, had.target.href, content_class, essence, encoding or UTF_8, arguments.link_text
    )


def _declared_type(fields: Fields) -> tuple[ContentClass, str | None, str | None]:
    """Class, essence and charset label of the first Content-Type; REFUSED where there is none to go by."""
    types = field_values(fields, b"content-type")
    found = parse_content_type(types[0]) if types and not has_non_ascii(types[0]) else None
    if found is None:
        return ContentClass.REFUSED, None, None
    return found.content_class, found.essence, found.charset


def _refused(
    target: Target | None, rule: Rule | None, arguments: ReadArguments, call: _Call
) -> ReadFailure | None:
    """A refusal that is the caller's own allowlist's."""
    if rule is not Rule.HOST or target is None or arguments.narrowed is None:
        return None
    if matches_any(arguments.narrowed, target):
        return None
    return policy_denied(target.host, arguments.allowlist, 0)


def _store_failed(error: StoreError) -> ReadFailure:
    """A page that could not be kept was not read. The cause is for the operator's log."""
    what = "the store is full" if isinstance(error, StoreFullError) else "the page could not be kept"
    return ReadFailure(ReadCode.INTERNAL, f"page_read: {what}; the operator's log says why")
