"""The use case `ask`: a request held to the configuration and the caller's profile, and run.

    request ──► declaration (root: [web]) ──► the profile's host rules ──► every vendor that may be asked ──► run

Whoever asks over HTTP may ask for what [web] declares, or less; the operator at the command line is not bound by it.
The host rules of the caller's profile hold for both.
"""

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from fetchd.core.caller import Caller
from proxy_addons.policy.config import Config
from proxy_addons.policy.config_ask import AskConfig, VendorConfig, WebConfig
from proxy_addons.policy.vendors.dialects import Vendor

from .audit_log import AskLog, AuditedRun
from .budget import Budget
from .declaration import WebAccess
from .domains import NOTHING_SENT
from .errors import DeclarationError
from .inheriting import inherit
from .recording import CarefulLog, RunSink
from .requests import AskRequest
from .run_values import RunEvent, RunOutcome, RunSpec
from .running import Prepared, Runner, prepare_vendors
from .vendor import CompletionVendor


class Links(Protocol):
    """The ways to the vendors."""

    def connect(self, vendor: VendorConfig, model: str | None = None) -> CompletionVendor:
        """Raises DeclarationError."""
        ...


@dataclass(frozen=True, slots=True)
class PreparedRun:
    """A run that may start: nothing has been sent."""

    spec: RunSpec
    vendors: tuple[Prepared, ...]
    caller: Caller


class Asker:
    """Runs of completions. config: asked for each run. records: the store; None where it cannot be had."""

    def __init__(
        self,
        config: Callable[[], Config],
        links: Links,
        log: AskLog,
        records: RunSink | None = None,
        *,
        make_run_id: Callable[[], str] | None = None,
    ) -> None:
        self._config: Final = config
        self._links: Final = links
        self._log: Final = log
        self._records: Final = records
        self._make_run_id: Final = make_run_id or fresh_run_id

    def prepare(self, request: AskRequest, caller: Caller, *, operator: bool = False) -> PreparedRun:
        """Everything that can be refused is, before anything is sent. Raises DeclarationError."""
        asking = self._config().asking
        root = make_declaration(asking.web)
        web = override(root, request) if operator else inherit(root, _asked(root, request))
        web = web.held_to(caller.profile.hosts)
        names = _choose(request, asking.ask, operator=operator)
        clients = [
            self._links.connect(asking.vendors[name], request.model if place == 0 else None)
            for place, name in enumerate(names)
        ]
        own = make_budget(asking.ask)
        budget = _budget_of(request, own)
        spec = RunSpec(
            self._make_run_id(), caller.agent, request.prompt, web, budget if operator else budget.within(own)
        )
        return PreparedRun(spec, prepare_vendors(web, clients), caller)

    def prepare_sub_run(
        self, parent: PreparedRun, prompt: str, budget: Budget, asked: WebAccess | None = None
    ) -> PreparedRun:
        """A run below another: its declaration, or less, and a budget within its own. Raises DeclarationError."""
        web = inherit(parent.spec.web, asked)
        spec = RunSpec(
            self._make_run_id(),
            parent.spec.agent,
            prompt,
            web,
            budget.within(parent.spec.budget),
            parent.spec.run_id,
        )
        vendors = prepare_vendors(web, [one.vendor for one in parent.vendors])
        return PreparedRun(spec, vendors, parent.caller)

    async def run(self, prepared: PreparedRun, emit: Callable[[RunEvent], None]) -> RunOutcome:
        """To its end. Raises nothing but CancelledError."""
        sinks: list[RunSink] = [AuditedRun(self._log, prepared.caller)]
        if self._records is not None:
            sinks.append(self._records)
        return await Runner(prepared.vendors, CarefulLog(sinks), emit).run(prepared.spec)


def make_declaration(web: WebConfig | None) -> WebAccess:
    """What [web] declares."""
    if web is None:
        return WebAccess()
    return WebAccess(web.search, web.fetch, web.max_uses, web.allowed_domains, web.blocked_domains)


def override(root: WebAccess, request: AskRequest) -> WebAccess:
    """What the operator says in place of the configuration, word by word."""
    return WebAccess(
        request.search if request.search is not None else root.can_search,
        request.fetch if request.fetch is not None else root.can_fetch,
        request.max_uses if request.max_uses is not None else root.cap,
        request.allowed_domains if request.allowed_domains is not None else root.allowed_domains,
        request.blocked_domains if request.blocked_domains is not None else root.blocked_domains,
    )


def _asked(root: WebAccess, request: AskRequest) -> WebAccess:
    return WebAccess(
        request.search if request.search is not None else root.can_search,
        request.fetch if request.fetch is not None else root.can_fetch,
        request.max_uses,
        request.allowed_domains or (),
        request.blocked_domains or (),
    )


def _choose(request: AskRequest, ask: AskConfig, *, operator: bool) -> list[Vendor]:
    """Whom to ask, in order. One that is named is asked alone."""
    chain = [ask.provider, *ask.fallbacks]
    if request.provider is None:
        return chain
    if not operator and request.provider not in chain:
        raise DeclarationError(
            f"ask: provider {request.provider} is not among those of the operator: {', '.join(chain)}. {NOTHING_SENT}"
        )
    return [request.provider]


def make_budget(ask: AskConfig) -> Budget:
    """That of the configuration."""
    return Budget(ask.max_steps, ask.max_tokens, ask.answer_tokens, ask.timeout)


def _budget_of(request: AskRequest, own: Budget) -> Budget:
    return Budget(
        request.max_steps or own.steps,
        request.max_tokens or own.tokens,
        own.answer_tokens,
        request.timeout or own.seconds,
    )


def fresh_run_id() -> str:
    """20 hex digits: milliseconds since 1970, so that ids sort; 32 random bits."""
    return f"{time.time_ns() // 1_000_000:012x}{secrets.token_hex(4)}"
