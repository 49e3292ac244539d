"""`fetchd audit suggest` as a person and a program meet it, and what a hostile log can make of it."""

from __future__ import annotations

import json
import tomllib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from fetchd.faces.audit_commands import group
from fetchd.faces.span_option import parse_moment
from proxy_addons.audit import AuditKeys, CallOutcome, FetchRecord, Outcome, PhaseTimes, SearchRecord
from proxy_addons.audit.web_record import WebRecord
from tests.kit.toml import write_toml
from tests.proxy_addons.audit.kit import close, decision, open_log, series_paths

EVIL = '\x1b]0;owned\x07\x9b31m\u202e\r\n"]\nmode = "monitor"\n[profiles.default]\n#'
WATCH = {"mode": "monitor", "allow_hosts": ["a.example"], "ports": [443, 8443]}


class Place:
    """A state directory with one chain, and a configuration with a profile `watch`."""

    def __init__(self, folder: Path) -> None:
        self.state, self.config = folder / "state", folder / "fetchd.toml"
        write_toml(self.config, {"profiles": {"watch": WATCH}})
        self.log = open_log(self.state / "audit", keys=AuditKeys.load_or_create(self.state / "keys"))

    def ask(
        self, url: str = "https://a.example/", *, end: dict[str, Any] | None = None, **changes: Any
    ) -> None:
        values = {"agent": "bot", "profile": "watch", "policy": "watch@0123456789ab", "url": url, **changes}
        seq = self.log.append(decision(**values))
        if values.get("verdict", Outcome.ALLOWED) is Outcome.ALLOWED:
            said = {"decoded_bytes": 10, "wire_bytes": 5, "request_bytes": 0, "ms": PhaseTimes(total=100.0)}
            self.log.append(close(seq, agent="bot", **{**said, **(end or {})}))

    def run(self, *arguments: str, agent: str = "bot") -> Result:
        self.log.flush()
        options = ["--agent", agent, "--state-dir", str(self.state), "--config", str(self.config)]
        return CliRunner().invoke(group, ["suggest", *options, *arguments])

    def limits(self, *arguments: str) -> dict[str, Any]:
        result = self.run(*arguments)
        assert result.exit_code == 0, result.output
        (profiles,) = tomllib.loads(result.stdout).values()
        ((_, limits),) = profiles.items()
        return limits


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_toml_with_a_line_of_evidence_for_each_rule(place: Place) -> None:
    place.ask("https://b.example/x", would_refuse="host")
    place.ask("https://b.example/y", method="POST", end={"request_bytes": 3})
    text = place.run().stdout
    lines = text.splitlines()
    where = lines.index('    "b.example",')
    assert lines[where - 1].startswith(
        "    # 2 times, 2026-01-01T00:00:00Z to 2026-01-01T00:00:00Z, 1 only reported"
    )
    assert lines[where - 1].endswith("such as GET https://b.example/x")
    assert '# in watch: ["a.example"]' in lines
    assert "[profiles.bot-learned]" in lines
    assert lines[lines.index('mode = "enforce"') - 1] == '# in watch: "monitor"'


def test_json_has_the_limits_and_their_evidence(place: Place) -> None:
    place.ask("https://b.example/x", would_refuse="host")
    found = json.loads(place.run("--json").stdout)
    assert found["limits"]["allow_hosts"] == ["b.example"]
    assert found["hosts"] == [
        {
            "pattern": "b.example",
            "places": [
                {
                    "host": "b.example", "port": 443, "asked": True, "count": 1,
                    "first": "2026-01-01T00:00:00.003000Z", "last": "2026-01-01T00:00:00.003000Z",
                    "would_refuse": 1, "example": "GET https://b.example/x",
                }
            ],
        }
    ]  # fmt: skip
    assert (found["base"]["profile"], found["log_faults"]) == ("watch", [])


def test_the_lines_of_other_agents_are_not_looked_at(place: Place) -> None:
    place.ask("https://b.example/")
    place.ask("https://c.example/", agent="other")
    place.ask("https://d.example/", agent="bot2", fetch_id='"agent":"bot"')
    assert place.limits()["allow_hosts"] == ["b.example"]


