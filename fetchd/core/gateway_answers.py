"""Whose answer is it, and does it end the fetch? The gateway's verdict on a hop as we read it (SPEC 1.7).

Laws of this file
- An answer without the gateway's verdict is not an answer: somebody else listens on that port.
- What a caller is told is built from what the daemon itself asked for. Taken over from the gateway are only
  the texts of a refused redirect and of a spent budget, and only in their exact form.
- A rule that the caller is not told of is a network error.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from proxy_addons.policy.admission import LADDER
from proxy_addons.policy.targets import Target
from proxy_addons.policy.verdicts import Failure, Rule, Verdict
from proxy_addons.policy.wire import GatewayVerdict, parse_gateway_fields, parse_problem

from .failures import RULE_MESSAGES, Message, ToolFailure, fail, read_detail
from .response import over_cap


@dataclass(frozen=True, slots=True)
class Chain:
    """Where a fetch stands: the first URL, the hop being asked for and how it was reached."""

    first: Target
    current: Target
    hop: int
    previous: Target | None = None

    def after(self, target: Target) -> "Chain":
        """The chain one hop on."""
        return Chain(self.first, target, self.hop + 1, self.current)


def read_verdict(fields: Sequence[tuple[bytes, bytes]], fetch_id: str) -> GatewayVerdict | None:
    """The gateway's verdict on the hop of this fetch; None when the answer is not the gateway's."""
    verdict = parse_gateway_fields(fields)
    return verdict if verdict is not None and verdict.fetch_id == fetch_id else None


def explain_refusal(rule: Rule, body: bytes, chain: Chain, byte_cap: int, method: str) -> ToolFailure:
    """What the caller is told of a refused hop. body: that of the gateway's answer."""
    target = chain.current
    document = parse_problem(body)
    detail = str(document["detail"]) if document is not None else ""
    if detail.startswith("redirect from "):
        # The answer to this hop was a redirect, and its target was refused; only the gateway saw the target.
        found = read_detail(Message.REDIRECT, rule, detail, source=target.display)
        return found or network_error(chain, rule)
    match rule:
        case Rule.NO_ALLOWED_ADDRESS:
            return fail(Message.NO_ALLOWED_ADDRESS, rule, host=target.host)
        case Rule.DNS_FAILED:
            return fail(Message.DNS, rule, host=target.host)
        case Rule.CONNECT_TIMEOUT | Rule.TOTAL_TIMEOUT:
            return timed_out(chain, rule)
        case Rule.BYTE_CAP:
            return over_cap(target.display, byte_cap)
        case Rule.BUDGET:
            return read_detail(Message.BUDGET, rule, detail) or network_error(chain, rule)
        case _:
            return _refused_admission(rule, chain, method) or network_error(chain, rule)


def explain_verdict(verdict: Verdict) -> ToolFailure:
    """A refusal of the policy asked in this process, as the caller is told of it."""
    if verdict.rule is None:
        raise ValueError("only a refusal is explained")
    # A soft verdict on a check that is hard as an argument is the refusal of a redirect.
    message = RULE_MESSAGES[verdict.rule]
    if verdict.failure is Failure.SOFT and verdict.message.startswith("redirect from "):
        message = Message.REDIRECT
    return ToolFailure(message, verdict.message, verdict.rule)


def timed_out(chain: Chain, rule: Rule = Rule.TOTAL_TIMEOUT) -> ToolFailure:
    """Time ran out before a response head."""
    return fail(Message.TIMED_OUT, rule, url=chain.first.display)


def network_error(chain: Chain, rule: Rule | None = None) -> ToolFailure:
    """The catch-all: the one message that keeps the query."""
    return fail(Message.NETWORK, rule, url=chain.first.href)


def _refused_admission(rule: Rule, chain: Chain, method: str) -> ToolFailure | None:
    """The gateway's policy is tighter than the one this process asked (it was reloaded, say)."""
    check = next((check for check in LADDER if check.rule is rule), None)
    if check is None:
        return None
    reason = check.message(chain.current, method)
    if chain.previous is None:
        return ToolFailure(RULE_MESSAGES[rule], reason, rule)
    return fail(
        Message.REDIRECT,
        rule,
        source=chain.previous.display,
        target=chain.current.display,
        reason=reason,
    )
