"""Headless Chromium: proxy from the environment, CA from the user's certificate database, no error ignored."""

from __future__ import annotations

import html
from collections.abc import Callable

import pytest

from tests.e2e.clients.agent import Agent, Done, read_refusal
from tests.e2e.clients.stage import DENIED
from tests.kit import replies
from tests.kit.tools import require_tool

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
)  # fmt: skip


@pytest.fixture(scope="module")
def environment_of(
    nameless_environment_of: Callable[[str], dict[str, str]],
) -> Callable[[str], dict[str, str]]:
    """Chromium takes no password from a proxy's URL: it comes without a name."""
    return nameless_environment_of


def dump(agent: Agent, *arguments: str) -> Done:
    """The page as Chromium has it once it is loaded."""
    profile = agent.home / "profile"
    return agent.run(require_tool("chromium"), *FLAGS, f"--user-data-dir={profile}", "--dump-dom", *arguments)


@pytest.fixture
def browsing(reader: Agent) -> Agent:
    """An agent whose certificate database has the gateway's CA."""
    certutil, database = require_tool("certutil"), reader.home / ".pki" / "nssdb"
    database.mkdir(parents=True)
    for command in (
        ("-N", "--empty-password"),
        ("-A", "-n", "gateway", "-t", "C,,", "-i", reader.settings["SSL_CERT_FILE"]),
    ):
        done = reader.run(certutil, "-d", f"sql:{database}", *command)
        assert done.returncode == 0, done.stderr
    return reader


def test_chromium_renders_a_page_and_runs_its_script(browsing: Agent) -> None:
    script = b"document.title = 'by the script';"
    browsing.stage.origin.route("/script.js", replies.answer(200, script, "text/javascript"))
    browsing.stage.origin.route("/scripted", replies.page('<p>hello</p><script src="/script.js"></script>'))

    done = dump(browsing, browsing.stage.url("/scripted"))

    assert done.returncode == 0, done.stderr
    assert "<p>hello</p>" in done.stdout
    assert "<title>by the script</title>" in done.stdout
    assert browsing.rules("/script.js") == [None]


@pytest.mark.parametrize("proxy_option", [False, True], ids=["proxy from the environment", "--proxy-server"])
def test_chromium_shows_a_refusal(browsing: Agent, proxy_option: bool) -> None:
    option = [f"--proxy-server={browsing.settings['HTTPS_PROXY']}"] if proxy_option else []

    done = dump(browsing, *option, browsing.stage.url("/", DENIED))

    assert done.returncode == 0, done.stderr
    refusal = read_refusal(html.unescape(done.stdout))
    assert (refusal["rule"], refusal["detail"]) == ("host", f"host not allowed: {DENIED}")


def test_chromium_says_of_a_refused_tunnel_that_there_is_none(browsing: Agent) -> None:
    done = dump(browsing, "https://a.example:8443/")

    assert (done.stdout, "net::ERR_TUNNEL_CONNECTION_FAILED" in done.stderr) == ("", True)


def test_chromium_without_the_ca_shows_no_page(reader: Agent) -> None:
    done = dump(reader, reader.stage.url("/untrusted"))

    assert (done.stdout, "net::ERR_CERT_AUTHORITY_INVALID" in done.stderr) == ("", True)
    assert reader.rules("/untrusted") == []
