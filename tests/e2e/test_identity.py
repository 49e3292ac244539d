"""Agents from end to end: two of them in one installation, by HTTP, MCP and proxy, and what a reload does to them."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import ssl
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tests.e2e.stage import Reply, Stage, post_json
from tests.e2e.test_mcp import text_of
from tests.kit import replies
from tests.kit.gateway import ORIGIN_ADDRESS
from tests.kit.installed import CLI, Up, environment, run_fetchd
from tests.kit.processes import poll_until, read_command
from tests.kit.tools import require_tool

WEB_FETCH = "/v1/tools/web_fetch"
TOKEN = re.compile(r"fetchd\.[a-z]+\.[A-Za-z0-9_-]{43}")
UNKNOWN = "the token is not known here; it may have been revoked or replaced"


@dataclass
class House:
    """An installation with agents. alice may ask a.example alone, bob b.example alone; idle has no tool."""

    stage: Stage
    up: Up
    tokens: dict[str, str] = field(default_factory=dict)

    @property
    def config(self) -> Path:
        return self.stage.config

    def add(self, name: str, profile: str) -> str:
        done = self.up.run("agent", "add", name, "--profile", profile, "--env", "json")
        assert done.returncode == 0, done.stderr
        self.tokens[name] = json.loads(done.stdout)["FETCHD_TOKEN"]
        return self.tokens[name]

    def fetch(self, url: str, token: str | None, **fields: str) -> Reply:
        headers = {"Authorization": f"Bearer {token}"} if token is not None else {}
        return post_json(self.up.tools, WEB_FETCH, {"url": url}, headers | fields)

    def curl(self, url: str, agent: str, token: str) -> subprocess.CompletedProcess[str]:
        """The proxy, as a client of the agent uses it."""
        host, port = self.up.gateway
        proxy = f"http://{agent}:{token}@{host}:{port}"
        arguments = ["-sS", "-D", "-", "-x", proxy, "--cacert", str(self.up.ca_path), url]
        return subprocess.run(
            [require_tool("curl"), *arguments], capture_output=True, text=True, check=False,
            env={"PATH": os.environ["PATH"]},
        )  # fmt: skip

    @asynccontextmanager
    async def mcp(self, token: str, era: Any) -> AsyncIterator[Client]:
        host, port = self.up.tools
        async with (
            httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}) as http,
            Client(streamable_http_client(f"http://{host}:{port}/mcp", http_client=http), mode=era) as client,
        ):
            yield client

    def rewrite(self, old: str, new: str) -> str:
        """Change the configuration's text; what it was before."""
        text = self.config.read_text()
        assert old in text
        self.config.write_text(text.replace(old, new))
        return text


PROFILES = """
[profiles.alices]
tools = ["web_fetch"]
ports = [{ports}]
allow_hosts = ["a.example"]
exceptions = [{{ host = "*.example", address = "{address}" }}]
[profiles.bobs]
ports = [{ports}]
allow_hosts = ["b.example"]
exceptions = [{{ host = "*.example", address = "{address}" }}]
[profiles.idle]
tools = []
"""


def add_profiles(stage: Stage) -> None:
    text = stage.config.read_text()
    ports = f"443, {stage.origin.port}"
    stage.config.write_text(text + PROFILES.format(ports=ports, address=ORIGIN_ADDRESS))


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    folder = tmp_path_factory.mktemp("identity")
    with Stage(folder) as stage:
        add_profiles(stage)
        for name in ("a.example", "b.example"):
            stage.dns.host_addresses(name, ORIGIN_ADDRESS)
        stage.origin.route("/page", replies.text("the page"))
        stage.origin.route("/away", replies.redirect(stage.url("/page", "b.example")))
        with Up(folder, "--config", str(stage.config)) as up:
            house = House(stage, up)
            for name, profile in (("alice", "alices"), ("bob", "bobs"), ("idle", "idle")):
                house.add(name, profile)
            yield house


