"""The hops of one page read: through the gateway one by one, within one time limit, the body into the store.

    hop 0 ──► redirect ──► hop 1 ──► … ──► answer ──► body, content codings undone ──► blob

The allowlist travels with every hop and is judged in the gateway; it is judged here as well. A try that a transport
fault ended is repeated, after a wait, as long as there is time: a GET changes nothing (RFC 9110, 9.2.2).
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Final, Never

from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from proxy_addons.policy.codings import (
    BodyError,
    OverCapError,
    UnsupportedCodingError,
    parse_content_encoding,
)
from proxy_addons.policy.hosts import HostPattern, matches_any
from proxy_addons.policy.reading import PAGE_READ
from proxy_addons.policy.redirects import RedirectKind, decide_redirect
from proxy_addons.policy.targets import Target, TargetParseError, parse_target
from proxy_addons.policy.verdicts import Rule
from proxy_addons.policy.wire import DaemonRequest, GatewayVerdict

from .core.caller import Caller
from .core.failures import Message, read_detail
from .core.gateway_answers import Chain, explain_refusal, read_verdict
from .core.progress import FetchProgress, Phase
from .core.read_failures import (
    ReadCode,
    ReadFailure,
    bad_status,
    policy_denied,
    too_large,
    transport_failed,
)
from .core.read_packet import Redirect
from .core.response import Fields, declared_length, field_values
from .decoding import Decoders
from .errors import BrokenAnswerError, NoAnswerError
from .hops import METHOD, read_problem
from .store import AuditPosition, Blob, PageStore, RedirectHop, Validators
from .transport import HopAnswer, HopRequest, Transport

MAX_TRIES: Final = 3
"""Of one hop; each repeat waits up to a second or two first."""
FIRST_WAIT: Final = 0.2
LONGEST_WAIT: Final = 2.0
_REPEATABLE: Final = frozenset({Rule.UPSTREAM, Rule.CONNECT_TIMEOUT})
"""Refusals of the gateway that are faults of the way to the origin."""
_URL_RULES: Final = frozenset(
    {
        Rule.PARSE, Rule.SCHEME, Rule.USERINFO, Rule.PORT, Rule.IP_LITERAL, Rule.METHOD, Rule.HOST,
        Rule.NO_ALLOWED_ADDRESS, Rule.REDIRECT_CAP, Rule.DOWNGRADE,
    }
)  # fmt: skip

_log = logging.getLogger(__name__)

FindValidators = Callable[[Target], Awaitable[Validators | None]]


class _FaultError(Exception):
    """A try that may be repeated; `failure` is what the caller is told if none succeeds."""

    def __init__(self, failure: ReadFailure) -> None:
        super().__init__(failure.text)
        self.failure = failure


class _EndError(Exception):
    """The read has ended without a page."""

    def __init__(self, failure: ReadFailure) -> None:
        super().__init__(failure.text)
        self.failure = failure


@dataclass(frozen=True, slots=True)
class PageHad:
    """A page that is in the store. target: the final one. blob None: the origin said it has not changed (304)."""

    target: Target
    status: int
    fields: Fields
    blob: Blob | None
    redirects: tuple[Redirect, ...]
    hops: tuple[RedirectHop, ...]
    decision: AuditPosition | None
    policy: str
    retries: int
    validators: Validators | None


class ReadChain:
    """One read on its way. caller: with the profile of page reads that its own, `base`, became."""

    def __init__(
        self,
        transport: Transport,
        decoders: Decoders,
        store: PageStore,
        caller: Caller,
        fetch_id: str,
        progress: FetchProgress,
        find_validators: FindValidators,
        base: str,
    ) -> None:
        self._transport: Final = transport
        self._decoders: Final = decoders
        self._store: Final = store
        self._caller: Final = caller
        self._fetch_id: Final = fetch_id
        self._progress: Final = progress
        self._find_validators: Final = find_validators
        self._stated: Final = f"{PAGE_READ}/{base}"
        self._redirects: list[Redirect] = []
        self._hops: list[RedirectHop] = []
        self._retries = 0

    @property
    def _allowlist(self) -> tuple[HostPattern, ...] | None:
        return self._caller.profile.allowlist

    async def follow(self, first: Target) -> PageHad | ReadFailure:
        """Read `first`, which was admitted, and where it leads to. Raises StoreError, and faults of ours."""
        deadline = asyncio.get_running_loop().time() + self._caller.profile.total_timeout
        chain = Chain(first, first, 0)
        try:
            async with asyncio.timeout_at(deadline):
                while True:
                    outcome = await self._repeat(chain)
                    if isinstance(outcome, PageHad):
                        return outcome
                    chain = chain.after(outcome)
        except TimeoutError:
            failure = transport_failed(first.display, "timed out", retries=self._retries)
            return replace(failure, rule=Rule.TOTAL_TIMEOUT.value)
        except (_EndError, _FaultError) as end:
            return end.failure

    async def _repeat(self, chain: Chain) -> PageHad | Target:
        tries = AsyncRetrying(
            stop=stop_after_attempt(MAX_TRIES),
            wait=wait_random_exponential(FIRST_WAIT, LONGEST_WAIT),
            retry=retry_if_exception_type(_FaultError),
            reraise=True,
        )
        async for attempt in tries:
            with attempt:
                if attempt.retry_state.attempt_number > 1:
                    self._retries += 1
                return await self._ask(chain)
        raise AssertionError("tenacity ends by an answer or an error")

    async def _ask(self, chain: Chain) -> PageHad | Target:
        self._progress.hop, self._progress.phase = chain.hop, Phase.WAITING
        validators = await self._find_validators(chain.current)
        identity = DaemonRequest(self._caller.agent, self._stated, self._fetch_id, chain.hop, self._allowlist)
        request = HopRequest(chain.current, identity, _conditions(validators))
        try:
            async with self._transport.send(request) as answer:
                verdict = await self._judge(answer, chain)
                following = self._follow_redirect(answer, verdict, chain)
                if following is not None:
                    return following
                return await self._keep(answer, verdict, chain, validators)
        except NoAnswerError as error:
            _log.debug("read %s, hop %d: %s", self._fetch_id, chain.hop, error)
            raise self._fault(chain, "network error") from error
        except BrokenAnswerError as error:
            raise self._fault(chain, "the answer broke off") from error

    # --- the gateway's word --------------------------------------------------------------------------------------

    async def _judge(self, answer: HopAnswer, chain: Chain) -> GatewayVerdict:
        verdict = read_verdict(answer.fields, self._fetch_id)
        if verdict is None:
            raise self._fault(chain, "network error")
        if verdict.rule is not None:
            await self._refused(verdict.rule, answer, chain)
        return verdict

    async def _refused(self, rule: Rule, answer: HopAnswer, chain: Chain) -> Never:
        profile = self._caller.profile
        told = explain_refusal(rule, await read_problem(answer), chain, profile.byte_cap, METHOD)
        if rule in _REPEATABLE:
            raise self._fault(chain, "the origin could not be reached", rule)
        if rule is Rule.BYTE_CAP:
            raise _EndError(too_large(profile.byte_cap))
        if rule is Rule.BUDGET and told.message is Message.BUDGET:
            raise _EndError(ReadFailure(ReadCode.BUDGET, told.text, rule=rule.value))
        if rule is Rule.HOST:
            self._check_allowlist(_refused_target(told.text, rule, chain), chain)
        if rule in _URL_RULES and told.message is not Message.NETWORK:
            raise _EndError(ReadFailure(ReadCode.URL_REFUSED, told.text, rule=rule.value))
        what = _OWN_WORDS.get(rule, "network error").format(host=chain.current.host)
        raise _EndError(transport_failed(chain.current.display, what, retries=self._retries, rule=rule.value))

    def _check_allowlist(self, found: tuple[Target, int], chain: Chain) -> None:
        target, hop = found
        if self._allowlist is not None and not matches_any(self._allowlist, target):
            raise _EndError(policy_denied(target.host, self._allowlist, hop))

    def _follow_redirect(self, answer: HopAnswer, verdict: GatewayVerdict, chain: Chain) -> Target | None:
        locations = field_values(answer.fields, b"location")
        profile, source = self._caller.profile, chain.current
        decision = decide_redirect(source, answer.status, locations, chain.hop, METHOD, profile)
        if decision.kind is not RedirectKind.REDIRECT or decision.target is None:
            return None
        target = decision.target
        if decision.verdict.refused:  # the gateway let it slip, or has other rules by now
            self._check_allowlist((target, chain.hop + 1), chain)
            rule = decision.verdict.rule
            text = decision.verdict.message
            raise _EndError(ReadFailure(ReadCode.URL_REFUSED, text, rule=rule.value if rule else None))
        self._redirects.append(Redirect(source.href, target.href, answer.status))
        self._hops.append(
            RedirectHop(
                source.display, target.display, answer.status, verdict.outcome.value, verdict.policy,
                _position(verdict),
            )
        )  # fmt: skip
        return target

    # --- the page ------------------------------------------------------------------------------------------------

    async def _keep(
        self, answer: HopAnswer, verdict: GatewayVerdict, chain: Chain, sent: Validators | None
    ) -> PageHad:
        target, cap = chain.current, self._caller.profile.byte_cap
        if answer.status == 304 and sent is not None:
            # Those sent came with this very body; others that a 304 names may be another's (RFC 9111, 4.3.4).
            return self._had(answer, verdict, target, None, sent)
        # A part that nobody asked for (206) is not the page.
        if not 200 <= answer.status <= 299 or answer.status == 206:
            raise _EndError(bad_status(target.display, answer.status))
        if declared_length(answer.fields) > cap:
            raise _EndError(too_large(cap))
        try:
            codings = parse_content_encoding(field_values(answer.fields, b"content-encoding"))
        except UnsupportedCodingError:
            raise _EndError(
                transport_failed(target.display, "its content coding is not one that is read here")
            ) from None
        self._progress.phase = Phase.READING
        async with self._store.keep() as writer:
            try:
                with self._decoders.open(codings, cap, writer.write) as body:
                    async for chunk in answer.chunks:
                        await body.feed(chunk)
                        self._progress.bytes = body.size
                    body.finish()
            except OverCapError:
                raise _EndError(too_large(cap)) from None
            except BodyError as error:
                raise self._fault(chain, "its body cannot be decoded") from error
            blob = await writer.commit()
        return self._had(answer, verdict, target, blob, _read_validators(answer.fields))

    def _had(
        self,
        answer: HopAnswer,
        verdict: GatewayVerdict,
        target: Target,
        blob: Blob | None,
        validators: Validators | None,
    ) -> PageHad:
        return PageHad(
            target,
            answer.status,
            answer.fields,
            blob,
            tuple(self._redirects),
            tuple(self._hops),
            _position(verdict),
            verdict.policy,
            self._retries,
            validators,
        )

    def _fault(self, chain: Chain, what: str, rule: Rule | None = None) -> _FaultError:
        rule_code = rule.value if rule is not None else None
        return _FaultError(
            transport_failed(chain.current.display, what, retries=self._retries, rule=rule_code)
        )


_OWN_WORDS: Final = {
    Rule.DNS_FAILED: "dns resolution failed for {host}",
    Rule.TLS_VERIFY: "the certificate of {host} could not be verified",
    Rule.TOTAL_TIMEOUT: "timed out",
}
"""What a caller is told of rules that are neither of the URL nor repeated."""


def _refused_target(text: str, rule: Rule, chain: Chain) -> tuple[Target, int]:
    """Which URL a refusal is about, and at which hop: the one asked for, or the target of its redirect."""
    found = read_detail(Message.REDIRECT, rule, text, source=chain.current.display)
    if found is not None:
        shown = text.removeprefix(f"redirect from {chain.current.display} to ").partition(" refused: ")[0]
        try:
            return parse_target(shown), chain.hop + 1
        except TargetParseError:
            pass
    return chain.current, chain.hop


def _conditions(validators: Validators | None) -> tuple[tuple[bytes, bytes], ...]:
    if validators is None:
        return ()
    fields = ((b"If-None-Match", validators.etag), (b"If-Modified-Since", validators.last_modified))
    return tuple((name, value) for name, value in fields if value)


def _read_validators(fields: Fields) -> Validators | None:
    tags, dates = field_values(fields, b"etag"), field_values(fields, b"last-modified")
    if not tags and not dates:
        return None
    return Validators(tags[0] if tags else None, dates[0] if dates else None)


def _position(verdict: GatewayVerdict) -> AuditPosition | None:
    return AuditPosition(*verdict.audit) if verdict.audit is not None else None
