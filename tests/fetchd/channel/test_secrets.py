"""Credentials: where they may be kept, and that nothing but the wire ever shows one."""

from __future__ import annotations

import copy
import os
import pickle
from dataclasses import asdict
from pathlib import Path

import pytest

from fetchd.channel import ChannelRequest, Secret
from fetchd.channel.secrets import MAX_BYTES, read_secret_file, read_secret_variable
from fetchd.errors import ChannelError

KEY = "canary-0123456789"


def write(path: Path, text: str | bytes, mode: int = 0o600) -> Path:
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    path.chmod(mode)
    return path


@pytest.mark.parametrize("text", [KEY, f"{KEY}\n", f"  {KEY}\r\n", KEY.ljust(MAX_BYTES, "x"), "x" * 8])
def test_a_key_in_a_file_is_trimmed(tmp_path: Path, text: str) -> None:
    assert read_secret_file(write(tmp_path / "key", text)).reveal() == text.strip()


def test_a_key_in_a_variable_is_trimmed() -> None:
    assert read_secret_variable("KEY", {"KEY": f" {KEY}\n"}).reveal() == KEY


BAD = [
    ("", "is empty"),
    (" \n", "is empty"),
    (f"{KEY}\n{KEY}", "more than a key"),
    (f"KEY={KEY} x", "more than a key"),
    (f"{KEY}\x00", "more than a key"),
    (f"{KEY}\x1b[2J", "more than a key"),
    (f"{KEY}é", "more than a key"),
    ("x" * 7, "fewer than 8"),
]


@pytest.mark.parametrize(("text", "why"), BAD)
def test_what_is_no_key(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(ChannelError, match=why) as of_file:
        read_secret_file(write(tmp_path / "key", text))
    with pytest.raises(ChannelError, match=why) as of_variable:
        read_secret_variable("SEARCH_KEY", {"SEARCH_KEY": text})

    assert str(tmp_path / "key") in str(of_file.value) and "SEARCH_KEY" in str(of_variable.value)
    assert KEY not in str(of_file.value) + str(of_variable.value)


def test_too_long_for_a_key(tmp_path: Path) -> None:
    with pytest.raises(ChannelError, match="larger than"):
        read_secret_file(write(tmp_path / "key", "x" * (MAX_BYTES + 1)))
    with pytest.raises(ChannelError, match="more than"):
        read_secret_variable("K", {"K": "x" * (MAX_BYTES + 1)})


def test_a_variable_that_is_not_set_is_named() -> None:
    with pytest.raises(ChannelError, match="SEARCH_KEY is not set"):
        read_secret_variable("SEARCH_KEY", {})


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o601, 0o644])
def test_a_file_that_others_may_read_is_refused(tmp_path: Path, mode: int) -> None:
    path = write(tmp_path / "key", KEY, mode)
    if os.geteuid() == 0 and not mode & 0o037:
        path.chmod(mode | 0o020)
    with pytest.raises(ChannelError, match="open to other users"):
        read_secret_file(path)


def test_a_file_of_another_user_is_refused(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a file away")
    path = write(tmp_path / "key", KEY)
    os.chown(path, 12345, -1)
    with pytest.raises(ChannelError, match="belongs to user 12345"):
        read_secret_file(path)


def test_what_is_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo", 0o600)
    for path, why in (
        (tmp_path / "missing", "cannot be read: No such file"),
        (tmp_path, "cannot be read|not a regular file"),
        (tmp_path / "fifo", "not a regular file"),
        (Path("/dev/zero"), "not a regular file"),
        (Path("a\0b"), "cannot be read"),
    ):
        with pytest.raises(ChannelError, match=why):
            read_secret_file(path)


def test_a_link_to_a_private_file_is_followed(tmp_path: Path) -> None:
    """Where secrets are mounted they are links."""
    write(tmp_path / "real", KEY)
    (tmp_path / "key").symlink_to("real")
    assert read_secret_file(tmp_path / "key").reveal() == KEY


def test_nothing_shows_a_secret() -> None:
    secret = Secret(KEY)
    request = ChannelRequest("GET", "https://a.example/", secret_field=("X-Key", ""), secret=secret)

    shown = [
        repr(secret),
        str(secret),
        f"{secret}",
        f"{secret:>40}",
        f"{secret!a}",
        repr([secret]),
        repr(request),
    ]
    assert KEY not in "".join(shown)
    for leak in (lambda: pickle.dumps(secret), lambda: copy.deepcopy(secret), lambda: asdict(request)):
        with pytest.raises(TypeError):
            leak()
    assert not hasattr(secret, "__dict__")
