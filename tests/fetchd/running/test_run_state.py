"""What runs on a state directory: a lock decides, not a file; and the daemon's secret."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path

import pytest

from fetchd.running.run_state import (
    RunState,
    SecretError,
    StateInUseError,
    find_owner,
    load_or_create_secret,
    own_state_dir,
    read_run_state,
    read_secret,
    remove_run_state,
    write_run_state,
)
from tests.kit.corpora import REPOSITORY

STATE = RunState(
    pid=os.getpid(),
    started="2026-01-01T00:00:00+00:00",
    config="built-in configuration",
    listeners=(("127.0.0.1", 3128, "default"), ("::1", 3128, "open")),
    tools=("127.0.0.1", 3129),
    operator=("127.0.0.1", 3130),
    workers=2,
    ca_path="/s/ca.pem",
    ca_expires="2029-01-01T00:00:00+00:00",
)
HOLDER = """
import sys
from pathlib import Path
from fetchd.running.run_state import own_state_dir
with own_state_dir(Path(sys.argv[1])):
    print("owned", flush=True)
    sys.stdin.read()
"""


def start_holder(state: Path) -> subprocess.Popen[str]:
    """Another process that owns `state` until its input ends."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(state)], cwd=REPOSITORY,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "owned\n"
    return process


def test_what_was_written_is_read_while_the_directory_is_owned(tmp_path: Path) -> None:
    with own_state_dir(tmp_path):
        assert read_run_state(tmp_path) is None
        write_run_state(tmp_path, STATE)
        assert read_run_state(tmp_path) == STATE
        assert find_owner(tmp_path) == os.getpid()
        remove_run_state(tmp_path)
        assert read_run_state(tmp_path) is None

    assert find_owner(tmp_path) is None


def test_leaving_takes_the_file_away(tmp_path: Path) -> None:
    with own_state_dir(tmp_path):
        write_run_state(tmp_path, STATE)

    assert not (tmp_path / "run.json").exists()


def test_a_directory_that_is_not_there_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    state = tmp_path / "a" / "b"
    assert find_owner(state) is None
    assert read_run_state(state) is None
    assert not state.exists()

    with own_state_dir(state):
        assert state.stat().st_mode & 0o777 == 0o700


def test_another_process_that_owns_it_is_named(tmp_path: Path) -> None:
    with start_holder(tmp_path) as holder:
        assert find_owner(tmp_path) == holder.pid
        with pytest.raises(StateInUseError) as caught, own_state_dir(tmp_path):
            pytest.fail("owned twice")
        assert (caught.value.pid, str(caught.value)) == (holder.pid, f"process {holder.pid}")
        assert find_owner(tmp_path) == holder.pid


def test_a_killed_owner_owns_nothing_and_its_file_is_not_believed(tmp_path: Path) -> None:
    with start_holder(tmp_path) as holder:
        # The very worst case: the process id in the files is that of a process that lives, our own.
        write_run_state(tmp_path, STATE)
        holder.kill()
    (tmp_path / "up.lock").write_text(f"{os.getpid()}\n")

    assert find_owner(tmp_path) is None
    assert read_run_state(tmp_path) is None
    with own_state_dir(tmp_path):
        assert not (tmp_path / "run.json").exists()


def test_commands_that_look_do_not_keep_an_up_from_starting(tmp_path: Path) -> None:
    """Looking takes the lock for a moment."""
    (tmp_path / "up.lock").touch()
    with ThreadPoolExecutor(4) as pool:
        looks = [pool.submit(lambda: [find_owner(tmp_path) for _ in range(200)]) for _ in range(4)]
        for _ in range(20):
            with own_state_dir(tmp_path):
                assert find_owner(tmp_path) == os.getpid()
        found = {owner for look in looks for owner in look.result()}

    assert found <= {None, os.getpid()}


@pytest.mark.parametrize(
    "text",
    [
        "", "{", "[]", "null", '"x"', "{}",
        json.dumps({**asdict(STATE), "listeners": [["127.0.0.1"]]}),
        json.dumps({**asdict(STATE), "tools": []}),
        json.dumps({**asdict(STATE), "pid": "none"}),
    ],
)  # fmt: skip
def test_a_damaged_file_counts_as_nothing_ready(tmp_path: Path, text: str) -> None:
    with own_state_dir(tmp_path):
        (tmp_path / "run.json").write_text(text)
        assert read_run_state(tmp_path) is None


# -- the secret


def test_the_secret_is_made_once_and_is_the_owners_alone(tmp_path: Path) -> None:
    state = tmp_path / "s"
    secret = load_or_create_secret(state)

    assert len(bytes.fromhex(secret)) == 32
    assert load_or_create_secret(state) == read_secret(state) == secret
    assert {path.name: oct(path.stat().st_mode & 0o777) for path in (state, *state.rglob("*"))} == {
        "s": "0o700", "keys": "0o700", "daemon-secret": "0o600",
    }  # fmt: skip


def test_all_who_start_at_once_have_the_same_secret(tmp_path: Path) -> None:
    with ThreadPoolExecutor(16) as pool:
        for number in range(20):
            folder = tmp_path / str(number)
            found = set(pool.map(load_or_create_secret, [folder] * 16))
            assert len(found) == 1
            assert [path.name for path in (folder / "keys").iterdir()] == ["daemon-secret"]


@pytest.mark.parametrize("text", [b"", b"short", b"g" * 64, b"a" * 63, b"A" * 64, b"\xff" * 64, b"a" * 65])
def test_what_is_no_secret_is_an_error_naming_the_file(tmp_path: Path, text: bytes) -> None:
    load_or_create_secret(tmp_path)
    path = tmp_path / "keys" / "daemon-secret"
    path.write_bytes(text)

    for read in (read_secret, load_or_create_secret):
        with pytest.raises(SecretError, match=f"^{path} holds no secret; remove it and start again$"):
            read(tmp_path)


def test_a_secret_that_is_not_there_is_not_made_by_reading(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_secret(tmp_path)
