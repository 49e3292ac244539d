"""Who is asking: credentials as they are written, and the order in which token, listener and source decide."""

from __future__ import annotations

import base64
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from netaddr import IPNetwork

from proxy_addons.policy.agents import (
    MAX_CREDENTIAL,
    TOKEN_NEEDED,
    TOKEN_UNKNOWN,
    UNREADABLE,
    Agent,
    Credential,
    Entrance,
    Identity,
    Roster,
    digest_token,
    parse_credential,
)
from proxy_addons.policy.config import parse_config
from proxy_addons.policy.limits import DEFAULT_PROFILE, Profile
from proxy_addons.policy.rulebook import Rulebook
from proxy_addons.policy.verdicts import Rule

TOKEN = "fetchd.alice.0123456789abcdef0123456789abcdef"
HELD = digest_token(TOKEN)


def basic(text: str) -> bytes:
    return b"Basic " + base64.b64encode(text.encode("latin-1"))


CREDENTIALS: dict[str, tuple[bytes, Credential]] = {
    "a token": (b"Bearer " + TOKEN.encode(), Credential(HELD)),
    "the scheme in capitals, more space": (b" BEARER   " + TOKEN.encode() + b" ", Credential(HELD)),
    "name and token": (basic(f"alice:{TOKEN}"), Credential(HELD, "alice")),
    "no name": (basic(f":{TOKEN}"), Credential(HELD, "")),
    "a token with a colon is all that follows the first": (
        basic("alice:a:b"),
        Credential(digest_token("a:b"), "alice"),
    ),
    "nothing": (b"", UNREADABLE),
    "a scheme alone": (b"Bearer", UNREADABLE),
    "a scheme and space": (b"Bearer  ", UNREADABLE),
    "a token without a scheme": (TOKEN.encode(), UNREADABLE),
    "another scheme": (b"Digest " + TOKEN.encode(), UNREADABLE),
    "no colon": (basic("alice"), UNREADABLE),
    "no token": (basic("alice:"), UNREADABLE),
    "no base64": (b"Basic alice:token", UNREADABLE),
    "base64 of another alphabet": (b"Basic " + base64.urlsafe_b64encode(b"\xff\xfe:\xfb"), UNREADABLE),
    "base64 without its padding": (basic("alice:ab").rstrip(b"="), UNREADABLE),
    "a name beyond ASCII": (basic("\xe9:token"), UNREADABLE),
    "as long as may be": (
        b"Bearer " + b"x" * (MAX_CREDENTIAL - 7),
        Credential(digest_token("x" * (MAX_CREDENTIAL - 7))),
    ),
    "one longer": (b"Bearer " + b"x" * (MAX_CREDENTIAL - 6), UNREADABLE),
    "a token, and something else far behind it": (
        b"Bearer " + TOKEN.encode() + b" " * MAX_CREDENTIAL + b"x",
        UNREADABLE,
    ),
}


@pytest.mark.parametrize("sentence", CREDENTIALS)
def test_what_a_field_says(sentence: str) -> None:
    field, said = CREDENTIALS[sentence]
    assert parse_credential(field) == said


@given(st.binary(max_size=2000))
def test_any_field_gives_a_credential_and_never_the_token_itself(field: bytes) -> None:
    said = parse_credential(b"Bearer " + field)
    assert said == UNREADABLE or len(said.token_sha256) == 64
    assert repr(said) == f"Credential(name={said.name!r})"


@given(
    st.text(st.characters(codec="ascii", exclude_characters=":"), max_size=40), st.text("abc.-_0", min_size=1)
)
def test_basic_reads_back_what_was_written(name: str, token: str) -> None:
    assert parse_credential(basic(f"{name}:{token}")) == Credential(digest_token(token), name)


PROFILES = {"default": DEFAULT_PROFILE, "a": Profile("a"), "b": Profile("b")}
ROSTER = Roster(
    [
        Agent("alice", "a", HELD, (IPNetwork("10.0.0.0/8"), IPNetwork("fd00::/8"))),
        Agent("bob", "b", None, (IPNetwork("10.1.0.0/16"), IPNetwork("10.1.2.3/32"))),
    ],
    PROFILES,
)
ALICE, BOB = Identity("alice", PROFILES["a"]), Identity("bob", PROFILES["b"])
OPEN = Entrance("default@3128", DEFAULT_PROFILE)
CLOSED = replace(OPEN, anonymous=False)
BOBS = replace(CLOSED, agent="bob")
NOBODY = Identity("default@3128", DEFAULT_PROFILE)
BAD = Credential(digest_token("guess"))

