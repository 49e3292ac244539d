"""The gateway as agents' own programs use it: curl, Python's HTTP clients, openssl; pointed at it as `up` says."""

from __future__ import annotations

import http.client
import json
import os
import re
import ssl
import subprocess
import sys
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpcore
import pytest

from tests.e2e.conftest import Installed
from tests.kit import replies
from tests.kit.sync import PATIENCE
from tests.kit.tools import require_tool

HTTPS_ONLY, WITH_HTTP = 0, 1
"""Listeners: profile `test`, and profile `open`, which lets http through."""
FACTS = (
    '%{stderr}\n{"status": "%{response_code}", "connect": "%{http_connect}", "version": "%{http_version}", '
    '"redirects": %{num_redirects}, "headers": %{header_json}}'
)


@dataclass(frozen=True, slots=True)
class Curl:
    """What curl got: exit status, facts of the last answer, body."""

    exit_code: int
    errors: str
    body: str
    facts: dict[str, Any]

    @property
    def status(self) -> int:
        return int(self.facts["status"])

    def header(self, name: str) -> str | None:
        values = self.facts["headers"].get(name)
        return None if values is None else ", ".join(values)


def proxy_url(installed: Installed, listener: int = HTTPS_ONLY, scheme: str = "http") -> str:
    host, port, _ = installed.up.run_state["listeners"][listener]
    return f"{scheme}://{host}:{port}"


