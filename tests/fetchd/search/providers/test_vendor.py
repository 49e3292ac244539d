"""A vendor of models as a search provider: what is declared, what becomes rows, and what is a failure."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from fetchd.core.caller import Caller
from fetchd.core.failures import FailureKind
from fetchd.faces.cli import main
from fetchd.search.capabilities import find_refused
from fetchd.search.interface import (
    Argument,
    Freshness,
    SearchAnswer,
    SearchArguments,
    SearchFailure,
    SearchRow,
    Support,
)
from fetchd.search.providers.vendor import VendorSearch, capabilities_of
from fetchd.search.searching import WebSearch
from fetchd.web_access.links import open_links
from proxy_addons.audit import MemoryAuditLog
from proxy_addons.policy.config import parse_config
from proxy_addons.policy.limits import DEFAULT_PROFILE
from proxy_addons.policy.vendors.dialects import DIALECTS, Capability
from tests.kit import vendor_answers as answers
from tests.kit.vendor_server import VendorServer

CALLER = Caller("bot", DEFAULT_PROFILE)
KEYS = dict.fromkeys(("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENROUTER_API_KEY"), "sk-0123456789-secret")
URL, OTHER = "https://docs.rs/1", "https://evil.test/2"


@pytest.fixture
def vendor() -> Iterator[VendorServer]:
    with VendorServer() as server:
        yield server


async def search(
    vendor: VendorServer,
    dialect: str,
    arguments: SearchArguments,
    *,
    keys: dict[str, str] = KEYS,
    deadline: float = 30.0,
) -> SearchAnswer | SearchFailure:
    name = DIALECTS[dialect].vendor
    table = {"endpoint": vendor.endpoint, "model": "model", "dialect": dialect}
    config = parse_config({"vendors": {name.value: table}}, source="test").asking.vendors
    async with open_links(config, (), keys) as links:
        return await VendorSearch(lambda: config[name], links, deadline=deadline).search(arguments, CALLER)


QUERY = SearchArguments("rust  async\n runtime?")
FOUND = answers.message(
    answers.search_use(),
    answers.search_result(URL, OTHER, URL),
    answers.text(
        "Found.",
        answers.search_citation(OTHER, "Other", "a quote"),
        answers.search_citation("https://docs.rs/3"),
    ),
    searches=1,
)


async def test_web_results_become_rows_in_the_vendor_s_order(vendor: VendorServer) -> None:
    vendor.replies = [FOUND]
    found = await search(vendor, "anthropic", QUERY)
    assert found == SearchAnswer(
        (
            SearchRow(URL, "A page", "", "5 days ago"),
            SearchRow(OTHER, "A page", "a quote", "5 days ago"),
            SearchRow("https://docs.rs/3", "A page", "quoted"),
        ),
        credits=1.0,
    )
    (asked,) = vendor.asked
    assert "Query: rust  async\n runtime?" in asked.body["messages"][0]["content"]
    assert asked.body["tools"] == [
        {"type": "web_search_20260318", "name": "web_search", "max_uses": 1, "allowed_callers": ["direct"]}
    ]


async def test_openai_s_sources_have_the_titles_of_its_citations(vendor: VendorServer) -> None:
    vendor.replies = [
        answers.response(answers.web_call(sources=[URL, OTHER]), answers.output_text("x", (OTHER, "Other")))
    ]
    found = await search(vendor, "openai-responses", QUERY)
    assert found == SearchAnswer((SearchRow(URL), SearchRow(OTHER, "Other")))
    assert vendor.asked[0].body["max_tool_calls"] == 1


@pytest.mark.parametrize("dialect", ["openai-chat", "openrouter", "openrouter-2025"])
async def test_citations_are_the_rows_of_chat(vendor: VendorServer, dialect: str) -> None:
    vendor.replies = [answers.chat("x", answers.url_citation(URL, "A page", "An excerpt."))]
    found = await search(vendor, dialect, QUERY)
    assert found == SearchAnswer((SearchRow(URL, "A page", "An excerpt."),))


# ------------------------------------------------------------------------------------------------ domain lists

LISTS = [
    # what it says, include, exclude, dialect, allowed and blocked in the request
    ("an include list", ["docs.rs"], [], "anthropic", ["docs.rs"], None),
    ("an exclude list", [], ["evil.test"], "anthropic", None, ["evil.test"]),
    ("both: the include list is sent", ["docs.rs"], ["evil.test"], "anthropic", ["docs.rs"], None),
    ("what both name is not", ["docs.rs", "evil.test"], ["evil.test"], "anthropic", ["docs.rs"], None),
    ("another spelling", ["DOCS.RS", "bücher.example"], [], "anthropic", ["docs.rs", "xn--bcher-kva.example"], None),
    ("subdomains are asked for by their apex", ["*.docs.rs"], [], "anthropic", ["docs.rs"], None),
    ("subdomains are not excluded by their apex", [], ["*.evil.test"], "anthropic", None, None),
    ("a list the dialect has no place for", [], ["evil.test"], "openai-responses", None, None),
    ("a list the dialect has a place for", ["docs.rs"], [], "openai-responses", ["docs.rs"], None),
]  # fmt: skip


@pytest.mark.parametrize(
    ("what", "include", "exclude", "dialect", "allowed", "blocked"), LISTS, ids=[row[0] for row in LISTS]
)
async def test_a_vendor_is_told_of_the_lists_what_it_can_be_told(
    vendor: VendorServer,
    what: str,
    include: list[str],
    exclude: list[str],
    dialect: str,
    allowed: list[str] | None,
    blocked: list[str] | None,
) -> None:
    vendor.replies = [FOUND if dialect == "anthropic" else answers.response(answers.web_call(sources=[URL]))]
    await search(
        vendor, dialect, SearchArguments("x", include_domains=tuple(include), exclude_domains=tuple(exclude))
    )
    (tool,) = vendor.asked[0].body["tools"]
    lists = tool.get("filters", {}) if dialect == "openai-responses" else tool
    assert (lists.get("allowed_domains"), lists.get("blocked_domains")) == (allowed, blocked)


@pytest.mark.parametrize(
    ("include", "exclude"), [(["docs.rs"], ["docs.rs"]), (["a:80"], []), (["x.docs.rs"], ["docs.rs"])]
)
async def test_lists_within_which_nothing_can_be_ask_nobody(
    vendor: VendorServer, include: list[str], exclude: list[str]
) -> None:
    lists = SearchArguments("x", include_domains=tuple(include), exclude_domains=tuple(exclude))
    assert await search(vendor, "anthropic", lists) == SearchAnswer(())
    assert vendor.asked == []


async def test_rows_outside_the_lists_are_dropped_and_counted_whatever_the_vendor_did(
    vendor: VendorServer,
) -> None:
    vendor.replies = [FOUND]
    table = {"endpoint": vendor.endpoint, "model": "model"}
    config = parse_config(
        {"vendors": {"anthropic": table}, "search": {"provider": "anthropic"}}, source="test"
    )
    vendors, log = config.asking.vendors, MemoryAuditLog()
    async with open_links(vendors, (), KEYS) as links:
        provider = VendorSearch(lambda: vendors[DIALECTS["anthropic"].vendor], links)
        tool = WebSearch({"anthropic": provider}, lambda: config.search, log)
        result = await tool.call({"query": "x", "include_domains": ["docs.rs"], "count": 1}, CALLER)
    assert [row.url for row in result.rows] == [URL]
    assert (result.dropped, result.provider, result.credits) == (1, "anthropic", 1.0)


# ------------------------------------------------------------------------------------------------ capabilities


@pytest.mark.parametrize("name", DIALECTS)
def test_each_argument_has_its_cell(name: str) -> None:
    dialect = DIALECTS[name]
    cells = capabilities_of(dialect)
    assert set(cells) == set(Argument)
    assert cells[Argument.INCLUDE_DOMAINS].support is (
        Support.NATIVE if dialect.can(Capability.ALLOW) else Support.AFTER
    )
    assert cells[Argument.EXCLUDE_DOMAINS].support is (
        Support.NATIVE if dialect.can(Capability.BLOCK) else Support.AFTER
    )
    refused = find_refused("anthropic", cells, SearchArguments("x", freshness=Freshness.DAY))
    assert refused == SearchFailure(
        FailureKind.BACKEND,
        'provider "anthropic" cannot honour freshness; leave it out, or ask a provider whose search has it, such as'
        " brave",
    )


# ---------------------------------------------------------------------------------------------------- failures

BACKEND, TRANSPORT = FailureKind.BACKEND, FailureKind.TRANSPORT
FAILURES = [
    # what it says, dialect, the vendor's answer, kind, message
    ("an error of HTTP", "anthropic", (429, answers.message_error("rate_limit_error", "Slow\ndown")), BACKEND,
     "backend returned 429: rate_limit_error: Slow\\u{000a}down"),
    ("an error without words", "anthropic", (500, {}), BACKEND, "backend returned 500: (empty body)"),
    ("an error inside a 200", "openrouter", {"error": {"code": 502, "message": "gone"}}, BACKEND,
     "backend returned an error inside a 200: 502: gone"),
    ("no answer at all", "openrouter", {}, BACKEND,
     "malformed search response: the answer has no choice with a message"),
    ("a search that failed", "anthropic", answers.message(answers.search_use(), answers.search_error("unavailable")),
     BACKEND, "the provider's web_search failed (unavailable)"),
    ("no search", "anthropic", answers.message(answers.text("I know that.")), BACKEND,
     "the provider's model did not search; try again"),
    ("no search of chat", "openai-chat", answers.chat("I know that."), BACKEND,
     "the provider's model did not search; try again"),
    ("a search that names nothing", "openrouter", answers.chat("x", tools={"web_search_requests": 1}), BACKEND,
     "the provider searched and named no page; try again"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("what", "dialect", "reply", "kind", "message"), FAILURES, ids=[row[0] for row in FAILURES]
)
async def test_each_failure_is_named_and_never_an_empty_result(
    vendor: VendorServer, what: str, dialect: str, reply: answers.Object, kind: FailureKind, message: str
) -> None:
    vendor.replies = [reply]
    found = await search(vendor, dialect, QUERY)
    assert isinstance(found, SearchFailure)
    assert (found.kind, found.message) == (kind, message)


async def test_a_search_that_ran_and_found_nothing_is_an_empty_result(vendor: VendorServer) -> None:
    vendor.replies = [answers.message(answers.search_use(), answers.search_result(), searches=1)]
    assert await search(vendor, "anthropic", QUERY) == SearchAnswer((), credits=1.0)


async def test_what_cannot_be_reached_and_what_has_no_key_is_request_failed(vendor: VendorServer) -> None:
    failed = SearchFailure(TRANSPORT, "request failed")
    assert await search(vendor, "anthropic", QUERY, keys={}) == failed
    assert vendor.asked == []

    async def never(exchange: object) -> None:
        await asyncio.Event().wait()

    vendor.replies = [never]
    assert await search(vendor, "anthropic", QUERY, deadline=0.05) == failed


async def test_a_key_that_the_vendor_repeats_is_masked(vendor: VendorServer) -> None:
    vendor.replies = [
        (401, answers.message_error("authentication_error", f"bad key {KEYS['OPENAI_API_KEY']}"))
    ]
    found = await search(vendor, "openai-responses", QUERY)
    assert "sk-0123456789" not in json.dumps([str(found), repr(found)])


def test_config_check_says_which_key_of_the_chain_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "fetchd.toml"
    path.write_text(
        '[search]\nprovider = "openai"\n[vendors.openai]\nmodel = "m"\nkey_env = "NO_SUCH_VARIABLE"\n'
    )
    result = CliRunner().invoke(main, ["config", "check", str(path)])
    assert result.exit_code == 0, result.output
    assert (
        "note: vendors.openai.key_env: the environment variable NO_SUCH_VARIABLE is not set" in result.output
    )
    assert "vendors.anthropic" not in result.output.partition("note:")[2]
