"""`make demo`: it ends with `demo: N of N as expected` and 0, and only then."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.demo.__main__ import main
from tests.kit.corpora import REPOSITORY

PAGES = ("fetch an article", "fetch a JSON document", "fetch a text", "follow a redirect to another host")
ATTACKS = {
    "plain http": "scheme",
    "a port of its own": "port",
    "an IP literal in disguise": "ip-literal",
    "a name that leads to 169.254.169.254": "no-allowed-address",
    "the same name, now 127.0.0.1": "no-allowed-address",
    "a redirect to an internal host": "no-allowed-address",
    "a sixth redirect": "redirect-cap",
    "a gzip bomb of 256 MiB": "byte-cap",
    "raw bytes in a tunnel": "not-http",
    "a fronted request": "authority-mismatch",
}


def row(output: str, what: str) -> str:
    """The line of the table that begins with `what`."""
    (line,) = [line for line in output.splitlines() if line.startswith(f"{what} ")]
    return line.removeprefix(what)


def test_the_demo_goes_as_expected() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.demo"],
        cwd=REPOSITORY, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=240,
    )  # fmt: skip

    assert done.returncode == 0, done.stdout + done.stderr
    *_, chain, last = done.stdout.splitlines()
    assert (chain, last) == ("audit chain: verified", "demo: 20 of 20 as expected")
    assert "UNEXPECTED" not in done.stdout
    for what in PAGES:
        assert row(done.stdout, what).split()[0] == "allowed"
    for what, rule in ATTACKS.items():
        assert row(done.stdout, what).split()[:2] == ["refused", rule]
    for what in ("read a page whole, with a receipt", "an agent with its token"):
        assert row(done.stdout, what).split()[0] == "allowed"
    assert row(done.stdout, "a read that leaves its allowlist").split()[:2] == ["refused", "host"]
    assert row(done.stdout, "the same without a token").split()[:2] == ["refused", "identity"]
    # The audit lines that prove it.
    for rule in set(ATTACKS.values()):
        assert re.search(rf"^20\d\d-.* (refused|hard|soft) +{rule}\b", done.stdout, re.MULTILINE), rule


def test_whatever_is_not_as_expected_fails_the_demo(capsys: pytest.CaptureFixture[str]) -> None:
    """Two things at once: a page the profile denies, and a page of the world that cannot be had."""
    status = main("https://localhost/", {"deny_hosts": ["other.example"]})

    output = capsys.readouterr().out
    assert status == 1
    assert output.splitlines()[-1] == "demo: 19 of 21 as expected"
    assert output.count("UNEXPECTED") == 2
    assert row(output, "follow a redirect to another host").split()[:3] == ["UNEXPECTED", "refused", "host"]
    assert row(output, "fetch https://localhost/").split()[:2] == ["UNEXPECTED", "failed"]
    assert "host localhost has no allowed address" in output