DECISIONS = {
    "a token decides": (CLOSED, "192.0.2.1", Credential(HELD), ALICE),
    "a token decides at another's listener": (BOBS, "192.0.2.1", Credential(HELD), ALICE),
    "a token decides for another's source": (OPEN, "10.1.2.3", Credential(HELD, "alice"), ALICE),
    "a token under another name": (OPEN, "192.0.2.1", Credential(HELD, "bob"), TOKEN_UNKNOWN),
    "a token under no name": (OPEN, "192.0.2.1", Credential(HELD, ""), TOKEN_UNKNOWN),
    "a token in its name's other case": (OPEN, "192.0.2.1", Credential(HELD, "Alice"), TOKEN_UNKNOWN),
    "a bad token at a listener of one's own": (BOBS, "192.0.2.1", BAD, TOKEN_UNKNOWN),
    "a bad token from a known source": (OPEN, "10.0.0.1", BAD, TOKEN_UNKNOWN),
    "a bad token where anybody may come": (OPEN, "192.0.2.1", BAD, TOKEN_UNKNOWN),
    "an unreadable one where anybody may come": (OPEN, "192.0.2.1", UNREADABLE, TOKEN_UNKNOWN),
    "a listener of one's own": (BOBS, "10.0.0.1", None, BOB),
    "a listener whose agent is gone": (replace(CLOSED, agent="carl"), "10.0.0.1", None, TOKEN_NEEDED),
    "a source": (CLOSED, "10.0.0.1", None, ALICE),
    "the first address of the narrower range": (CLOSED, "10.1.0.0", None, BOB),
    "one before it": (CLOSED, "10.0.255.255", None, ALICE),
    "the last address of the narrower range": (CLOSED, "10.1.255.255", None, BOB),
    "one after it": (CLOSED, "10.2.0.0", None, ALICE),
    "a source as IPv6 sees IPv4": (CLOSED, "::ffff:10.0.0.1", None, ALICE),
    "a source in IPv6": (CLOSED, "fd12::1", None, ALICE),
    "a source with its interface": (OPEN, "fd12::1%eth0", None, ALICE),
    "an IPv4 source with an interface, as IPv6 sees it": (OPEN, "::ffff:10.0.0.1%1", None, ALICE),
    "an interface alone": (CLOSED, "%eth0", None, TOKEN_NEEDED),
    "one address outside": (CLOSED, "11.0.0.0", None, TOKEN_NEEDED),
    "nobody's source where anybody may come": (OPEN, "11.0.0.0", None, NOBODY),
    "a source that is no address": (CLOSED, "", None, TOKEN_NEEDED),
}


@pytest.mark.parametrize("sentence", DECISIONS)
def test_who_is_asking(sentence: str) -> None:
    entrance, source, credential, found = DECISIONS[sentence]
    assert ROSTER.identify(entrance, source, credential) == found


def test_both_refusals_are_by_rule_identity() -> None:
    assert {verdict.rule for verdict in (TOKEN_NEEDED, TOKEN_UNKNOWN)} == {Rule.IDENTITY}


# -- entrances of a configuration

LOOPBACK: dict[str, Any] = {"address": "127.0.0.1:3128"}
OUTSIDE: dict[str, Any] = {"address": "0.0.0.0:3128"}
AGENT: dict[str, Any] = {"alice": {"token_sha256": HELD}}
ENTRANCES: dict[str, tuple[dict[str, Any], dict[str, Any], bool]] = {
    "loopback, no agents": (LOOPBACK, {}, True),
    "loopback, with agents": (LOOPBACK, AGENT, False),
    "loopback, with agents, said so": ({**LOOPBACK, "anonymous": True}, AGENT, True),
    "loopback, no agents, said so": ({**LOOPBACK, "anonymous": False}, {}, False),
    "from other machines": (OUTSIDE, AGENT, False),
}


@pytest.mark.parametrize("sentence", ENTRANCES)
def test_the_nameless_are_served_on_loopback_and_until_there_are_agents(sentence: str) -> None:
    listener, agents, served = ENTRANCES[sentence]
    config = parse_config({"gateway": {"listeners": [listener]}, "agents": agents}, source="test")
    assert Rulebook(config).entrances[0].anonymous is served


def test_entrances_are_named_by_the_ports_in_use() -> None:
    config = parse_config({"gateway": {"listeners": [{"address": "127.0.0.1:0"}]}}, source="test")
    assert [one.name for one in Rulebook(config, [4711]).entrances] == ["default@4711"]
    assert Rulebook(config).tools.name == "local"


def test_the_daemon_s_word_on_profiles_counts_for_whom_nobody_knows_only() -> None:
    config = parse_config(
        {"agents": {"alice": {"profile": "p"}}, "profiles": {"p": {"ports": [443]}, "q": {}}}, source="test"
    )
    rules = Rulebook(config)
    assert rules.find_profile("alice", "q") is config.profiles["p"]
    assert rules.find_profile("local", "q") is config.profiles["q"]
    assert rules.find_profile("local", "r") is None
    own, local = rules.find_profile("alice", "page_read/q"), rules.find_profile("local", "page_read/q")
    assert own is not None
    assert local is not None
    assert (own.ports, local.ports) == (config.profiles["p"].ports, config.profiles["q"].ports)
    assert rules.find_profile("local", "page_read/r") is rules.find_profile("local", "page_read") is None
    # An allowlist is of page reads alone.
    assert rules.find_profile("local", "q", ()) is None