@pytest.fixture
def house(shared: House) -> Iterator[House]:
    """The configuration and the agents are as before when a test is over."""
    shared.stage.forget()
    text = shared.config.read_text()
    yield shared
    shared.config.write_text(text)
    assert shared.up.run("reload").returncode == 0


# -- by HTTP, MCP and proxy


def test_an_agent_has_its_own_hosts_and_no_others(house: House) -> None:
    alice, bob = house.tokens["alice"], house.tokens["bob"]
    a, b = house.stage.url("/page"), house.stage.url("/page", "b.example")

    assert house.fetch(a, alice).content.endswith("the page")
    assert house.fetch(b, bob).content.endswith("the page")
    for url, token, host in ((b, alice, "b.example"), (a, bob, "a.example")):
        reply = house.fetch(url, token)
        assert (reply.status, reply.document["detail"]) == (400, f"host not allowed: {host}")
    assert len(house.stage.requests(house.stage.origin)) == 2


def test_nor_by_a_redirect(house: House) -> None:
    reply = house.fetch(house.stage.url("/away"), house.tokens["alice"])

    assert (reply.status, reply.document["failure"], reply.document["rule"]) == (200, "soft", "host")
    assert reply.content.endswith("refused: host not allowed: b.example")
    assert [request.path for request in house.stage.requests(house.stage.origin)] == ["/away"]


def test_nor_by_the_proxy(house: House) -> None:
    alice = house.tokens["alice"]
    good = house.curl(house.stage.url("/page"), "alice", alice)
    assert good.stdout.endswith("the page"), good.stderr
    bad = house.curl(house.stage.url("/page", "b.example"), "alice", alice)
    assert "host not allowed: b.example" in bad.stdout + bad.stderr
    nobody = house.curl(house.stage.url("/page"), "alice", house.tokens["bob"])
    assert "407" in nobody.stderr


@pytest.mark.parametrize("era", ["legacy", "2026-07-28"])
async def test_two_agents_at_once_by_mcp(house: House, era: Any) -> None:
    a, b = house.stage.url("/page"), house.stage.url("/page", "b.example")
    async with (
        house.mcp(house.tokens["alice"], era) as alice,
        house.mcp(house.tokens["bob"], era) as bob,
        house.mcp(house.tokens["idle"], era) as idle,
    ):
        calls = [(alice, a, True), (alice, b, False), (bob, a, False), (bob, b, True)] * 4
        results = await asyncio.gather(
            *(client.call_tool("web_fetch", {"url": url}) for client, url, _ in calls)
        )
        assert [tool.name for tool in (await alice.list_tools()).tools] == ["web_fetch"]
        assert [tool.name for tool in (await bob.list_tools()).tools] == [
            "web_fetch",
            "page_read",
            "web_search",
        ]
        assert (await idle.list_tools()).tools == []

    assert [not result.is_error for result in results] == [good for _, _, good in calls]
    refused = {text_of(result) for result in results if result.is_error}
    assert refused == {"host not allowed: a.example", "host not allowed: b.example"}


def test_names_that_clients_claim_are_not_read(house: House) -> None:
    """Neither by the tools nor, on the way to the gateway, as the daemon's."""
    claims = {
        "Fetchd-Agent": "bob", "Fetchd-Profile": "open", "Fetchd-Id": "0" * 20, "Fetchd-Hop": "0",
        "Proxy-Authorization": f"Bearer {house.tokens['bob']}", "X-Forwarded-For": "10.0.0.1",
    }  # fmt: skip
    url = house.stage.url("/page", "b.example")
    assert house.fetch(url, house.tokens["alice"], **claims).status == 400
    assert house.fetch(url, None, **claims).status == 401
    reply = house.fetch(house.stage.url("/page"), house.tokens["alice"], **claims)

    (fetch,) = house.up.audit("fetch", fetch_id=reply.document["fetch_id"])
    (decision,) = house.up.audit("decision", fetch_id=reply.document["fetch_id"])
    for line in (fetch, decision):
        assert (line["agent"], line["profile"]) == ("alice", "alices")


