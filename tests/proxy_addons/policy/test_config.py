"""Configuration: each way a file can be wrong and the line that says so; values, document, defaults."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from netaddr import IPNetwork

from proxy_addons.policy.addresses import AddressException, BlockedRange
from proxy_addons.policy.agents import Agent
from proxy_addons.policy.config import (
    Config,
    ConfigError,
    MetricsConfig,
    OperatorConfig,
    parse_config,
    render_profile,
)
from proxy_addons.policy.config_addresses import Endpoint, Listener
from proxy_addons.policy.config_ask import AskConfig, WebConfig
from proxy_addons.policy.config_checks import find_fixed
from proxy_addons.policy.config_document import render_document
from proxy_addons.policy.config_forms import render_toml
from proxy_addons.policy.config_schema import (
    AGENT_KEYS,
    LIMITS,
    SETTINGS,
    UNCHANGEABLE,
    Tighten,
    profile_value,
)
from proxy_addons.policy.hosts import parse_host_pattern
from proxy_addons.policy.limits import DEFAULT_PROFILE
from proxy_addons.policy.vendors.dialects import Vendor

SOURCE = "config/fetchd.toml"


def parse(mapping: dict[str, Any]) -> Config:
    return parse_config(mapping, source=SOURCE)


def limits(**values: Any) -> dict[str, Any]:
    return {"profiles": {"p": values}}


def default(**values: Any) -> dict[str, Any]:
    return {"profiles": {"default": values}}


def load_bad_files() -> dict[str, tuple[dict[str, Any], str]]:
    """The rows of config_errors.txt: a sentence, lines of TOML, the error they give."""
    text = Path(__file__).with_name("config_errors.txt").read_text("utf-8")
    rows = {}
    for block in text.split("\n\n"):
        if block.startswith("#"):
            continue
        sentence, *toml, error = block.strip().split("\n")
        assert sentence not in rows and error.startswith("    => ")
        rows[sentence] = tomllib.loads("\n".join(toml)), error.removeprefix("    => ")
    return rows


BAD = load_bad_files()

ODD: dict[str, tuple[dict[str, Any], str]] = {
    "a name cannot fake a second line": (
        {"tls": {"a\nb\x1b[1m": 1}},
        (
            r"tls.a\nb\x1b[1m: no such key; write one of extra_ca, ca_certificate, ca_key,"
            " listener_certificate, listener_key"
        ),
    ),
    "a host of 301 characters": (
        limits(allow_hosts=["a" * 301]),
        'profiles.p.allow_hosts[0]: write a host pattern such as "docs.rs", "*.docs.rs" or "docs.rs:443"',
    ),
    "10,001 hosts": (
        limits(allow_hosts=["a.example"] * 10_001),
        "profiles.p.allow_hosts: write at most 10000 entries",
    ),
    "257 profiles": (
        {"profiles": {f"p{n}": {} for n in range(257)}},
        "profiles: write at most 256 profiles",
    ),
}
"""What a file of three lines cannot hold."""


@pytest.mark.parametrize(("mapping", "text"), [*BAD.values(), *ODD.values()], ids=[*BAD, *ODD])
def test_error_names_file_key_and_form(mapping, text):
    with pytest.raises(ConfigError) as caught:
        parse(mapping)
    assert str(caught.value) == f"{SOURCE}: {text}"
    assert caught.value.source == SOURCE
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", UNCHANGEABLE)
def test_what_no_profile_can_change_is_said(name):
    with pytest.raises(ConfigError, match=rf"^{SOURCE}: profiles\.p\.{name}: cannot be changed: "):
        parse(limits(**{name: 1}))


LOOSER = {
    "schemes": ["https", "http"],
    "ports": [80, 443, 8443],
    "methods": ["GET", "POST"],
    "request_body": True,
    "request_cap": 1,
    "upgrades": ["websocket"],
    "credential_hosts": ["a.example"],
    "byte_cap": 8_388_609,
    "lookup_timeout": 5.001,
    "connect_timeout": 5.001,
    "total_timeout": 20.001,
    "exceptions": [{"host": "a.example", "address": "10.0.0.7"}],
    "mode": "monitor",
    "web_tools": "pass",
    "web_tools_max_uses": 6,
}
TIGHTER: dict[str, Any] = {
    "schemes": ["https"],
    "ports": [443],
    "methods": ["HEAD"],
    "allow_hosts": ["*.example.com"],
    "deny_hosts": ["*.ads.example"],
    "byte_cap": 8_388_607,
    "lookup_timeout": 4.999,
    "connect_timeout": 4,
    "total_timeout": 19.999,
    "blocked_extra": ["168.63.129.16/32"],
    "tools": [],
    "concurrent_hops": 1,
    "requests_per_minute": 1,
    "bytes_per_day": 1,
}


def test_every_limit_has_a_row_that_loosens_or_tightens_it():
    # Of the tools there are, the built-in profile has all.
    assert set(LOOSER) | {"tools"} == {key.name for key in LIMITS if key.tighten is not Tighten.FREE}
    assert set(LOOSER) | set(TIGHTER) == {key.name for key in LIMITS}


@pytest.mark.parametrize("name", LOOSER)
def test_default_cannot_be_loosened(name):
    key = next(key for key in LIMITS if key.name == name)
    with pytest.raises(ConfigError) as caught:
        parse(default(**{name: LOOSER[name]}))
    assert str(caught.value) == (
        f"{SOURCE}: profiles.default.{name}: default may only be tightened; write {key.tighten.value}"
        f" {render_toml(key.default)}, the built-in value, or use a profile of another name"
    )


@pytest.mark.parametrize("name", TIGHTER)
def test_default_can_be_tightened(name):
    profile = parse(default(**{name: TIGHTER[name]})).profiles["default"]
    changed = {
        key.name
        for key in LIMITS
        if profile_value(profile, key.name) != profile_value(DEFAULT_PROFILE, key.name)
    }
    assert changed == (
        {name} if name != "schemes" else set()
    )  # the only scheme there is, is as tight as it gets


@pytest.mark.parametrize("name", [name for name in LOOSER if not name.startswith("request_")])
def test_another_profile_may_be_looser(name):
    profile = parse(limits(**{name: LOOSER[name]})).profiles["p"]
    assert profile_value(profile, name) != profile_value(DEFAULT_PROFILE, name)


def test_nothing_written_is_the_built_in_configuration():
    config = parse({})
    assert config.gateway.listeners == (Listener("127.0.0.1", 3128, "default"),)
    assert config.gateway.workers is None
    assert config.gateway.default_profile == "default"
    assert config.dns.nameservers == ()
    assert config.tls.extra_ca == ()
    assert config.daemon.listener == Listener("127.0.0.1", 3129, "default")
    assert config.operator == OperatorConfig(Endpoint("127.0.0.1", 3130))
    assert config.profiles == {"default": DEFAULT_PROFILE}


PROVIDER_LIMITS = {"concurrency": 64, "requests_per_minute": 1}
FULL: dict[str, Any] = {
    "gateway": {
        "listeners": [
            {"address": "127.0.0.1:1"},
            {"address": "[::1]:1", "profile": "default", "anonymous": False},
            {"address": "0.0.0.0:2", "agent": "reader", "tls": True},
        ],
        "workers": 64,
        "default_profile": "p",
    },
    "dns": {"nameservers": ["127.0.0.1:5353", "[::1]", "9.9.9.9"]},
    "tls": {
        "extra_ca": ["a.pem", "/b.pem"],
        "ca_certificate": "d.pem",
        "ca_key": "/d.key",
        "listener_certificate": "c.pem",
        "listener_key": "/c.key",
    },
    "daemon": {
        "listen": "127.255.255.255:65535",
        "profile": "p",
        "anonymous": True,
        "tls": True,
        "names": ["fetchd.internal"],
    },
    "operator": {
        "listen": "[::]:0",
        "tls": True,
        "names": ["audit.example"],
        "token_sha256": "ab" * 32,
        "metrics_token_sha256": "cd" * 32,
    },
    "audit": {"stdout": True, "keep_days": 36500, "keep_bytes": 2**26},
    "metrics": {"otlp_endpoint": "https://collector.example:4318/base", "otlp_seconds": 3600},
    "page_read": {"max_bytes": 2**40},
    "store": {"max_bytes": 2**20},
    "search": {
        "provider": "brave",
        "fallbacks": ["searxng", "local"],
        "index": False,
        "share": True,
        "log_queries": True,
        "brave": {"key_file": "brave.key", "endpoint": "http://[::1]:1/x"} | PROVIDER_LIMITS,
        "searxng": {"key_file": "/searxng.key", "endpoint": "http://search.localhost"} | PROVIDER_LIMITS,
        "gateway": {"key_env": "_k", "endpoint": "https://search.example.com"} | PROVIDER_LIMITS,
        "tavily": {"key_env": "TAVILY_API_KEY"} | PROVIDER_LIMITS,
    },
    "web": {
        "search": True,
        "fetch": True,
        "max_uses": 1000,
        "allowed_domains": ["docs.rs", "*.example.com"],
        "blocked_domains": ["xn--bcher-kva.example"],
    },
    "ask": {
        "provider": "openai",
        "fallbacks": ["anthropic", "openrouter"],
        "max_steps": 100,
        "max_tokens": 1,
        "answer_tokens": 16,
        "timeout": 1,
    },
    "vendors": {
        "anthropic": {"dialect": "anthropic-2025", "model": "m", "key_file": "a.key"},
        "openai": {"endpoint": "http://127.0.0.1:1", "dialect": "openai-chat", "model": "m", "key_env": "K"},
        "openrouter": {"dialect": "openrouter-2025", "model": "a/b:c", "key_env": "_"},
    },
    "agents": {
        "reader": {"profile": "default", "token_sha256": "0" * 64, "sources": ["10.0.0.7", "fd00::/8"]},
        "bare": {},
    },
    "profiles": {
        "default": {"byte_cap": 1},
        "p": {
            "schemes": ["http"],
            "ports": [65535, 1],
            "methods": ["POST", "M-SEARCH"],
            "request_body": True,
            "request_cap": 2**40,
            "upgrades": ["websocket"],
            "allow_hosts": ["*:443", "*.example.com", "xn--bcher-kva.example"],
            "deny_hosts": ["a.example.com:8443"],
            "credential_hosts": ["api.example.com"],
            "byte_cap": 2**40,
            "lookup_timeout": 0.1,
            "connect_timeout": 3600,
            "total_timeout": 3600.0,
            "blocked_extra": ["::/0", {"cidr": "0.0.0.0/0", "label": "all of it"}],
            "exceptions": [
                {"host": "a.example", "address": "10.0.0.7", "port": 65535},
                {"host": "*.b.example", "address": "fd00::/8"},
            ],
            "mode": "monitor",
            "tools": [],
            "concurrent_hops": 1,
            "requests_per_minute": 2,
            "bytes_per_day": 3,
        },
    },
}


def test_every_key_reaches_its_value():
    config = parse_config(FULL, source=SOURCE, base="/etc/fetchd")
    assert config.gateway.listeners == (
        Listener("127.0.0.1", 1, "p"),
        Listener("::1", 1, "default", anonymous=False),
        Listener("0.0.0.0", 2, "default", agent="reader", tls=True),
    )
    assert config.agents == {
        "reader": Agent("reader", "default", "0" * 64, (IPNetwork("10.0.0.7/32"), IPNetwork("fd00::/8"))),
        "bare": Agent("bare", "p"),
    }
    assert (config.tls.listener_certificate, config.tls.listener_key) == ("/etc/fetchd/c.pem", "/c.key")
    assert (config.tls.ca_certificate, config.tls.ca_key) == ("/etc/fetchd/d.pem", "/d.key")
    assert config.daemon.names == ("fetchd.internal",)
    assert (config.read_max_bytes, config.store_max_bytes) == (2**40, 2**20)
    web, ask, vendors = config.asking.web, config.asking.ask, config.asking.vendors
    assert web == WebConfig(
        search=True, fetch=True, max_uses=1000, allowed_domains=("docs.rs", "*.example.com"),
        blocked_domains=("xn--bcher-kva.example",),
    )  # fmt: skip
    assert ask == AskConfig(Vendor.OPENAI, (Vendor.ANTHROPIC, Vendor.OPENROUTER), 100, 1, 16, 1.0)
    assert [
        (one.endpoint, one.dialect, one.model, one.key_variable, one.key_file) for one in vendors.values()
    ] == [
        ("https://api.anthropic.com", "anthropic-2025", "m", None, "/etc/fetchd/a.key"),
        ("http://127.0.0.1:1", "openai-chat", "m", "K", None),
        ("https://openrouter.ai", "openrouter-2025", "a/b:c", "_", None),
    ]
    search = config.search
    assert (search.provider, search.fallbacks, search.chain) == (
        "brave",
        ("searxng", "local"),
        ("brave", "searxng", "local"),
    )
    assert (search.index, search.share, search.log_queries) == (False, True, True)
    assert [(one.endpoint, one.key_env, one.key_file) for one in search.providers.values()] == [
        ("https://search.example.com", "_k", None),
        ("http://[::1]:1/x", None, "/etc/fetchd/brave.key"),
        ("http://search.localhost", None, "/searxng.key"),
        ("https://api.tavily.com", "TAVILY_API_KEY", None),
    ]
    assert {(one.concurrency, one.requests_per_minute) for one in search.providers.values()} == {(64, 1)}
    assert (config.gateway.workers, config.gateway.default_profile) == (64, "p")
    assert config.dns.nameservers == (("127.0.0.1", 5353), ("::1", 53), ("9.9.9.9", 53))
    assert config.tls.extra_ca == ("/etc/fetchd/a.pem", "/b.pem")
    assert config.daemon.listener == Listener("127.255.255.255", 65535, "p", anonymous=True, tls=True)
    assert config.operator == OperatorConfig(
        Endpoint("::", 0), True, ("audit.example",), "ab" * 32, "cd" * 32
    )
    assert config.metrics == MetricsConfig("https://collector.example:4318/base", 3600)
    assert config.profiles["default"].byte_cap == 1
    profile = config.profiles["p"]
    assert profile.schemes == {"http"}
    assert profile.ports == {1, 65535}
    assert profile.methods == {"POST", "M-SEARCH"}
    assert (profile.request_body, profile.request_cap, profile.upgrades) == (
        True,
        2**40,
        frozenset({"websocket"}),
    )
    assert [str(pattern) for pattern in profile.hosts.allow] == FULL["profiles"]["p"]["allow_hosts"]
    assert [str(pattern) for pattern in profile.hosts.deny] == ["a.example.com:8443"]
    assert profile.credential_hosts == (parse_host_pattern("api.example.com"),)
    assert profile.byte_cap == 2**40
    assert (profile.lookup_timeout, profile.connect_timeout, profile.total_timeout) == (0.1, 3600.0, 3600.0)
    assert profile.blocked_extra == (
        BlockedRange("::/0", "blocked by the profile"),
        BlockedRange("0.0.0.0/0", "all of it"),
    )
    assert (profile.mode, profile.tools) == ("monitor", frozenset())
    assert (profile.concurrent_hops, profile.requests_per_minute, profile.bytes_per_day) == (1, 2, 3)
    assert profile.exceptions == (
        AddressException(parse_host_pattern("a.example"), IPNetwork("10.0.0.7/32"), 65535),
        AddressException(parse_host_pattern("*.b.example"), IPNetwork("fd00::/8"), None),
    )


def test_a_profile_starts_from_the_built_in_values_and_not_from_the_file_s_default():
    config = parse({"profiles": {"default": {"byte_cap": 1}, "p": {}}})
    assert config.profiles["p"].byte_cap == DEFAULT_PROFILE.byte_cap


def test_free_ports_may_be_asked_for_more_than_once():
    free = "127.0.0.1:0"
    config = parse(
        {
            "gateway": {"listeners": [{"address": free}, {"address": free}]},
            "daemon": {"listen": free},
            "operator": {"listen": free},
        }
    )
    assert config.daemon.endpoint.port == config.operator.endpoint.port == 0


@pytest.mark.parametrize("mapping", [{}, FULL], ids=["defaults", "every key"])
def test_the_document_is_the_configuration(mapping):
    config = parse_config(mapping, source=SOURCE, base="/etc")
    again = parse_config(json.loads(json.dumps(render_document(config))), source="parent", base="/elsewhere")
    assert again == config
    assert [p.version for p in again.profiles.values()] == [p.version for p in config.profiles.values()]
    assert render_document(again) == render_document(config)


def test_the_document_writes_every_key():
    document = json.loads(json.dumps(render_document(parse(FULL))))
    search = document["search"]
    document |= {f"search.{name}": search.pop(name) for name in ("gateway", "brave", "searxng", "tavily")}
    document |= {f"vendors.{name}": table for name, table in document.pop("vendors").items()}
    written = {(t, k) for t, keys in document.items() if t not in ("agents", "profiles") for k in keys}
    # Of a provider's key there is one reference.
    assert {("search.brave", "key_file"), ("search.gateway", "key_env")} <= written
    assert {row for row in written if row[1] not in ("key_env", "key_file")} == {
        (key.table, key.name) for key in SETTINGS if key.name not in ("key_env", "key_file")
    }
    assert set(render_profile(DEFAULT_PROFILE)) == {key.name for key in LIMITS if key.default is not None}


def test_each_example_is_good_and_each_default_reads_as_itself():
    for key in (*SETTINGS, *AGENT_KEYS, *LIMITS):
        example = tomllib.loads(f"v = {key.example}")["v"]
        key.form.read(example)
        if key.default is not None:
            assert tomllib.loads(f"v = {render_toml(key.default)}")["v"] == key.default
            key.form.read(key.default)


# ------------------------------------------------------------------------------------------------- properties

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.sampled_from(
        ["127.0.0.1:3128", "[::1]:1", "*", "a.example", "10.0.0.0/8", "https", "GET", "default", "p"]
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
KEYS = st.sampled_from([key.name for key in (*SETTINGS, *LIMITS)]) | st.text()
NAMES = (
    st.sampled_from(
        [
            *("gateway", "dns", "tls", "daemon", "operator", "search", "brave", "profiles", "p", "default"),
            *("web", "ask", "vendors", "openai"),
        ]
    )
    | st.text()
)
TABLES = st.dictionaries(KEYS, VALUES, max_size=4)


def holds(mapping: dict[str, Any]) -> None:
    """Any content is a Config, whose document is a fixed point, or a ConfigError of one printable line."""
    try:
        config = parse_config(mapping, source="x")
    except ConfigError as error:
        line = str(error)
    else:
        assert parse_config(json.loads(json.dumps(render_document(config))), source="x") == config
        assert "default" in config.profiles
        return
    assert line.isprintable() and line.startswith("x: ")


@given(
    st.dictionaries(NAMES, VALUES | TABLES | st.dictionaries(NAMES, VALUES | TABLES, max_size=3), max_size=4)
)
def test_any_mapping_is_a_config_or_a_config_error(mapping):
    holds(mapping)


@given(st.sampled_from((*SETTINGS, *LIMITS)), VALUES | st.lists(TABLES, max_size=2))
def test_any_value_of_any_key_is_read_or_is_a_config_error(key, value):
    if key in LIMITS:
        holds(limits(**{key.name: value}))
        holds(default(**{key.name: value}))
    else:
        outer, _, inner = key.table.partition(".")
        holds({outer: {inner: {key.name: value}}} if inner else {outer: {key.name: value}})


@given(st.integers(0, 2**32 - 1), st.integers(0, 32), st.booleans())
def test_a_range_is_read_exactly_when_it_is_written_as_netaddr_writes_it(value, length, bare):
    text = f"{'.'.join(str(value >> shift & 255) for shift in (24, 16, 8, 0))}/{length}"
    canonical = str(IPNetwork(text).cidr)
    assert str(parse(limits(blocked_extra=[canonical])).profiles["p"].blocked_extra[0].cidr) == canonical
    if text != canonical:
        with pytest.raises(ConfigError, match=f'write "{canonical}"$'):
            parse(limits(blocked_extra=[text]))


# -------------------------------------------------------------------------------------------- reloads of [audit]


@pytest.mark.parametrize(
    ("after", "fixed"),
    [
        ({"keep_days": 30, "keep_bytes": 2**30}, None),
        ({"stdout": True}, "audit.stdout"),
    ],
)
def test_a_reload_takes_what_is_kept_of_the_log_and_not_where_it_is_printed(after, fixed):
    assert find_fixed(parse({}), parse({"audit": after})) == fixed


# ------------------------------------------------------------------------------------------- reloads of [search]

KEYED = {"brave": {"key_env": "A"}}


@pytest.mark.parametrize(
    ("before", "after", "fixed"),
    [
        pytest.param({}, {"fallbacks": ["brave"], **KEYED}, "search.brave", id="a table that was not there"),
        pytest.param(
            KEYED, {"provider": "brave", **KEYED}, None, id="another provider whose table was there"
        ),
        pytest.param(KEYED, {"fallbacks": ["brave"], **KEYED}, None, id="a fallback whose table was there"),
        pytest.param(KEYED, {"brave": {"key_env": "B"}}, "search.brave", id="another key"),
        pytest.param(
            KEYED,
            {"brave": {"key_env": "A", "endpoint": "https://b.example"}},
            "search.brave",
            id="another endpoint",
        ),
        pytest.param(
            KEYED,
            {"brave": {"key_env": "A", "concurrency": 1, "requests_per_minute": 1}},
            None,
            id="other limits",
        ),
        pytest.param({}, {"log_queries": True}, None, id="queries in the log"),
        pytest.param({}, {"index": False}, None, id="no index any more"),
        pytest.param({}, {"share": True}, None, id="a shared index"),
    ],
)
def test_what_a_reload_takes_of_the_search_tables(before, after, fixed):
    assert find_fixed(parse({"search": before}), parse({"search": after})) == fixed


# ------------------------------------------------------------------------------------- [web], [ask] and vendors


def test_the_web_table_is_carried_whenever_it_is_there():
    assert parse({}).asking.web is None
    assert parse({"web": {}}).asking.web == WebConfig()
    assert parse({"web": {"search": False}}).asking.web == WebConfig()
    assert "web" not in render_document(parse({}))
    assert "web" in render_document(parse({"web": {}}))


def test_a_vendor_s_key_is_in_the_variable_of_its_sdk_unless_it_is_said_where():
    vendors = parse({"vendors": {"openai": {"key_file": "k"}, "openrouter": {"key_env": "K"}}}).asking.vendors
    assert [one.key_variable for one in vendors.values()] == ["ANTHROPIC_API_KEY", None, "K"]


@pytest.mark.parametrize(
    ("after", "fixed"),
    [
        ({"vendors": {"openai": {"endpoint": "https://proxy.example"}}}, "vendors.openai"),
        ({"vendors": {"anthropic": {"key_env": "B"}}}, "vendors.anthropic"),
        ({"vendors": {"anthropic": {"model": "m", "dialect": "anthropic-2025"}}}, None),
        ({"web": {"search": True}, "ask": {"max_steps": 1}}, None),
    ],
)
def test_a_reload_takes_all_of_it_but_how_a_vendor_is_reached(after, fixed):
    assert find_fixed(parse({}), parse(after)) == fixed