def test_what_was_refused_is_told_and_not_allowed(place: Place) -> None:
    place.ask("https://b.example/")
    place.ask("https://c.example:22/", verdict=Outcome.REFUSED, rule="port", detail="x")
    place.ask("https://d.example/", end={"verdict": Outcome.REFUSED, "rule": "byte-cap"})
    result = place.run()
    limits = tomllib.loads(result.stdout)["profiles"]["bot-learned"]
    assert limits["allow_hosts"] == ["b.example", "d.example"]
    assert limits["byte_cap"] == 8 << 20
    assert "# - refused by rule port, and not allowed here either: 1 time" in result.stdout


def test_searches_and_calls_are_tools_that_were_used(place: Place) -> None:
    place.ask("https://b.example/")
    common: dict[str, Any] = {"agent": "bot", "profile": "watch", "policy": "watch@1", "fetch_id": "f"}
    place.log.append(
        SearchRecord(tool="web_search", attempt=1, provider="local", outcome=CallOutcome.SUCCESS, **common)
    )
    place.log.append(FetchRecord(tool="page_read", url=None, outcome=CallOutcome.SOFT, **common))
    assert place.limits()["tools"] == ["page_read", "web_search"]


def test_web_tools_that_a_vendor_ran_are_told_and_open_nothing(place: Place) -> None:
    place.ask("https://api.anthropic.com/v1/messages", would_refuse="web-tool")
    web: dict[str, Any] = {
        "agent": "bot", "fetch_id": "f", "hop": 0, "vendor": "anthropic", "endpoint": "messages", "decision": 3,
        "web_tools": "enforce",
    }  # fmt: skip
    place.log.append(WebRecord(**web))
    assert "vendors" not in place.run().stdout
    place.log.append(WebRecord(**web, declared=["web_search"]))
    text = place.run().stdout
    assert (
        "# - web tools that vendors ran (anthropic) were let through as they were; now web_tools = enforce"
        in text
    )
    assert place.limits()["allow_hosts"] == ["api.anthropic.com"]
    assert "web_tools" not in place.limits()


def test_a_part_of_the_log_by_time(place: Place) -> None:
    place.ask("https://b.example/")
    assert place.run("--since", "2026-01-02").exit_code == 1
    assert place.run("--since", "2025-12-31", "--until", "2026-01-02T00:00Z").exit_code == 0
    assert place.run("--until", "2026-01-01").exit_code == 1
    wrong = place.run("--since", "yesterday")
    assert wrong.exit_code == 2 and "write one such as 2h" in wrong.stderr


MOMENTS = {
    "2h": "2026-11-30T10:00:00.000000Z",
    "90s": "2026-11-30T11:58:30.000000Z",
    "1w": "2026-11-23T12:00:00.000000Z",
    "2026-11-30": "2026-11-30T00:00:00.000000Z",
    "2026-11-30T10:00": "2026-11-30T10:00:00.000000Z",
    "2026-11-30T10:00:00.5Z": "2026-11-30T10:00:00.500000Z",
    "2026-11-30T11:00+01:00": "2026-11-30T10:00:00.000000Z",
}


@pytest.mark.parametrize("text", MOMENTS)
def test_a_moment(text: str) -> None:
    assert parse_moment(text, datetime(2026, 11, 30, 12, tzinfo=UTC)) == MOMENTS[text]


@given(st.text())
def test_any_text_is_a_moment_or_the_named_error(text: str) -> None:
    now = datetime(2026, 11, 30, 12, tzinfo=UTC)
    try:
        moment = parse_moment(text, now)
    except ValueError:
        return
    assert moment.endswith("Z")
    assert parse_moment(moment, now) == moment


@pytest.mark.parametrize("text", ["", "-2h", "2", "999999w", "10:00", "0001-01-01T00:00+10:00"])
def test_what_is_no_moment(text: str) -> None:
    with pytest.raises(ValueError, match="is no time"):
        parse_moment(text, datetime(2026, 11, 30, 12, tzinfo=UTC))


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["--profile-name", "default"], "default and page_read are taken"),
        (["--profile-name", "X"], "name a profile by a small letter"),
        (["--profile", "wacth"], "did you mean watch?"),
    ],
)
def test_bad_arguments_are_one_line_and_status_2(place: Place, arguments: list[str], error: str) -> None:
    place.ask()
    result = place.run(*arguments)
    assert (result.exit_code, result.stdout) == (2, "") and error in result.stderr


