"""The use case: the operator and others, fallbacks, sub-runs."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from fetchd.core.caller import Caller
from fetchd.web_access.asking import Asker, make_declaration
from fetchd.web_access.budget import Budget
from fetchd.web_access.declaration import WebAccess
from fetchd.web_access.errors import DeclarationError
from fetchd.web_access.holding import Boundary
from fetchd.web_access.requests import AskRequest
from fetchd.web_access.run_values import RunStatus
from proxy_addons.audit import AskRecord, MemoryAuditLog
from proxy_addons.policy.config import parse_config
from proxy_addons.policy.config_ask import VendorConfig
from proxy_addons.policy.hosts import HostRules
from proxy_addons.policy.limits import DEFAULT_PROFILE
from proxy_addons.policy.vendors.dialects import DIALECTS, Vendor
from tests.fetchd.web_access.kit import ScriptedVendor, completion

CALLER = Caller("bot", DEFAULT_PROFILE)
WEB = {"search": True, "max_uses": 3, "allowed_domains": ["docs.rs", "crates.io"]}


@dataclass
class Links:
    """A scripted vendor for each name, its model as it was asked for."""

    asked: list[tuple[str, str | None]] = field(default_factory=list)

    def connect(self, vendor: VendorConfig, model: str | None = None) -> ScriptedVendor:
        self.asked.append((vendor.name.value, model))
        return ScriptedVendor([completion()], vendor.name.value, model or "model", DIALECTS[vendor.dialect])


def make(log: MemoryAuditLog | None = None, **tables: Any) -> tuple[Asker, Links]:
    config = parse_config({"web": WEB, **tables}, source="test")
    links, numbers = Links(), iter(range(100))
    asker = Asker(lambda: config, links, log or MemoryAuditLog(), make_run_id=lambda: f"run{next(numbers)}")
    return asker, links


def test_no_table_declares_nothing() -> None:
    assert make_declaration(None) == WebAccess()


def test_the_operator_is_not_bound_by_the_table() -> None:
    asker, _ = make()
    asked = AskRequest("x", fetch=True, max_uses=9, allowed_domains=("example.com",), max_steps=50)
    run = asker.prepare(asked, CALLER, operator=True)
    assert run.spec.web == WebAccess(True, True, 9, ("example.com",))
    assert run.spec.budget.steps == 50
    with pytest.raises(DeclarationError):
        asker.prepare(asked, CALLER)


def test_a_model_is_for_the_vendor_that_is_asked_first() -> None:
    asker, links = make(ask={"fallbacks": ["openrouter"]})
    asker.prepare(AskRequest("x", model="big"), CALLER, operator=True)
    asker.prepare(AskRequest("x", provider=Vendor.OPENAI, model="big"), CALLER, operator=True)
    assert links.asked == [("anthropic", "big"), ("openrouter", None), ("openai", "big")]


def test_others_may_name_a_vendor_out_of_the_operator_s_list() -> None:
    asker, links = make(ask={"fallbacks": ["openrouter"]})
    asker.prepare(AskRequest("x", provider=Vendor.OPENROUTER), CALLER)
    assert links.asked == [("openrouter", None)]
    with pytest.raises(DeclarationError, match="is not among those of the operator: anthropic, openrouter"):
        asker.prepare(AskRequest("x", provider=Vendor.OPENAI), CALLER)


def test_a_profile_that_allows_nothing_keeps_nobody_from_asking_without_the_web() -> None:
    asker, _ = make()
    caller = Caller("bot", replace(DEFAULT_PROFILE, hosts=HostRules(allow=())))
    with pytest.raises(DeclarationError, match="allows nothing"):
        asker.prepare(AskRequest("x"), caller)
    run = asker.prepare(AskRequest("x", search=False), caller)
    assert not run.spec.web.enabled()
    assert not Boundary(run.spec.web).holds("https://docs.rs/")
    assert asker.prepare_sub_run(run, "y", SMALL, WebAccess()).spec.web.rules == run.spec.web.rules


# -------------------------------------------------------------------------------------------------- sub-runs

SMALL = Budget(2, 100, 50, 10)
BIG = Budget(99, 10**9, 10**6, 10**6)


async def test_a_sub_run_has_its_root_s_declaration_and_says_whose_it_is() -> None:
    log = MemoryAuditLog()
    asker, _ = make(log)
    root = asker.prepare(AskRequest("x"), CALLER)
    sub = asker.prepare_sub_run(root, "y", SMALL)
    assert sub.spec.web is root.spec.web
    assert (sub.spec.parent, sub.spec.agent, sub.spec.prompt) == (root.spec.run_id, "bot", "y")
    assert [one.web for one in sub.vendors] == [one.web for one in root.vendors]
    outcome = await asker.run(sub, lambda _event: None)
    assert outcome.status is RunStatus.DONE
    assert {line.parent for line in log.records if isinstance(line, AskRecord)} == {root.spec.run_id}


def test_a_sub_run_spends_no_more_than_its_root_may() -> None:
    asker, _ = make()
    root = asker.prepare(AskRequest("x", max_steps=4), CALLER)
    assert asker.prepare_sub_run(root, "y", BIG).spec.budget == root.spec.budget
    assert asker.prepare_sub_run(root, "y", SMALL).spec.budget == SMALL


def test_a_sub_run_of_a_sub_run_is_held_by_both() -> None:
    asker, _ = make()
    root = asker.prepare(AskRequest("x"), CALLER)
    narrowed = WebAccess.search().max_uses(1).allow("docs.rs")
    sub = asker.prepare_sub_run(root, "y", SMALL, narrowed)
    assert (sub.spec.web.cap, sub.spec.web.allowed_domains) == (1, ("docs.rs",))
    with pytest.raises(DeclarationError, match="no host in common"):
        asker.prepare_sub_run(sub, "z", SMALL, WebAccess.search().allow("crates.io"))
    assert asker.prepare_sub_run(sub, "z", BIG).spec.web is sub.spec.web


@pytest.mark.parametrize(
    "wider", [WebAccess.search().with_fetch(), WebAccess.search().allow("evil.test")], ids=["fetch", "a host"]
)
def test_neither_arguments_nor_a_model_widen_a_sub_run(wider: WebAccess) -> None:
    asker, _ = make()
    root = asker.prepare(AskRequest("x"), CALLER)
    with pytest.raises(DeclarationError):
        asker.prepare_sub_run(root, "y", SMALL, wider)
