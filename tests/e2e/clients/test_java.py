"""Java's clients, where a JDK is installed: proxy and trust store from JAVA_TOOL_OPTIONS alone."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.clients.agent import Agent, read_refusal
from tests.e2e.clients.stage import DENIED

PROGRAM = Path(__file__).with_name("Get.java")


@pytest.fixture(scope="module")
def environment_of(
    nameless_environment_of: Callable[[str], dict[str, str]],
) -> Callable[[str], dict[str, str]]:
    """Java takes no password from its options: it comes without a name."""
    return nameless_environment_of


def test_java_reads_pages_refusals_and_refused_tunnels(reader: Agent) -> None:
    """One run for all: compiling takes longer than asking."""
    if shutil.which("javac") is None:
        pytest.skip("no JDK is installed")
    urls = [reader.stage.url("/java"), reader.stage.url("/", DENIED), "https://a.example:22/"]

    done = reader.run("java", PROGRAM, *urls)

    lines = done.stdout.splitlines()
    assert lines[0] == "HttpClient 200 none hello /java"
    assert lines[1].startswith("HttpURLConnection 200 null ")
    assert lines[2].startswith("HttpClient 403 host {")
    assert read_refusal(lines[2])["detail"] == f"host not allowed: {DENIED}"
    assert lines[3] == f"HttpURLConnection 403 host host not allowed: {DENIED}"
    assert lines[4] == "HttpClient java.io.IOException: Tunnel failed, got: 403"
    assert lines[5].endswith('Proxy returns "HTTP/1.1 403 port not allowed: 22"')
    assert done.stderr.startswith("Picked up JAVA_TOOL_OPTIONS: ")
