"""`fetchd audit verify` and `audit tail` as a person and a script meet them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from fetchd.faces import audit_cli
from fetchd.faces.audit_cli import follow_log, resolve_state_dir
from fetchd.faces.safe_text import escape_text
from proxy_addons.audit import AuditKeys, AuditLog, Outcome
from proxy_addons.audit.keys import PUBLIC_FILE
from proxy_addons.audit.reader import Follower, LogLine
from tests.proxy_addons.audit.kit import close, decision, event, open_log, series_paths

EVIL = "\x1b]0;owned\x07\x9b31m\u202e[red]markup[/red]\r\n"


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A state directory with two chains: an allowed hop, a refused one, an open one, an event."""
    keys = AuditKeys.load_or_create(tmp_path / "keys")
    log = open_log(tmp_path / "audit", keys=keys)
    log.append(decision(agent="alice"))
    log.append(close(3, agent="alice", decoded_bytes=12345))
    log.append(decision(Outcome.REFUSED, agent="bob", rule="scheme", status=403, detail=EVIL, url=EVIL))
    log.append(decision(agent=EVIL, method="HEAD"))
    log.close()
    daemon = open_log(tmp_path / "audit", "daemon", keys=keys)
    daemon.append(event("note"))
    daemon.close()
    return tmp_path


def run(*arguments: str | Path, **options: Any) -> Result:
    return CliRunner().invoke(audit_cli.group, [str(argument) for argument in arguments], **options)


# ---- verify


def test_a_whole_log_exits_0_and_shows_each_head(state: Path) -> None:
    result = run("verify", "--state-dir", state)

    assert result.exit_code == 0
    assert "daemon: whole, 4 lines in 1 files" in result.output
    assert "gateway-0: whole, 7 lines in 1 files" in result.output
    assert "  head 7:" in result.output


def test_a_broken_log_exits_1_and_names_file_and_line(state: Path) -> None:
    path = series_paths(state / "audit")[0]
    path.write_bytes(path.read_bytes().replace(b"alice", b"malin", 1))

    result = run("verify", "--state-dir", state)

    assert result.exit_code == 1
    assert "gateway-0: BROKEN" in result.output
    assert "  gateway-0-000001.jsonl line 3: its hash does not fit its text" in result.output
    assert "daemon: whole" in result.output


def test_json_holds_the_same(state: Path) -> None:
    path = series_paths(state / "audit")[0]
    path.write_bytes(path.read_bytes()[:-1])

    result = run("verify", "--state-dir", state, "--json")

    report = json.loads(result.output)
    broken = {chain["chain"]: chain for chain in report["chains"]}["gateway-0"]
    assert result.exit_code == 1 and report["ok"] is False and broken["ok"] is False
    assert (broken["findings"][0]["line"], broken["findings"][0]["check"]) == (7, "torn")


def test_the_printed_head_can_be_expected_later(state: Path) -> None:
    head = json.loads(run("verify", "--state-dir", state, "--json").output)["chains"][1]["head"]

    assert run("verify", "--state-dir", state, "--expect-head", f"gateway-0={head}").exit_code == 0
    for path in (state / "audit").glob("gateway-0*"):
        path.unlink()
    result = run("verify", "--state-dir", state, "--expect-head", f"gateway-0={head}")
    assert result.exit_code == 1
    assert "lines 1 to 7 are missing at the end; the expected head names line 7" in result.output


def test_another_public_key_can_be_named(state: Path, tmp_path: Path) -> None:
    own = state / "keys" / PUBLIC_FILE
    foreign = tmp_path / "foreign.pem"
    foreign.write_bytes(AuditKeys.generate().public.render_pem())

    assert run("verify", "--state-dir", state, "--public-key", own).exit_code == 0
    assert run("verify", "--state-dir", state, "--public-key", foreign).exit_code == 1
    assert run("verify", "--state-dir", state, "--public-key", foreign, "--public-key", own).exit_code == 0


