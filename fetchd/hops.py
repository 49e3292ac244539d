"""The hops of one fetch: asked of the gateway one by one, within one time limit, down to the decoded body.

    hop 0 ──► redirect ──► hop 1 ──► … ──► answer ──► SPEC 2.1 rows 1 to 5 ──► Body

The gateway judges; redirects are judged here as well, so that one a gateway let slip is not followed. Time
runs over the whole chain (SPEC 1). Where it ends decides the message: before a response head the request
timed out, after it the body could not be read.
"""

import asyncio
import logging
from dataclasses import dataclass
from typing import Final

from proxy_addons.policy.codings import BodyError, OverCapError
from proxy_addons.policy.redirects import RedirectKind, decide_redirect
from proxy_addons.policy.targets import Target
from proxy_addons.policy.wire import MAX_PROBLEM_BYTES, DaemonRequest

from .core.caller import Caller
from .core.failures import Message, ToolFailure, fail
from .core.gateway_answers import (
    Chain,
    explain_refusal,
    explain_verdict,
    network_error,
    read_verdict,
    timed_out,
)
from .core.progress import FetchProgress, Phase
from .core.response import BodyPlan, field_values, judge_head, over_cap
from .decoding import Decoders
from .errors import BrokenAnswerError, NoAnswerError
from .transport import HopAnswer, HopRequest, Transport

METHOD: Final = "GET"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Body:
    """A body, its content codings undone. target: the final one. cut: the body went on beyond the cap."""

    target: Target
    status: int
    plan: BodyPlan
    data: bytearray
    cut: bool


class HopChain:
    """One fetch on its way; `status`: of the last answer, if an origin gave it; else None."""

    __slots__ = ("_caller", "_decoders", "_fetch_id", "_progress", "_transport", "status")

    def __init__(
        self,
        transport: Transport,
        decoders: Decoders,
        caller: Caller,
        fetch_id: str,
        progress: FetchProgress,
    ) -> None:
        self._transport: Final = transport
        self._decoders: Final = decoders
        self._caller: Final = caller
        self._fetch_id: Final = fetch_id
        self._progress: Final = progress
        self.status: int | None = None

    async def follow(self, first: Target) -> Body | ToolFailure:
        """Fetch `first`, which was admitted, and where it leads to. Raises nothing but faults of ours."""
        deadline = asyncio.get_running_loop().time() + self._caller.profile.total_timeout
        chain = Chain(first, first, 0)
        while True:
            outcome = await self._ask(chain, deadline)
            if not isinstance(outcome, Target):
                return outcome
            chain = chain.after(outcome)

    async def _ask(self, chain: Chain, deadline: float) -> Body | Target | ToolFailure:
        """One hop: the body of the page, the target to go on to, or a failure."""
        in_body = False
        self._progress.hop, self._progress.phase = chain.hop, Phase.WAITING
        try:
            async with (
                asyncio.timeout_at(deadline),
                self._transport.send(self._request(chain)) as answer,
            ):
                next_step = await self._judge(answer, chain)
                if next_step is not None:
                    return next_step
                in_body = True
                self._progress.phase = Phase.READING
                byte_cap = self._caller.profile.byte_cap
                return await read_body(answer, chain.current, byte_cap, self._progress, self._decoders)
        except NoAnswerError as error:
            _log.debug("fetch %s, hop %d: %s", self._fetch_id, chain.hop, error)
            return network_error(chain)
        except TimeoutError:
            return _broken(chain.current) if in_body else timed_out(chain)

    def _request(self, chain: Chain) -> HopRequest:
        identity = DaemonRequest(self._caller.agent, self._caller.profile.name, self._fetch_id, chain.hop)
        return HopRequest(chain.current, identity)

    async def _judge(self, answer: HopAnswer, chain: Chain) -> Target | ToolFailure | None:
        """The gateway's refusal or a redirect; None when this is the answer to read."""
        profile = self._caller.profile
        verdict = read_verdict(answer.fields, self._fetch_id)
        if verdict is None:
            return network_error(chain)
        if verdict.rule is not None:
            self.status = None
            problem = await read_problem(answer)
            return explain_refusal(verdict.rule, problem, chain, profile.byte_cap, METHOD)
        self.status = answer.status
        locations = field_values(answer.fields, b"location")
        redirect = decide_redirect(chain.current, answer.status, locations, chain.hop, METHOD, profile)
        if redirect.kind is not RedirectKind.REDIRECT:
            return None
        return explain_verdict(redirect.verdict) if redirect.verdict.refused else redirect.target


async def read_body(
    answer: HopAnswer, target: Target, byte_cap: int, progress: FetchProgress, decoders: Decoders
) -> Body | ToolFailure:
    """SPEC 2.1, rows 1 to 5, on the answer to the last hop."""
    plan = judge_head(target.display, answer.status, answer.fields, byte_cap)
    if isinstance(plan, ToolFailure):
        return plan
    with decoders.open(plan.codings, byte_cap) as body:
        try:
            async for chunk in answer.chunks:
                await body.feed(chunk)
                progress.bytes = len(body.data)
            body.finish()
        except OverCapError:
            # The first byte over the cap decides; that the gateway then resets the connection is not looked at.
            if plan.cut_at_cap:
                return Body(target, answer.status, plan, body.data, True)
            return over_cap(target.display, byte_cap)
        except (BodyError, BrokenAnswerError):
            return _broken(target)
        return Body(target, answer.status, plan, body.data, False)


async def read_problem(answer: HopAnswer) -> bytes:
    """The body of the gateway's own answer; what breaks off or is too long is no problem document."""
    data = bytearray()
    try:
        async for chunk in answer.chunks:
            data += chunk
            if len(data) > MAX_PROBLEM_BYTES:
                return b""
    except BrokenAnswerError:
        return b""
    return bytes(data)


def _broken(target: Target) -> ToolFailure:
    """SPEC 2.1, row 5."""
    return fail(Message.BODY, url=target.display)