def test_a_tool_that_the_profile_does_not_list(house: House) -> None:
    reply = house.fetch(house.stage.url("/page"), house.tokens["idle"])
    assert (reply.status, reply.document["detail"]) == (403, "tool web_fetch is not allowed by profile idle")
    with_token = {"Authorization": f"Bearer {house.tokens['alice']}"}
    reply = post_json(house.up.tools, "/v1/tools/page_read", {"url": house.stage.url("/page")}, with_token)
    assert (reply.status, reply.document["detail"]) == (
        403,
        "tool page_read is not allowed by profile alices",
    )


def test_the_command_line_in_an_agents_name(house: House) -> None:
    def fetch(url: str, *options: str) -> subprocess.CompletedProcess[str]:
        return house.up.run("fetch", "--config", str(house.config), *options, url)

    good = fetch(house.stage.url("/page"), "--json", "--agent", "alice")
    assert good.returncode == 0, good.stderr
    (line,) = house.up.audit("decision", fetch_id=json.loads(good.stdout)["fetch_id"])
    assert (line["agent"], line["profile"]) == ("alice", "alices")

    bad = fetch(house.stage.url("/page", "b.example"), "--agent", "alice")
    assert (bad.returncode, "host not allowed: b.example" in bad.stderr) == (2, True)
    both = fetch("https://a.example/", "--agent", "alice", "--profile", "bobs")
    assert both.stderr == "Error: an agent has its own profile; write --agent or --profile\n"
    none = fetch("https://a.example/", "--agent", "idle")
    assert none.stderr == "Error: tool web_fetch is not allowed by profile idle\n"


# -- tokens


def test_a_revoked_token_ends_and_a_rotated_one_is_replaced(house: House) -> None:
    url = house.stage.url("/page")
    old = house.add("carl", "alices")
    assert house.fetch(url, old).status == 200
    assert house.curl(url, "carl", old).stdout.endswith("the page")

    done = house.up.run("agent", "rotate", "carl", "--env", "json")
    new = json.loads(done.stdout)["FETCHD_TOKEN"]
    assert "takes its token now" in done.stderr
    assert (house.fetch(url, old).status, house.fetch(url, old).document["detail"]) == (401, UNKNOWN)
    assert "407" in house.curl(url, "carl", old).stderr
    assert house.fetch(url, new).status == 200
    assert house.curl(url, "carl", new).stdout.endswith("the page")

    assert house.up.run("agent", "revoke", "carl").stdout == "agent carl revoked\n"
    assert house.fetch(url, new).status == 401
    assert "407" in house.curl(url, "carl", new).stderr
    assert "carl" not in house.up.run("agent", "list").stdout


def test_when_the_running_gateway_refuses_nothing_is_changed(house: House) -> None:
    """The file says another address than runs, so that a reload is refused; a revoked agent stays removed."""
    house.add("dora", "alices")
    house.rewrite("workers = 1", "workers = 2")
    kept = (house.up.state / "agents.json").read_text()

    added = house.up.run("agent", "add", "eve", "--profile", "alices")
    rotated = house.up.run("agent", "rotate", "dora")
    for done in (added, rotated):
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith("Error: nothing was changed, the running gateway refused: ")
        assert done.stderr.count("\n") == 1
        assert TOKEN.search(done.stderr) is None
    assert (house.up.state / "agents.json").read_text() == kept
    assert house.fetch(house.stage.url("/page"), house.tokens["dora"]).status == 200

    revoked = house.up.run("agent", "revoke", "dora")
    assert (revoked.returncode, "STILL TAKES ITS TOKEN" in revoked.stderr) == (2, True)
    house.rewrite("workers = 2", "workers = 1")
    assert house.up.run("reload").stdout == "reloaded\nagent  dora  removed  profile alices\n"
    assert house.up.audit("event", event="rules")[-1]["facts"] == {"agent dora": "removed profile alices"}
    assert house.fetch(house.stage.url("/page"), house.tokens["dora"]).status == 401


