"""`fetchd blob get | verify | gc | list` as a person and a script meet them."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from fetchd.faces import blob_cli
from fetchd.store import open_page_store
from tests.fetchd.store.kit import blob_of, keep, page_read

PAGE = b"\x1b]0;owned\x07 page \xff"
IDLE = b"idle"


async def fill(state: Path) -> None:
    async with open_page_store(state) as store:
        await keep(store, PAGE)
        await store.seal(page_read(body=PAGE))
        await keep(store, IDLE)
        # Nobody waits for a read's hold to end.
        await store.records._database.write(lambda db: db.execute("UPDATE blobs SET held_until = 0"))  # type: ignore[attr-defined]


async def put(state: Path, body: bytes) -> None:
    async with open_page_store(state) as store:
        await keep(store, body)
        await store.records._database.write(lambda db: db.execute("UPDATE blobs SET held_until = 0"))  # type: ignore[attr-defined]


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A receipted page and one that no receipt needs."""
    asyncio.run(fill(tmp_path / "state"))
    return tmp_path / "state"


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(blob_cli.group, [str(argument) for argument in arguments])


def file_of(state: Path, body: bytes) -> Path:
    digest = blob_of(body).digest.removeprefix("sha256:")
    return state / "blobs" / "sha256" / digest[:2] / digest[2:]


# ---- get


def test_a_page_comes_out_byte_for_byte(state: Path) -> None:
    result = run("get", blob_of(PAGE).digest, "--state-dir", state)

    assert (result.exit_code, result.stdout_bytes) == (0, PAGE)


def test_a_page_into_a_file(state: Path, tmp_path: Path) -> None:
    target = tmp_path / "out"
    target.write_text("former")
    result = run("get", blob_of(PAGE).digest, "-o", target, "--state-dir", state)

    assert (result.exit_code, target.read_bytes()) == (0, PAGE)


def test_a_damaged_page_comes_out_nowhere(state: Path, tmp_path: Path) -> None:
    file_of(state, PAGE).write_bytes(b"x")
    target = tmp_path / "out"
    target.write_text("former")
    into_file = run("get", blob_of(PAGE).digest, "-o", target, "--state-dir", state)
    to_stdout = run("get", blob_of(PAGE).digest, "--state-dir", state)

    assert into_file.exit_code == to_stdout.exit_code == 2
    assert to_stdout.stdout_bytes == b"" and target.read_text() == "former"
    assert "is damaged: the 1 bytes kept have the digest sha256:" in to_stdout.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "state"]


def test_a_page_that_was_dropped_and_one_that_never_was(state: Path) -> None:
    run("gc", "--max-bytes", "0", "--drop-receipted", "--state-dir", state)
    gone = run("get", blob_of(PAGE).digest, "--state-dir", state)
    never = run("get", blob_of(b"never").digest, "--state-dir", state)

    assert gone.exit_code == never.exit_code == 2
    assert "was kept and has been dropped since; see: fetchd blob list" in gone.stderr
    assert f"no blob {blob_of(b'never').digest}; see: fetchd blob list" in never.stderr


@pytest.mark.parametrize("bad", ["x", "sha256:" + "A" * 64, "../../keys/receipt.key"])
def test_what_is_no_digest(state: Path, bad: str) -> None:
    result = run("get", bad, "--state-dir", state)

    assert (
        result.exit_code == 2
        and "is not a digest: write sha256: and 64 lower-case hex digits" in result.stderr
    )


def on_terminal(state: Path, *options: str) -> tuple[int, bytes, bytes]:
    """Exit status, what the terminal got, what standard error got."""
    leader, follower = pty.openpty()
    arguments = ["blob", "get", blob_of(PAGE).digest, "--state-dir", str(state), *options]
    done = subprocess.run(
        [sys.executable, "-m", "fetchd.faces.cli", *arguments],
        stdout=follower,
        stderr=subprocess.PIPE,
        check=False,
    )
    os.write(follower, b"<end>")
    shown = b""
    while not shown.endswith(b"<end>"):
        shown += os.read(leader, 1000)
    os.close(leader)
    os.close(follower)
    return done.returncode, shown.removesuffix(b"<end>"), done.stderr


def test_a_terminal_gets_no_page_unless_told_to(state: Path) -> None:
    status, shown, error = on_terminal(state)
    assert (status, shown) == (2, b"") and b"write it with -o FILE, or use --force" in error

    status, shown, _ = on_terminal(state, "--force")
    assert (status, shown) == (0, PAGE)


# ---- verify


def test_whole_pages_exit_0(state: Path) -> None:
    result = run("verify", "--state-dir", state)

    assert (result.exit_code, result.stdout) == (0, "2 verified, 0 broken\n")