BAD_ARGUMENTS = {
    "a head without series": ["--expect-head", "7"],
    "a head without hash": ["--expect-head", "gateway-0=7"],
    "a series name in another form": ["--expect-head", f"Gateway=7:{'a' * 64}"],
    "a series named twice": ["--expect-head", f"a=7:{'a' * 64}", "--expect-head", f"a=8:{'a' * 64}"],
    "a public key that is not there": ["--public-key", "nowhere.pem"],
    "an unknown option": ["--nope"],
}


@pytest.mark.parametrize("case", BAD_ARGUMENTS)
def test_bad_arguments_exit_2_with_words(state: Path, case: str) -> None:
    result = run("verify", "--state-dir", state, *BAD_ARGUMENTS[case])

    assert result.exit_code == 2 and "Error: " in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize("command", ["verify", "tail"])
def test_a_state_directory_without_log_exits_2_and_says_what_to_do(tmp_path: Path, command: str) -> None:
    result = run(command, "--state-dir", tmp_path)

    assert result.exit_code == 2
    assert f"no audit log at {tmp_path}/audit; give the state directory with --state-dir" in result.stderr


def test_an_empty_log_directory_is_no_whole_log(tmp_path: Path) -> None:
    AuditKeys.load_or_create(tmp_path / "keys")
    (tmp_path / "audit").mkdir()

    result = run("verify", "--state-dir", tmp_path)

    assert result.exit_code == 2 and "no audit log in" in result.stderr


# ---- state directory


@pytest.mark.parametrize(
    ("given", "environ", "expected"),
    [
        (Path("x"), {"XDG_STATE_HOME": "/xdg"}, Path("x")),
        (None, {"XDG_STATE_HOME": "/xdg"}, Path("/xdg/fetchd")),
        (None, {"XDG_STATE_HOME": "relative"}, Path.home() / ".local/state/fetchd"),
        (None, {"XDG_STATE_HOME": ""}, Path.home() / ".local/state/fetchd"),
        (None, {}, Path.home() / ".local/state/fetchd"),
    ],
    ids=["as given", "XDG", "a relative XDG is ignored", "an empty XDG is none", "home"],
)
def test_where_the_state_is(given: Path | None, environ: dict[str, str], expected: Path) -> None:
    assert resolve_state_dir(given, environ) == expected


def test_the_environment_names_the_state_directory(state: Path) -> None:
    assert run("verify", env={"FETCHD_STATE": str(state)}).exit_code == 0


# ---- tail


def columns(result: Result) -> list[list[str]]:
    return [line.split("\t") for line in result.output.splitlines()]


def test_a_pipe_gets_one_row_a_hop_in_tab_separated_columns(state: Path) -> None:
    result = run("tail", "--state-dir", state)

    rows = columns(result)
    assert result.exit_code == 0 and {len(row) for row in rows} == {9}
    alice = next(row for row in rows if row[1] == "alice")
    assert alice[2:8] == ["GET", "https://example.com/a", "allowed", "", "200", "12,345"]
    assert [row[4] for row in rows if row[2] == "HEAD"] == ["open"]
    assert any(row[3] == "daemon: note" for row in rows)


@pytest.mark.parametrize(
    ("arguments", "verdicts"),
    [
        (["--refused"], ["refused"]),
        (["--agent", "alice"], ["allowed"]),
        (["--agent", "alice", "--refused"], []),
        (["--lines", "0"], []),
    ],
)
def test_rows_are_filtered(state: Path, arguments: list[str], verdicts: list[str]) -> None:
    assert [row[4] for row in columns(run("tail", "--state-dir", state, *arguments))] == verdicts


def test_lines_counts_rows_of_all_chains_together(state: Path) -> None:
    everything, last = run("tail", "--state-dir", state), run("tail", "--state-dir", state, "-n", "2")

    assert columns(last) == columns(everything)[-2:]