def test_env_has_the_agents_url(house: House) -> None:
    token = house.tokens["alice"]
    host, port = house.up.gateway

    def env(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return run_fetchd(
            "env", "--format", "json", *arguments, "--state-dir", str(house.up.state),
            folder=house.up.folder, variables=variables,
        )  # fmt: skip

    found = json.loads(env(FETCHD_TOKEN=token).stdout)
    assert found["HTTPS_PROXY"] == f"http://alice:{token}@{host}:{port}"
    assert found["FETCHD_TOKEN"] == token
    assert token not in found["JAVA_TOOL_OPTIONS"]
    assert json.loads(env("--agent", "alice").stdout)["HTTPS_PROXY"] == f"http://alice:TOKEN@{host}:{port}"
    assert json.loads(env().stdout)["HTTPS_PROXY"] == f"http://{host}:{port}"
    second = house.up.run_state["listeners"][1]
    for listener in ("open", f"127.0.0.1:{second[1]}"):
        found = json.loads(env("--listener", listener).stdout)
        assert found["HTTPS_PROXY"] == f"http://127.0.0.1:{second[1]}"
    assert (
        env("--agent", "alic").stderr == "Error: the running gateway has no agent alic; did you mean alice?\n"
    )
    assert env("--agent", "bob", FETCHD_TOKEN=token).stderr == (
        "Error: FETCHD_TOKEN holds the token of alice, not of bob\n"
    )
    assert env(FETCHD_TOKEN="secret").stderr == (
        "Error: FETCHD_TOKEN holds no token of fetchd agent; name its agent with --agent\n"
    )


def test_tokens_and_secrets_are_nowhere(house: House) -> None:
    """After all of this file: what the processes said, their arguments, the log, and every file of the state."""
    for name in ("alice", "bob"):
        house.fetch(house.stage.url("/page"), house.tokens[name])
    house.fetch(house.stage.url("/page"), "fetchd.mallory." + "x" * 43)
    hidden = [*house.tokens.values(), "fetchd.mallory."]
    hidden += [(house.up.state / "keys" / f"{name}-secret").read_text() for name in ("daemon", "control")]

    seen = {"output": "\n".join(house.up.said + house.up.errors)}
    for pid in (house.up.process.pid, *house.up.descendants):
        seen[f"arguments of {pid}"] = read_command(pid).decode("latin-1")
    for path in house.up.state.rglob("*"):
        if path.is_file() and not path.name.endswith("-secret"):
            seen[str(path)] = path.read_bytes().decode("latin-1")

    assert len(seen) > 10
    assert [(where, text) for where, text in seen.items() for one in hidden if one in text] == []


# -- reload


def allowed(house: House) -> bool:
    """Whether alice may ask b.example."""
    return house.fetch(house.stage.url("/page", "b.example"), house.tokens["alice"]).status == 200


WIDER = ('allow_hosts = ["a.example"]', 'allow_hosts = ["*.example"]')


def test_a_reload_is_in_force_everywhere_and_says_what_changed(house: House) -> None:
    before = house.up.run_state["profiles"]["alices"]
    assert not allowed(house)
    house.rewrite(*WIDER)
    done = house.up.run("reload")

    assert allowed(house)
    assert house.curl(house.stage.url("/page", "b.example"), "alice", house.tokens["alice"]).stdout.endswith(
        "page"
    )
    state = house.up.run_state
    assert done.stdout == f"reloaded\nprofile  alices  changed  {before} → {state['profiles']['alices']}\n"
    assert state["reloaded"] is not None
    status = house.up.run("status").stdout
    assert re.search(rf"profile +alices +version {state['profiles']['alices']}\n", status)
    assert re.search(rf"config .* rules of {re.escape(state['reloaded'])}\n", status)


def test_sighup_is_a_reload(house: House) -> None:
    house.rewrite(*WIDER)
    said = len(house.up.errors)
    house.up.process.send_signal(signal.SIGHUP)
    house.up.wait_errors(said + 2)

    assert house.up.errors[said] == "reloaded"
    assert re.fullmatch(r"profile +alices +changed .*", house.up.errors[said + 1])
    assert allowed(house)


def empty(path: Path) -> None:
    path.write_text("# nothing\n")


def cut(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: len(data) - 30])


