"""`fetchd why` as a person and a program meet it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from fetchd.faces.why_cli import why
from proxy_addons.audit import (
    Addresses,
    AuditKeys,
    AuditLog,
    CallOutcome,
    DroppedAddress,
    Outcome,
    PhaseTimes,
    TlsFacts,
)
from proxy_addons.policy.config import parse_config
from proxy_addons.policy.wire import policy_name
from tests.kit.toml import write_toml
from tests.proxy_addons.audit.kit import close, decision, open_log
from tests.proxy_addons.audit.test_record import SEARCH, WEB
from tests.proxy_addons.audit.test_story import fetch_line

EVIL = "\x1b]0;owned\x07\x9b31m\u202e\r\n[red]x[/red]"
CODING = {"allow_hosts": ["a.example"], "total_timeout": 30}


class Place:
    """A state directory with one chain, and a configuration with a profile `coding`."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.state, self.config = folder, folder / "state", folder / "fetchd.toml"
        self.write_config(CODING)
        self.log: AuditLog = open_log(self.state / "audit", keys=AuditKeys.generate())
        self.policy = policy_name(
            parse_config({"profiles": {"coding": CODING}}, source="x").profiles["coding"]
        )

    def write_config(self, coding: dict[str, Any] | None) -> None:
        write_toml(self.config, {"profiles": {} if coding is None else {"coding": coding}})

    def decide(self, verdict: Outcome = Outcome.ALLOWED, **changes: Any) -> int:
        return self.log.append(decision(verdict, **{"profile": "coding", "policy": self.policy, **changes}))

    def run(self, *arguments: str, config: Path | None = None) -> Result:
        options = ["--state-dir", str(self.state), "--config", str(config or self.config)]
        return CliRunner().invoke(why, [*arguments, *options])

    def remedy(self, fetch_id: str = "f1") -> dict[str, Any]:
        return json.loads(self.run(fetch_id, "--json").stdout)["remedy"]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_the_story_of_a_chain_that_was_refused_at_its_second_hop(place: Place) -> None:
    first = place.decide(fetch_id="f1", url="https://a.example/start")
    place.log.append(
        close(
            first,
            fetch_id="f1",
            verdict=Outcome.REFUSED,
            rule="host",
            detail="redirect from https://a.example/start to https://docs.rs/x refused: host not allowed: docs.rs",
            status=302,
            media_type="text/html",
            wire_bytes=1234,
            decoded_bytes=5678,
            addresses=Addresses(
                ("93.184.216.34", "10.0.0.7"), (DroppedAddress("10.0.0.7", "10.0.0.0/8"),), "93.184.216.34"
            ),
            tls=TlsFacts("TLSv1.3", "ab" * 32),
            ms=PhaseTimes(1.25, 2, 3, None, 1234.5),
        )
    )
    place.log.append(
        fetch_line(outcome=CallOutcome.SOFT, rule="host", detail="redirect refused", bytes=None, ms=7.0)
    )
    result = place.run("f1")

    assert result.exit_code == 0
    assert result.stdout == (
        "f1: let through, then refused by rule host\n"
        "\n"
        "time        2026-01-01 00:00:00.003 UTC\n"
        "agent       local\n"
        f"profile     coding, version {place.policy[7:]}, as it is in {place.config}\n"
        "asked       GET https://a.example/start\n"
        "\n"
        "hop 0       GET https://a.example/start\n"
        "verdict     allowed, then refused by rule host\n"
        "message     redirect from https://a.example/start to https://docs.rs/x refused: host not allowed: docs.rs\n"
        "resolved    93.184.216.34, 10.0.0.7\n"
        "dropped     10.0.0.7 in range 10.0.0.0/8\n"
        "dialled     93.184.216.34\n"
        f"TLS         TLSv1.3, certificate sha256 {'ab' * 32}\n"
        "status      302 of the origin, text/html\n"
        "bytes       1,234 on the wire, 5,678 decoded\n"
        "ms          dns 1.2, connect 2.0, tls 3.0, total 1,234.5\n"
        "\n"
        "web_fetch   soft: redirect refused\n"
        "ms          7.0\n"
        "\n"
        f"To allow it, in {place.config}:\n"
        "\n"
        "  [profiles.coding]\n"
        '  allow_hosts = ["a.example", "docs.rs"]\n'
        "\n"
        "Then: fetchd config check, and fetchd reload.\n"
    )