def test_json_prints_the_lines_as_they_stand(state: Path) -> None:
    result = run("tail", "--state-dir", state, "--json", "-n", "100")

    printed = result.output.splitlines()
    stored = [line.decode() for name in ("daemon", "gateway-0") for line in raw(state, name)]
    assert sorted(printed) == sorted(stored)
    assert [json.loads(line)["verdict"] for line in run_json(state, "--refused")] == ["refused"]


def raw(state: Path, series: str) -> list[bytes]:
    return [line for path in series_paths(state / "audit", series) for line in path.read_bytes().splitlines()]


def run_json(state: Path, *arguments: str) -> list[str]:
    return run("tail", "--state-dir", state, "--json", *arguments).output.splitlines()


@pytest.mark.parametrize("arguments", [[], ["--json"]], ids=["table", "json"])
def test_nothing_but_printable_ascii_reaches_the_output(state: Path, arguments: list[str]) -> None:
    with series_paths(state / "audit")[0].open("ab") as file:
        file.write(b"\x1b[31mtampered\x07\x7f\xff\n")

    output = run("tail", "--state-dir", state, "-n", "100", *arguments).output

    assert "tampered" in output
    assert {c for c in output if not " " <= c <= "~"} <= {"\n", "\t"}


def test_a_terminal_gets_a_table_in_which_markup_is_inert(state: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "fetchd.faces.audit_cli", "tail", "--state-dir", str(state)],
        env={**os.environ, "FORCE_COLOR": "1", "COLUMNS": "200", "TERM": "xterm"},
        capture_output=True,
        text=True,
        check=True,
    )

    assert "time (UTC)" in done.stdout and "\x1b[1;31mrefused\x1b[0m" in done.stdout
    assert "[red]markup[/red]" in done.stdout
    assert "\x1b]0;" not in done.stdout and "\x07" not in done.stdout and "\u202e" not in done.stdout


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("plain ~", "plain ~"),
        ("\x1b[31m", "\\x1b[31m"),
        ("\x7f\x9b", "\\x7f\\x9b"),
        ("\u202e", "\\u202e"),
        ("\ud800", "\\ud800"),
        ("\n\t", "\\n\\t"),
        ("\U0001f600", "\\U0001f600"),
    ],
)
def test_escapes(text: str, escaped: str) -> None:
    assert escape_text(text) == escaped


# ---- follow


class EnoughError(Exception):
    """Ends a follow loop."""


def test_following_shows_what_each_wait_brought(state: Path) -> None:
    keys = AuditKeys.load_or_create(state / "keys")
    log = AuditLog.open(state / "audit", "gateway-7", keys, rotate_bytes=1500)
    follower = Follower(state / "audit")
    shown: list[list[int | float | None]] = []
    waits = iter(range(4))

    def show(lines: list[LogLine]) -> None:
        shown.append([line.number("hop") for line in lines if line.text("kind") == "decision"])

    def wait() -> None:
        number = next(waits, None)
        if number is None:
            raise EnoughError
        for hop in range(number):
            log.append(decision(hop=hop))
        log.flush()

    with pytest.raises(EnoughError):
        follow_log(follower, show, wait)
    log.close()

    assert shown == [[], [], [0], [0, 1], [0, 1, 2]]
    assert len(series_paths(state / "audit", "gateway-7")) > 2


def test_a_running_follow_prints_new_lines_and_ends_quietly(state: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "fetchd.faces.audit_cli", "tail", "-f", "-n", "1", "--state-dir", str(state)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        process.stdout.readline()  # the row that was there: the process now follows
        log = AuditLog.open(state / "audit", "gateway-0", AuditKeys.load_or_create(state / "keys"))
        log.append(decision(Outcome.REFUSED, url="https://new.example/"))
        log.close()
        rows = [process.stdout.readline() for _ in range(2)]
        process.send_signal(2)
        _, errors = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()

    assert "gateway-0: resumed" in rows[0] and "https://new.example/" in rows[1]
    assert (process.returncode, errors) == (0, "")