def break_value(path: Path) -> None:
    path.write_text(path.read_text().replace("workers = 1", "workers = true"))


def lock_out(path: Path) -> None:
    path.unlink()
    path.mkdir()


BAD = {
    "missing": (Path.unlink, "cannot be read: No such file or directory"),
    "empty": (empty, "has no key at all any more; to run without: fetchd stop, fetchd up"),
    "half written": (cut, "is not TOML: "),
    "wrong": (break_value, "gateway.workers: write a whole number from 1 to 64"),
    "no file": (lock_out, "is not a regular file"),
    "another address": (
        lambda path: path.write_text(path.read_text().replace('listen = "127.0.0.1:0"', 'listen = "127.0.0.1:9"', 1)),
        "daemon.listen: cannot change while it runs; restart with fetchd stop and fetchd up",
    ),
    "no agent's profile": (
        lambda path: path.write_text(path.read_text().partition("[profiles.bobs]")[0]),
        "agents.bob.profile: there is no profile bobs",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("spoil", "message"), BAD.values(), ids=BAD)
def test_what_cannot_be_used_changes_nothing(house: House, spoil: Any, message: str) -> None:
    text = house.rewrite(*WIDER)
    spoil(house.config)
    before = house.up.run_state
    try:
        done = house.up.run("reload")
        said = len(house.up.errors)
        house.up.process.send_signal(signal.SIGHUP)
        house.up.wait_errors(said + 1)
    finally:
        if house.config.is_dir():
            house.config.rmdir()
        house.config.write_text(text)

    line = f"not reloaded: {house.config}: {message}"
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"Error: {line}") and done.stderr.count("\n") == 1
    assert house.up.errors[said].startswith(line)
    assert house.up.run_state == before
    assert not allowed(house)
    assert house.fetch(house.stage.url("/page"), house.tokens["alice"]).status == 200


def test_reloads_at_the_same_time_queue(house: House) -> None:
    house.rewrite(*WIDER)
    commands = [
        subprocess.Popen(
            [*CLI, "reload", "--state-dir", str(house.up.state)], cwd=house.up.folder,
            env=environment(), stdout=subprocess.PIPE, text=True,
        )
        for _ in range(3)
    ]  # fmt: skip
    said = sorted(command.communicate()[0].splitlines()[0] for command in commands)

    assert said == ["reloaded", "reloaded; nothing has changed", "reloaded; nothing has changed"]


def test_a_name_the_running_gateway_does_not_know_yet(house: House) -> None:
    house.config.write_text(house.config.read_text() + "[profiles.later]\n")
    url, config = house.stage.url("/page"), str(house.config)
    done = house.up.run("fetch", url, "--profile", "later", "--config", config)

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "Error: the running gateway has no profile later; first: fetchd reload\n"
    assert house.up.run("reload").returncode == 0
    assert "no profile" not in house.up.run("fetch", url, "--profile", "later", "--config", config).stderr


@pytest.mark.parametrize("secret", [None, "", "x" * 64, "daemon"])
def test_nobody_else_can_order_a_reload(house: House, secret: str | None) -> None:
    if secret == "daemon":
        secret = (house.up.state / "keys" / "daemon-secret").read_text()
    headers = {} if secret is None else {"Authorization": f"Bearer {secret}"}
    reply = post_json(house.up.operator, "/v1/reload", {}, headers)

    assert reply.status == 401
    assert house.up.run_state["reloaded"] is not None


def test_the_control_secret_is_the_owners_alone(house: House) -> None:
    assert (house.up.state / "keys" / "control-secret").stat().st_mode & 0o777 == 0o600
    assert (house.up.state / "agents.json").stat().st_mode & 0o777 == 0o600


def test_without_a_gateway_reload_says_so(tmp_path: Path) -> None:
    done = run_fetchd("reload", "--state-dir", str(tmp_path), folder=tmp_path)
    assert (done.returncode, done.stderr) == (3, f"nothing runs on {tmp_path}; start it with: fetchd up\n")