def test_the_same_for_a_program(place: Place) -> None:
    place.decide(
        Outcome.REFUSED,
        rule="port",
        detail="port not allowed: 8443",
        url="https://a.example:8443/",
        status=403,
    )
    result = place.run("f1", "--json")
    (line,) = result.stdout.splitlines()
    document = json.loads(line)

    assert (document["fetch_id"], document["outcome"], document["rule"]) == ("f1", "refused", "port")
    assert (document["profile"], document["profile_now"]) == ("coding", "same")
    assert document["hops"][0]["decision"]["detail"] == "port not allowed: 8443"
    assert document["hops"][0]["close"] is None
    assert document["remedy"]["set"] == {"ports": [80, 443, 8443]}
    assert document["remedy"]["toml"] == ["[profiles.coding]", "ports = [80, 443, 8443]"]


# ---------------------------------------------------------------------------------------------- what is found


def test_a_beginning_of_the_id_is_enough(place: Place) -> None:
    place.decide(fetch_id="019ad4c2f06a5d1b")

    assert place.run("019ad4").stdout.startswith("019ad4c2f06a5d1b: ")


def test_several_fetches_with_that_beginning_are_listed(place: Place) -> None:
    place.decide(fetch_id="019a1", url="https://a.example/1")
    place.decide(Outcome.REFUSED, fetch_id="019a2", rule="host", url="https://b.example/2")
    result = place.run("019a")

    assert result.exit_code == 1
    assert result.stderr == "several fetches begin with 019a; name one further:\n"
    rows = [line.split() for line in result.stdout.splitlines()]
    assert [row[0] for row in rows] == ["fetch", "019a1", "019a2"]
    assert rows[2][-4:] == ["refused", "host", "GET", "https://b.example/2"]


@pytest.mark.parametrize("fetch_id", ["f2", "", "\x1b[1m"])
def test_an_unknown_id_is_one_line(place: Place, fetch_id: str) -> None:
    place.decide()
    result = place.run(fetch_id)

    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.count("\n") == 1 and result.stderr.isascii() and "\x1b" not in result.stderr
    assert "were older files moved away, or is it in another --state-dir?" in result.stderr


def test_last_and_last_refused(place: Place) -> None:
    place.decide(fetch_id="f1")
    place.decide(Outcome.REFUSED, fetch_id="f2", rule="host")
    place.decide(fetch_id="f3")

    assert place.run("--last").stdout.startswith("f3: ")
    assert place.run("--last-refused").stdout.startswith("f2: refused by rule host")
    lines = place.run("--last", "2", "--json").stdout.splitlines()
    assert [json.loads(line)["fetch_id"] for line in lines] == ["f3", "f2"]


def test_nothing_refused_yet(place: Place) -> None:
    place.decide()
    result = place.run("--last-refused")

    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == f"no refused fetch in {place.state}/audit yet\n"


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("f1", "--last"),
        ("f1", "--last-refused"),
        ("--last", "--last-refused"),
        ("--last", "0"),
        ("--last", "21"),
    ],
    ids=["none", "id and last", "id and last refused", "both lasts", "0", "more than are held"],
)
def test_bad_arguments_exit_2(place: Place, arguments: tuple[str, ...]) -> None:
    result = place.run(*arguments)

    assert (result.exit_code, result.stdout) == (2, "")


def test_without_a_log_it_says_where_it_looked(tmp_path: Path) -> None:
    result = CliRunner().invoke(why, ["f1", "--state-dir", str(tmp_path)])

    assert result.exit_code == 2
    assert f"no audit log at {tmp_path}/audit; give the state directory with --state-dir" in result.stderr


# ------------------------------------------------------------------------------------------- hostile contents


def test_nothing_in_the_log_moves_the_terminal(place: Place) -> None:
    seq = place.decide(
        fetch_id=f"e{EVIL}",
        agent=EVIL,
        method=EVIL,
        url=f"https://a.example/{EVIL}",
        profile=EVIL,
        policy=EVIL,
    )
    place.log.append(
        close(
            seq, fetch_id=f"e{EVIL}", verdict=Outcome.REFUSED, rule=EVIL, detail=EVIL, media_type=EVIL,
            addresses=Addresses((EVIL,), (DroppedAddress(EVIL, EVIL),), EVIL), tls=TlsFacts(EVIL, EVIL),
        )
    )  # fmt: skip
    place.log.append(fetch_line(fetch_id=f"e{EVIL}", tool=EVIL, detail=EVIL, final_url=EVIL, extraction=EVIL))
    for arguments in (("--last",), ("--last", "--json")):
        result = place.run(*arguments)

        assert result.exit_code == 0, result.stderr
        assert set(result.stdout) <= {chr(code) for code in range(32, 127)} | {"\n"}


