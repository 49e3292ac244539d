"""What our own processes inherit: a table of variables, and that ours are there again afterwards."""

from __future__ import annotations

import os

import pytest

from fetchd.child_environment import child_environment, inherited_environment

PASSES = (
    "PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "PYTHONPATH", "PYTHONHASHSEED", "LD_LIBRARY_PATH",
    "MALLOC_ARENA_MAX",
)  # fmt: skip
STAYS = (
    "BRAVE_API_KEY", "ANTHROPIC_API_KEY", "FETCHD_TOKEN", "FETCHD_CONFIG", "AWS_SECRET_ACCESS_KEY", "HTTPS_PROXY",
    "https_proxy", "SSLKEYLOGFILE", "PATHS", "XPATH", "path", "LC_", "GOOGLE_APPLICATION_CREDENTIALS",
    "NOTIFY_SOCKET",
)  # fmt: skip


def test_what_a_program_needs_is_passed_on_and_nothing_else() -> None:
    environ = {name: f"value of {name}" for name in (*PASSES, *STAYS)}

    assert child_environment(environ, BESIDE="1") == {name: environ[name] for name in PASSES} | {
        "BESIDE": "1"
    }


def test_what_is_said_beside_wins() -> None:
    assert child_environment({"PYTHONPATH": "a", "KEY": "b"}, PYTHONPATH="c") == {"PYTHONPATH": "c"}


def test_our_own_is_put_back_whatever_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BRAVE_API_KEY", "canary")
    before = dict(os.environ)

    def fail() -> None:
        with inherited_environment(PYTHONSAFEPATH="1"):
            assert dict(os.environ) == child_environment(before, PYTHONSAFEPATH="1")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert dict(os.environ) == before