def curl(installed: Installed, *arguments: str, listener: int = HTTPS_ONLY, scheme: str = "http") -> Curl:
    """curl through the gateway, trusting its CA."""
    ca = str(installed.up.ca_path)
    done = subprocess.run(
        [
            require_tool("curl"), "-sS", "--max-time", "60", "-w", FACTS, "--cacert", ca, "--proxy-cacert", ca,
            "-x", proxy_url(installed, listener, scheme), *arguments,
        ],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    errors, _, facts = done.stderr.rpartition('\n{"status"')
    return Curl(done.returncode, errors, done.stdout, json.loads('{"status"' + facts))


def assert_refused(answer: Curl, rule: str, detail: str) -> None:
    """What every client can read of a refusal (SPEC 1.7)."""
    document = json.loads(answer.body)
    assert answer.status == document["status"] == 403
    assert answer.header("content-type") == "application/problem+json"
    assert (answer.header("fetchd-verdict"), answer.header("fetchd-rule")) == ("refused", rule)
    assert (document["rule"], document["detail"]) == (rule, detail)
    assert document["fetch_id"] == answer.header("fetchd-id")
    assert document["policy"] == answer.header("fetchd-policy")
    assert str(answer.header("proxy-status")).startswith("fetchd; error=")


@pytest.fixture(scope="module", autouse=True)
def _pages(shared_installation: Installed) -> None:
    stage = shared_installation.stage
    stage.origin.route("/denied", replies.redirect(stage.url("/", "denied.example")))
    for number in range(6):
        stage.origin.route(f"/chain/{number}", replies.redirect(f"/chain/{number + 1}"))
    stage.origin.route("/login", replies.answer(401, b"who?", "text/plain"))


# -- curl


@pytest.mark.parametrize(
    ("arguments", "scheme", "version"),
    [
        pytest.param(("--http1.1",), "http", "1.1", id="CONNECT, HTTP/1.1 in TLS"),
        pytest.param(("--http2",), "http", "2", id="CONNECT, HTTP/2 in TLS"),
        pytest.param(("--http1.1",), "https", "1.1", id="TLS to the proxy, CONNECT inside"),
        pytest.param(("--http2",), "https", "2", id="TLS to the proxy, HTTP/2 in the tunnel"),
    ],
)
def test_curl_reads_an_https_page(
    installed: Installed, arguments: tuple[str, ...], scheme: str, version: str
) -> None:
    answer = curl(installed, *arguments, installed.stage.url("/page?q=1"), scheme=scheme)

    assert (answer.exit_code, answer.errors.strip(), answer.body) == (0, "", "hello /page?q=1\n")
    assert (answer.status, answer.facts["version"]) == (200, version)
    assert answer.header("fetchd-verdict") == "allowed"
    assert installed.stage.accepts(installed.stage.origin) == 1
    (line,) = installed.up.audit("decision", fetch_id=answer.header("fetchd-id"))
    assert (line["method"], line["verdict"], line["url"]) == ("GET", "allowed", installed.stage.url("/page"))


def test_plain_http_is_for_profiles_that_allow_it(installed: Installed) -> None:
    stage = installed.stage
    allowed = curl(installed, stage.plain_url("/page"), listener=WITH_HTTP)
    assert (allowed.status, allowed.body, stage.accepts(stage.plain)) == (200, "hello /page\n", 1)

    assert_refused(curl(installed, stage.plain_url("/page")), "scheme", "scheme not allowed: http")
    assert stage.accepts(stage.plain) == 1


def test_head_is_allowed_and_post_is_not(installed: Installed) -> None:
    stage = installed.stage
    head = curl(installed, "--head", stage.url("/page"))
    assert (head.exit_code, head.status) == (0, 200)
    assert [request.method for request in stage.requests(stage.origin)] == ["HEAD"]

    assert_refused(curl(installed, "-d", "x=1", stage.url("/page")), "method", "method not allowed: POST")
    assert len(stage.requests(stage.origin)) == 1


def test_five_redirects_are_followed_and_a_sixth_is_refused(installed: Installed) -> None:
    stage = installed.stage
    five = curl(installed, "-L", stage.url("/chain/1"))
    assert (five.status, five.body, five.facts["redirects"]) == (200, "hello /chain/6\n", 5)

    six = curl(installed, "-L", stage.url("/chain/0"))
    assert six.facts["redirects"] == 5
    assert_refused(
        six, "redirect-cap",
        f"redirect from {stage.url('/chain/5')} to {stage.url('/chain/6')} refused: exceeded max redirects (5)",
    )  # fmt: skip


def test_a_redirect_to_a_denied_host_is_replaced_by_the_refusal(installed: Installed) -> None:
    stage = installed.stage
    answer = curl(installed, "-L", stage.url("/denied"))

    assert answer.facts["redirects"] == 0
    assert answer.header("location") is None
    target = stage.url("/", "denied.example")
    assert_refused(
        answer, "host",
        f"redirect from {stage.url('/denied')} to {target} refused: host not allowed: denied.example",
    )  # fmt: skip
    assert stage.dns.count("denied.example") == 0


@pytest.mark.parametrize("version", ["--http1.1", "--http2"])
def test_a_refused_host_is_told_inside_the_tunnel(installed: Installed, version: str) -> None:
    answer = curl(installed, version, "--fail-with-body", installed.stage.url("/", "denied.example"))

    assert answer.exit_code == 22  # what --fail-with-body makes of a status of 400 and above
    assert answer.facts["connect"] == "200"
    assert_refused(answer, "host", "host not allowed: denied.example")
    assert installed.stage.dns.queries == []


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("https://a.example:22/", "port not allowed: 22"),
        ("https://127.0.0.1/", "ip literal host not allowed: 127.0.0.1"),
    ],
)
def test_a_connect_refused_for_port_or_literal_says_so_in_its_reason(
    installed: Installed, url: str, reason: str
) -> None:
    answer = curl(installed, "-v", url)

    assert answer.exit_code == 56
    assert answer.facts["connect"] == "403"
    assert f"< HTTP/1.1 403 {reason}" in answer.errors


def test_a_password_is_removed_and_that_is_said(installed: Installed) -> None:
    answer = curl(installed, "-u", "me:hunter2hunter2", installed.stage.url("/login"))

    assert (answer.status, answer.header("fetchd-removed")) == (401, "authorization")
    (request,) = installed.stage.requests(installed.stage.origin)
    assert request.values("authorization") == []
    assert "hunter2hunter2" not in "".join(
        path.read_text() for path in (installed.up.state / "audit").glob("*.jsonl")
    )


# -- as `up` says