def test_members_of_another_kind_than_ours_are_passed_over(place: Place) -> None:
    place.decide()
    place.log.close()
    (path,) = (place.state / "audit").glob("*.jsonl")
    path.write_bytes(
        b"".join(
            line.replace(
                b'"addresses":null', b'"addresses":{"dropped":[1,{"address":1}],"returned":7,"dialled":[]}'
            )
            .replace(b'"ms":{"dns":null', b'"ms":{"dns":"x"')
            .replace(b'"hop":0', b'"hop":"zero"')
            for line in path.read_bytes().splitlines(keepends=True)
        )
    )

    assert place.run("f1").exit_code == 0


# --------------------------------------------------------------------------------------------- the profile now


def test_a_profile_that_has_changed_since_is_said_to_have(place: Place) -> None:
    place.decide(Outcome.REFUSED, rule="host", url="https://docs.rs/")
    place.write_config({"allow_hosts": ["docs.rs"]})
    result = place.run("f1")

    assert f"which has changed since: in {place.config} it is version" in result.stdout
    assert "Nothing to change: profile coding as it is now does not refuse it." in result.stdout


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("host", "No change to a profile would allow it: profile coding is not in the configuration"),
        ("downgrade", "No profile can allow it: a redirect from https to http is refused in every profile"),
        ("upstream", "No change to a profile would allow it: the origin failed"),
        ("from-the-future", "this version of fetchd does not know that rule"),
    ],
)
def test_a_profile_that_is_gone(place: Place, rule: str, words: str) -> None:
    place.decide(Outcome.REFUSED, rule=rule, url="https://docs.rs/")
    place.write_config(None)
    result = place.run("f1")

    assert f"which is not in {place.config} any more" in result.stdout
    assert words in result.stdout


def test_a_configuration_that_was_named_has_to_be_good(place: Place) -> None:
    place.config.write_text("[gatway]\n")
    place.decide()

    assert place.run("f1").exit_code == 2