def test_a_name_that_is_taken_by_request_takes_the_place_of_the_other(place: Place) -> None:
    place.ask("https://b.example/")
    text = place.run("--profile-name", "watch").stdout
    assert "# - profile watch is there already: these lines take the place of its table" in text
    write_toml(place.config, {"profiles": {"watch": WATCH, "bot-learned": {}}})
    assert "[profiles.bot-learned-2]" in place.run().stdout


def test_an_agent_that_the_log_does_not_have_is_status_1(place: Place) -> None:
    result = place.run(agent="nobody")
    assert result.exit_code == 1 and "has nothing of agent nobody" in result.stderr


def test_a_base_that_is_gone_has_to_be_named(place: Place) -> None:
    place.ask(profile="gone", policy="gone@1")
    result = place.run()
    assert result.exit_code == 2 and "--profile NAME" in result.stderr
    assert place.run("--profile", "watch").exit_code == 0


def test_agents_without_a_name_of_their_own_give_a_profile_one(place: Place) -> None:
    place.ask(agent="watch@3128")
    seq = place.log.append(decision(agent="watch@3128", profile="watch", policy="w@1"))
    place.log.append(close(seq, agent="watch@3128"))
    assert "[profiles.watch-3128-learned]" in place.run(agent="watch@3128").stdout


def test_a_log_that_is_not_whole_is_told_beside_and_within(place: Place) -> None:
    place.ask("https://b.example/")
    place.log.close()
    (path,) = series_paths(place.state / "audit")
    path.write_bytes(path.read_bytes().replace(b"b.example", b"c.example", 1))
    result = place.run()
    assert (
        result.exit_code == 0
        and "warning: the audit log is not whole: gateway-0-000001.jsonl" in result.stderr
    )
    assert (
        "# THE LOG CANNOT BE RELIED ON" in result.stdout and "# gateway-0-000001.jsonl line" in result.stdout
    )
    unseen = place.run("--no-verify")
    assert (unseen.exit_code, unseen.stderr) == (0, "")
    assert "# it was not verified (--no-verify)" in unseen.stdout


@pytest.mark.parametrize("member", ["url", "method", "rule", "policy", "redirect_to", "fetch_id"])
def test_nothing_in_a_log_gets_out_of_its_comment_or_string(place: Place, member: str) -> None:
    place.ask("https://b.example/")
    value = f"https://evil.example/{EVIL}" if member in ("url", "redirect_to") else EVIL
    if member == "redirect_to":
        place.ask(end={"redirect_to": value, "status": 302})
    elif member == "rule":
        place.ask(verdict=Outcome.REFUSED, rule=value)
    else:
        changes: dict[str, Any] = {"url": "https://b.example/", member: value}
        place.ask(**changes)
    result = place.run()
    assert result.exit_code == 0, result.output
    assert all(" " <= character <= "~" or character == "\n" for character in result.stdout)
    profiles = tomllib.loads(result.stdout)["profiles"]
    assert list(profiles) == ["bot-learned"] and profiles["bot-learned"]["mode"] == "enforce"


@given(
    st.dictionaries(
        st.sampled_from(["url", "method", "rule", "policy", "profile", "would_refuse"]), st.text(), max_size=4
    ),
    st.dictionaries(
        st.sampled_from(["redirect_to", "status", "decoded_bytes", "request_bytes", "rule"]),
        st.text() | st.integers(-(2**70), 2**70),
    ),
)
def test_any_line_is_taken_or_passed_over(first: dict[str, Any], last: dict[str, Any]) -> None:
    from fetchd.explaining.learning import Run, Span, _Reader
    from proxy_addons.audit.reader import LogLine

    reader = _Reader("bot", Span())
    line = {"kind": "decision", "agent": "bot", "verdict": "allowed", "seq": 1, "method": "GET", "time": "T"}
    ends = {
        "kind": "close",
        "agent": "bot",
        "verdict": "allowed",
        "decision": 1,
        "time": "T",
        "ms": {"total": 1},
    }
    reader.take(LogLine("gateway-0", b"", {**line, **first}))
    reader.take(LogLine("gateway-0", b"", {**ends, **last}))
    assert isinstance(reader.run, Run)