def exports(installed: Installed) -> dict[str, str]:
    """The variables that `up` tells an operator to set."""
    lines = "\n".join(line for line in installed.up.said if line.startswith("  export "))
    done = subprocess.run(
        ["sh", "-c", f"{lines}\nenv"], env={"PATH": os.environ["PATH"]},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return dict(line.partition("=")[::2] for line in done.stdout.splitlines())


PYTHON = """
import sys, urllib.request
with urllib.request.urlopen(sys.argv[1]) as answer:
    print(answer.status, answer.headers["Fetchd-Verdict"], answer.read().decode())
"""


def test_the_printed_environment_is_all_that_curl_and_python_need(installed: Installed) -> None:
    url, environment = installed.stage.url("/page"), exports(installed)

    done = subprocess.run(
        [require_tool("curl"), "-sS", url], env=environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "hello /page\n", "")
    done = subprocess.run(
        [sys.executable, "-c", PYTHON, url], env=environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout.split()[:2]) == (0, ["200", "allowed"]), done.stderr


def test_without_the_gateways_ca_nothing_is_read(installed: Installed) -> None:
    environment = {**exports(installed), "CURL_CA_BUNDLE": str(installed.stage.pki.ca_path)}
    environment.pop("SSL_CERT_FILE")

    done = subprocess.run(
        [require_tool("curl"), "-sS", installed.stage.url("/page")],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert done.returncode == 60
    assert installed.stage.requests(installed.stage.origin) == []


# -- Python's clients


@pytest.fixture
def trust(installed: Installed) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(installed.up.ca_path))


def test_urllib_reads_pages_and_refusals(installed: Installed, trust: ssl.SSLContext) -> None:
    proxies = urllib.request.ProxyHandler({"https": proxy_url(installed)})
    opener = urllib.request.build_opener(proxies, urllib.request.HTTPSHandler(context=trust))

    with opener.open(installed.stage.url("/page"), timeout=PATIENCE) as answer:
        assert (answer.status, answer.read()) == (200, b"hello /page\n")
    with pytest.raises(urllib.request.HTTPError) as caught:
        opener.open(installed.stage.url("/", "denied.example"), timeout=PATIENCE)
    with caught.value as refusal:
        assert (refusal.code, refusal.headers["Fetchd-Rule"]) == (403, "host")
        assert json.loads(refusal.read())["detail"] == "host not allowed: denied.example"


def test_http_client_keeps_its_tunnel(installed: Installed, trust: ssl.SSLContext) -> None:
    connection = http.client.HTTPSConnection(*installed.up.gateway, context=trust, timeout=PATIENCE)
    connection.set_tunnel("a.example", installed.stage.origin.port)
    for number in range(3):
        connection.request("GET", f"/{number}")
        answer = connection.getresponse()
        assert (answer.status, answer.read()) == (200, f"hello /{number}\n".encode())
    connection.close()

    assert installed.stage.accepts(installed.stage.origin) == 1


def test_httpcore(installed: Installed, trust: ssl.SSLContext) -> None:
    with httpcore.HTTPProxy(proxy_url(installed), ssl_context=trust) as pool:
        answer = pool.request("GET", installed.stage.url("/page"))
        refusal = pool.request("GET", installed.stage.url("/", "denied.example"))

    assert (answer.status, answer.content) == (200, b"hello /page\n")
    assert refusal.status == 403
    assert {name.lower(): value for name, value in refusal.headers}[b"fetchd-rule"] == b"host"


# -- openssl


def s_client(installed: Installed, *arguments: str, send: str, ca: Path) -> subprocess.CompletedProcess[str]:
    """What comes back until the gateway closes."""
    host, port = installed.up.gateway
    return subprocess.run(
        [
            require_tool("openssl"), "s_client", "-proxy", f"{host}:{port}", "-CAfile", str(ca),
            "-connect", f"a.example:{installed.stage.origin.port}", "-verify_return_error", "-ign_eof", *arguments,
        ],
        input=send, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip


def test_openssl_verifies_the_gateways_certificate(installed: Installed) -> None:
    host = f"a.example:{installed.stage.origin.port}"
    request = f"GET /page HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"

    done = s_client(
        installed, "-servername", "a.example", "-verify_hostname", "a.example", send=request,
        ca=installed.up.ca_path,
    )  # fmt: skip

    assert "Verification: OK" in done.stdout
    assert re.search(r"New, TLSv1\.3, Cipher is TLS_", done.stdout)
    assert "HTTP/1.1 200" in done.stdout and "hello /page" in done.stdout


def test_openssl_with_another_server_name_is_refused(installed: Installed) -> None:
    request = "GET /page HTTP/1.1\r\nHost: b.example\r\nConnection: close\r\n\r\n"

    done = s_client(installed, "-servername", "b.example", send=request, ca=installed.up.ca_path)

    assert "hello" not in done.stdout
    assert installed.stage.accepts(installed.stage.origin) == 0
    assert installed.up.audit("decision")[-1]["rule"] == "authority-mismatch"