def test_one_that_only_lies_there_is_done_without(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.config.write_text("[gatway]\n")
    monkeypatch.setenv("FETCHD_CONFIG", str(place.config))
    place.decide(Outcome.REFUSED, rule="downgrade")
    result = CliRunner().invoke(why, ["f1", "--state-dir", str(place.state)])

    assert result.exit_code == 0
    assert "gatway: no such table" in result.stderr
    assert "the configuration of today cannot be read" in result.stdout
    assert "No profile can allow it" in result.stdout


# ------------------------------------------------------------------------------------------------ the remedies


def test_what_would_loosen_default_names_another_profile_and_where_to_name_it(place: Place) -> None:
    place.decide(
        Outcome.REFUSED, profile="default", policy="default@x", rule="scheme", url="http://a.example/"
    )
    result = place.run("f1")

    assert '  [profiles.wider]\n  schemes = ["http", "https"]\n' in result.stdout
    assert "note: default may only be tightened" in result.stdout
    assert 'profile = "wider" at a listener of [gateway], in [agents.NAME] or in [daemon]' in result.stdout


def test_a_private_address_comes_with_a_warning(place: Place) -> None:
    place.decide(
        Outcome.REFUSED, rule="no-allowed-address", url="https://a.example/x",
        addresses=Addresses(("10.0.0.7",), (DroppedAddress("10.0.0.7", "10.0.0.0/8"),)),
    )  # fmt: skip
    result = place.run("f1")

    assert '  exceptions = [{ host = "a.example", address = "10.0.0.7", port = 443 }]\n' in result.stdout
    assert "note: 10.0.0.7 is in a blocked range, 10.0.0.0/8 (private)" in result.stdout


@pytest.mark.parametrize(
    ("status", "asked"),
    [(302, "GET"), (303, "GET"), (307, "POST"), (308, "POST")],
)
def test_the_method_after_a_redirect_is_the_one_a_client_would_use(
    place: Place, status: int, asked: str
) -> None:
    """A profile that lets POST through but not GET."""
    place.write_config({**CODING, "methods": ["POST"]})
    seq = place.decide(method="POST", url="https://a.example/")
    detail = "redirect from https://a.example/ to https://b.example/ refused: host not allowed: b.example"
    place.log.append(close(seq, verdict=Outcome.REFUSED, rule="host", detail=detail, status=status))

    assert ("methods" in place.remedy()["set"]) == (asked == "GET")


def test_a_refusal_of_the_daemon_s_own_is_explained_from_its_line(place: Place) -> None:
    place.log.append(
        fetch_line(
            profile="coding", policy=place.policy, url="https://docs.rs/x", outcome=CallOutcome.HARD,
            failure="InvalidArguments", rule="host", detail="host not allowed: docs.rs",
        )
    )  # fmt: skip

    assert place.run("f1").stdout.startswith("f1: refused by rule host\n")
    assert place.remedy()["set"] == {"allow_hosts": ["a.example", "docs.rs"]}


def test_a_profile_that_only_reports_is_told_what_would_have_been(place: Place) -> None:
    seq = place.decide(url="https://docs.rs/", would_refuse="host")
    place.log.append(close(seq))
    result = place.run("f1")

    assert "reported    rule host would have refused it" in result.stdout
    assert "It was let through, for the profile only reports. To allow it, in" in result.stdout


@pytest.mark.parametrize(
    ("status", "by_daemon", "said"),
    [(401, False, True), (403, False, False), (200, False, False), (401, True, False)],
    ids=["401 for an agent", "403", "200", "401 for the daemon, which has no credentials"],
)
def test_a_login_that_was_removed(place: Place, status: int, by_daemon: bool, said: bool) -> None:
    seq = place.decide(url="https://a.example/x")
    place.log.append(close(seq, status=status))
    if by_daemon:
        place.log.append(fetch_line(outcome=CallOutcome.SOFT))
    result = place.run("f1")

    assert ('  credential_hosts = ["a.example"]' in result.stdout) == said


def test_a_long_list_is_shown_by_what_is_new(place: Place) -> None:
    place.write_config({"allow_hosts": [f"host-{number}.example" for number in range(100)]})
    place.decide(Outcome.REFUSED, rule="host", url="https://docs.rs/")
    result = place.run("f1")

    assert '  allow_hosts = [..., "docs.rs"]\n' in result.stdout
    assert "note: ... stands for the entries that are there already" in result.stdout
    assert len(place.remedy()["set"]["allow_hosts"]) == 101


# ------------------------------------------------------------------------------------------------ web tools


def test_the_story_of_a_call_to_a_model_says_what_its_vendor_searched(place: Place) -> None:
    seq = place.decide()
    place.log.append(close(seq))
    place.log.append(replace(WEB, decision=seq, calls=[("web_search", "unavailable", True)]))
    result = place.run("f1")

    assert "web tools   anthropic messages, 1 call of web tools, failed: unavailable" in result.stdout
    (line,) = json.loads(place.run("f1", "--json").stdout)["web"]
    assert line["calls"] == [{"tool": "web_search", "error": "unavailable", "ended": True}]


# ------------------------------------------------------------------------------------------------- searches


def test_the_story_of_a_search_and_its_fallback(place: Place) -> None:
    first = replace(
        SEARCH,
        profile="coding",
        policy=place.policy,
        provider="brave",
        query_digest="hmac-sha256:ab",
        count=3,
        include_domains=("a.example", "b.example"),
        outcome=CallOutcome.HARD,
        failure="Backend",
        detail="web_search: backend returned 503",
        ms=12.3,
    )
    place.log.append(first)
    place.log.append(
        replace(
            first, attempt=2, provider="local", outcome=CallOutcome.SUCCESS, failure=None, detail=None,
            rows=2, dropped=1, credits=0.5, ms=1.0,
        )
    )  # fmt: skip
    result = place.run("f1")

    assert result.exit_code == 0
    head, facts, one, two = result.stdout.rstrip().split("\n\n")
    assert head == "f1: answered by local"
    assert "asked       web_search hmac-sha256:ab" in facts
    assert one.splitlines() == [
        "attempt 1   brave",
        "outcome     hard: Backend: web_search: backend returned 503",
        "asked for   count 3, include_domains a.example b.example",
        "ms          12.3",
    ]
    assert two.splitlines() == [
        "attempt 2   local, 2 rows, 1 dropped",
        "outcome     success",
        "asked for   count 3, include_domains a.example b.example",
        "credits     0.5",
        "ms          1.0",
    ]
    document = json.loads(place.run("f1", "--json").stdout)
    assert [line["provider"] for line in document["searches"]] == ["brave", "local"]
    assert (document["outcome"], document["remedy"], document["profile"]) == ("success", None, "coding")


@pytest.mark.parametrize(
    ("facts", "ending"),
    [
        ({"attempt": 0, "outcome": CallOutcome.HARD}, "failed, and no provider was asked"),
        ({"provider": "brave", "outcome": CallOutcome.HARD}, "failed, last at brave"),
        ({"provider": "brave", "outcome": CallOutcome.ABORTED}, "dropped by its caller"),
        ({"provider": EVIL, "query": EVIL, "detail": EVIL, "country": EVIL, "include_domains": [EVIL]}, ""),
    ],
)
def test_how_a_search_ended(place: Place, facts: dict[str, Any], ending: str) -> None:
    place.log.append(replace(SEARCH, **facts))
    shown = place.run("f1").stdout

    assert shown.startswith(f"f1: {ending}")
    assert all(c.isprintable() and c.isascii() for c in shown.replace("\n", ""))