def test_broken_and_missing_pages_exit_1_and_are_named(state: Path) -> None:
    file_of(state, IDLE).write_bytes(b"idlE")
    file_of(state, PAGE).unlink()
    result = run("verify", "--state-dir", state)

    assert result.exit_code == 1
    assert f"{blob_of(IDLE).digest} is damaged" in result.stdout
    assert f"{blob_of(PAGE).digest} is missing" in result.stdout
    assert result.stdout.endswith("2 verified, 2 broken\n")
    machine = run("verify", "--json", "--state-dir", state)
    assert set(json.loads(machine.stdout)["broken"]) == {blob_of(IDLE).digest, blob_of(PAGE).digest}


def test_only_those_named(state: Path) -> None:
    file_of(state, IDLE).write_bytes(b"idlE")

    assert run("verify", blob_of(PAGE).digest, "--state-dir", state).exit_code == 0
    assert run("verify", blob_of(PAGE).digest, blob_of(IDLE).digest, "--state-dir", state).exit_code == 1


def test_a_page_outside_the_index_is_verified_too(state: Path) -> None:
    stray = file_of(state, b"stray")
    stray.parent.mkdir(exist_ok=True)
    stray.write_bytes(b"changed")
    result = run("verify", "--state-dir", state)

    assert result.exit_code == 1 and f"{blob_of(b'stray').digest} is damaged" in result.stdout


# ---- gc and list


def test_gc_leaves_what_receipts_need(state: Path) -> None:
    would = run("gc", "--max-bytes", "0", "--dry-run", "--state-dir", state)
    assert would.stdout == f"{blob_of(IDLE).digest}\t4\n" and file_of(state, IDLE).exists()
    assert would.stderr.startswith("1 would be dropped (4 bytes); 1 left")

    done = run("gc", "--max-bytes", "0", "--state-dir", state)
    assert done.stdout == would.stdout and not file_of(state, IDLE).exists()
    assert "1 of them needed by receipts (--drop-receipted drops those too)" in done.stderr
    assert file_of(state, PAGE).exists()


def test_gc_told_to_drops_them_and_then_nothing_is_left(state: Path) -> None:
    result = run("gc", "--max-bytes", "0", "--drop-receipted", "--state-dir", state)

    assert result.exit_code == 0 and "2 dropped" in result.stderr and "0 left (0 bytes)" in result.stderr
    assert not file_of(state, PAGE).exists()
    assert run("gc", "--state-dir", state).stderr.startswith("0 dropped (0 bytes)")


def test_gc_goes_by_the_limit_of_the_configuration(state: Path, tmp_path: Path) -> None:
    large = bytes(1 << 20)
    asyncio.run(put(state, large))
    config = tmp_path / "fetchd.toml"
    config.write_text("[store]\nmax_bytes = 1_048_576\n")

    assert run("gc", "--state-dir", state).stdout == ""
    dropped = run("gc", "--config", config, "--state-dir", state).stdout.split()
    assert dropped == [blob_of(IDLE).digest, "4", blob_of(large).digest, str(1 << 20)]


def test_gc_tidies_after_crashes(state: Path) -> None:
    left = state / "blobs" / "scratch" / "left"
    left.write_bytes(b"half")
    run("gc", "--dry-run", "--state-dir", state)
    assert left.exists()
    run("gc", "--state-dir", state)
    assert not left.exists()


def test_the_list(state: Path) -> None:
    rows = [line.split("\t") for line in run("list", "--state-dir", state).stdout.splitlines()]
    machine = [json.loads(line) for line in run("list", "--json", "--state-dir", state).stdout.splitlines()]

    assert {(row[0], row[1], row[3]) for row in rows} == {
        (blob_of(PAGE).digest, str(len(PAGE)), "receipted"),
        (blob_of(IDLE).digest, "4", "-"),
    }
    assert [row["digest"] for row in machine] == [row[0] for row in rows] == sorted(row[0] for row in rows)


# ---- no store


@pytest.mark.parametrize("command", [["list"], ["verify"], ["gc"], ["get", blob_of(PAGE).digest]])
def test_where_nothing_was_kept_nothing_is_made(tmp_path: Path, command: list[str]) -> None:
    result = run(*command, "--state-dir", tmp_path / "nowhere")

    assert result.exit_code == 2 and "no pages kept in" in result.stderr and "--state-dir" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_database_is_one_line(state: Path) -> None:
    for path in state.glob("fetchd.db*"):
        path.write_bytes(b"junk" * 500)
    result = run("list", "--state-dir", state)

    assert result.exit_code == 2 and "damaged; move it away" in result.stderr
    assert len(result.stderr.splitlines()) == 1