# -- an installation that other machines can reach, over TLS


def test_known_agents_alone_over_tls_at_every_address(tmp_path: Path) -> None:
    with Stage(tmp_path) as stage:
        add_profiles(stage)
        stage.origin.route("/page", replies.text("the page"))
        text = stage.config.read_text()
        document = text.replace(
            '[daemon]\nlisten = "127.0.0.1:0"', '[daemon]\nlisten = "0.0.0.0:0"\ntls = true'
        )
        document = re.sub(
            r"listeners = .*",
            'listeners = [{ address = "0.0.0.0:0", profile = "test", tls = true }]',
            document,
        )
        stage.config.write_text(document)
        at = ("--config", str(stage.config), "--state-dir", str(tmp_path / "state"))

        refused = run_fetchd("up", *at, folder=tmp_path)
        assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
        assert "gateway.listeners[0].address: 0.0.0.0:0 is not loopback" in refused.stderr
        added = run_fetchd(
            "agent", "add", "alice", "--profile", "alices", "--env", "json", *at, folder=tmp_path
        )
        token = json.loads(added.stdout)["FETCHD_TOKEN"]

        with Up(tmp_path, "--config", str(stage.config)) as up:
            said = "\n".join(up.said)
            assert f"https://0.0.0.0:{up.gateway[1]}" in said
            assert "at every address of this machine" in said
            assert f"HTTPS_PROXY=https://NAME:TOKEN@127.0.0.1:{up.gateway[1]} " in said
            assert up.run("status").returncode == 0
            variables = json.loads(up.run("agent", "rotate", "alice", "--env", "json").stdout)
            token = variables["FETCHD_TOKEN"]
            assert variables["HTTPS_PROXY"] == f"https://alice:{token}@127.0.0.1:{up.gateway[1]}"
            assert variables["FETCHD_TOOLS_URL"] == f"https://127.0.0.1:{up.tools[1]}"

            trusting = ssl.create_default_context(cafile=str(up.ca_path))
            tools, url = ("127.0.0.1", up.tools[1]), {"url": stage.url("/page")}
            with_token = {"Authorization": f"Bearer {token}"}
            good = post_json(tools, WEB_FETCH, url, with_token, tls=trusting)
            assert good.content.endswith("the page")
            assert post_json(tools, WEB_FETCH, url, {}, tls=trusting).status == 401
            other = {"Host": "evil.example"}
            assert post_json(tools, WEB_FETCH, url, other, tls=trusting).status == 421
            assert post_json(tools, WEB_FETCH, url, other | with_token, tls=trusting).status == 200
            ca = str(up.ca_path)
            through = subprocess.run(
                [
                    require_tool("curl"), "-sS", "--proxy-cacert", ca, "--cacert", ca,
                    "-x", str(variables["HTTPS_PROXY"]), stage.url("/page"),
                ],
                capture_output=True, text=True, check=False, env={"PATH": os.environ["PATH"]},
            )  # fmt: skip
            assert through.stdout == "the page", through.stderr


# -- a terminal that is closed


def test_up_ends_when_its_terminal_is_closed(tmp_path: Path) -> None:
    """There SIGHUP says that nobody looks any more; a gateway must not stay behind unseen."""
    master, slave = os.openpty()
    up = Up(tmp_path, "--gateway", "127.0.0.1:0", "--tools", "127.0.0.1:0", "--operator", "127.0.0.1:0")
    process = subprocess.Popen(
        [*CLI, "up", "--workers", "1", "--state-dir", str(up.state), *up._arguments],
        cwd=tmp_path, env=environment(), stdin=slave, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        start_new_session=True,
    )  # fmt: skip
    os.close(slave)
    poll_until(lambda: (up.state / "run.json").exists(), "a start", 120)
    os.close(master)
    process.send_signal(signal.SIGHUP)

    assert process.wait(60) == 0
    assert not (up.state / "run.json").exists()
