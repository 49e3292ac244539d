"""Python's HTTP clients: each a program that knows a URL and nothing of proxy or CA."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from tests.e2e.clients.agent import Agent, read_refusal
from tests.e2e.clients.stage import DENIED

REQUESTS = """
import requests
answer = requests.get(url)
found = [answer.status_code, dict(answer.headers), answer.text]
"""
HTTPX = """
import httpx
answer = httpx.get(url)
found = [answer.status_code, dict(answer.headers), answer.text]
"""
AIOHTTP = """
import aiohttp, asyncio
async def main():
    async with aiohttp.ClientSession(trust_env=True) as session, session.get(url) as answer:
        return [answer.status, dict(answer.headers), await answer.text()]
found = asyncio.run(main())
"""
URLLIB = """
import urllib.error, urllib.request
try:
    answer = urllib.request.urlopen(url)
except urllib.error.HTTPError as error:
    answer = error
found = [answer.status, dict(answer.headers), answer.read().decode()]
"""
CLIENTS = [
    pytest.param(REQUESTS, "Tunnel connection failed: 403 port not allowed: 22", id="requests"),
    pytest.param(HTTPX, "httpx.ProxyError: 403 port not allowed: 22", id="httpx"),
    pytest.param(AIOHTTP, "ClientHttpProxyError: 403, message='port not allowed: 22'", id="aiohttp"),
    pytest.param(URLLIB, "Tunnel connection failed: 403 port not allowed: 22", id="urllib"),
]
"""A program, and how its error reads when a tunnel is refused."""


def get(agent: Agent, program: str, url: str) -> tuple[int, dict[str, str], str]:
    """Status, headers by small names, body."""
    text = f"import json, sys\nurl = sys.argv[1]\n{program}\nprint(json.dumps(found))\n"
    done = agent.run(sys.executable, "-c", text, url)
    assert (done.returncode, done.stderr) == (0, "")
    found: list[Any] = json.loads(done.stdout)
    return found[0], {name.lower(): value for name, value in found[1].items()}, found[2]


@pytest.mark.parametrize(("program", "_"), CLIENTS)
def test_a_client_reads_pages_and_refusals(reader: Agent, program: str, _: str) -> None:
    status, headers, body = get(reader, program, reader.stage.url("/python"))
    assert (status, headers["fetchd-verdict"], body) == (200, "allowed", "hello /python\n")

    status, headers, body = get(reader, program, reader.stage.url("/", DENIED))
    assert (status, headers["fetchd-verdict"], headers["fetchd-rule"]) == (403, "refused", "host")
    assert read_refusal(body)["detail"] == f"host not allowed: {DENIED}"


@pytest.mark.parametrize(("program", "error"), CLIENTS)
def test_a_refused_tunnel_is_an_error_that_says_why(reader: Agent, program: str, error: str) -> None:
    text = f"import sys\nurl = sys.argv[1]\n{program}"
    done = reader.run(sys.executable, "-c", text, "https://a.example:22/")

    assert done.returncode == 1
    assert error in done.stderr.splitlines()[-1]
