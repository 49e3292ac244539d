"""`fetchd operator token | link`, and the operator's listener of a running installation, over TLS."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from fetchd.operator_token import TOKEN_FILE
from proxy_addons.policy.agents import digest_token
from tests.kit.client import open_connection
from tests.kit.installed import ONE_WORKER, Up, run_fetchd
from tests.kit.origin import Origin
from tests.kit.ports import free_port
from tests.kit.processes import poll_until, read_command
from tests.kit.sync import PATIENCE
from tests.kit.toml import write_toml


class Installed(Up):
    """port: the operator's; origin: a server of the same machine that the profile lets through."""

    port: int
    origin: Origin


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    """A profile that would let an agent reach the operator's listener, were it not for what is always blocked."""
    folder = tmp_path_factory.mktemp("up")
    with Origin() as origin:
        port = free_port("0.0.0.0")
        open_ports = [
            {"host": "localhost", "address": "127.0.0.1", "port": one} for one in (port, origin.port)
        ]
        path = write_toml(
            folder / "c.toml",
            {
                "operator": {"listen": f"0.0.0.0:{port}", "tls": True, "names": ["audit.test"]},
                "gateway": {"listeners": [{"address": "127.0.0.1:0", "profile": "open"}]},
                "daemon": {"listen": "127.0.0.1:0"},
                "profiles.open": {
                    "schemes": ["http", "https"], "ports": [port, origin.port], "exceptions": open_ports,
                },
            },
        )  # fmt: skip
        found = Installed(folder, "--config", str(path), *ONE_WORKER)
        found.port, found.origin = port, origin
        with found:
            yield found


def ask(up: Installed, path: str, token: str = "", host: str = "audit.test") -> tuple[int, bytes]:
    context = ssl.create_default_context(cafile=str(up.ca_path))
    context.check_hostname = False
    connection = http.client.HTTPSConnection("127.0.0.1", up.port, timeout=PATIENCE, context=context)
    try:
        fields = {"Host": host, **({"Authorization": f"Bearer {token}"} if token else {})}
        connection.request("GET", path, headers=fields)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def test_the_token_is_printed_once_and_kept_as_a_digest(up: Installed) -> None:
    made = up.run("operator", "token")
    token = made.stdout.strip()
    again = up.run("operator", "token")
    rotated = up.run("operator", "token", "--rotate", "--json")
    other = json.loads(rotated.stdout)["token"]

    assert re.fullmatch(r"fetchd-operator\.[A-Za-z0-9_-]{43}", token)
    assert f"https://127.0.0.1:{up.port}" in made.stderr and token not in made.stderr
    assert again.returncode == 2 and again.stdout == "" and "--rotate" in again.stderr
    file = up.state / "keys" / TOKEN_FILE
    assert (file.read_text(), file.stat().st_mode & 0o777) == (digest_token(other) + "\n", 0o600)
    assert (ask(up, "/", token)[0], ask(up, "/", other)[0]) == (401, 200)


def test_a_link_leads_to_the_page(up: Installed) -> None:
    made = up.run("operator", "link")
    link = made.stdout.strip()
    assert made.returncode == 0
    assert re.fullmatch(rf"https://127\.0\.0\.1:{up.port}/sign-in\?code=[A-Za-z0-9_-]{{43}}", link)
    status, page = ask(up, link.partition(str(up.port))[2])
    assert status == 200 and b"Sign in here" in page


def test_without_anything_running_a_link_exits_with_3_and_a_token_is_made_all_the_same(
    tmp_path: Path,
) -> None:
    state = ("--state-dir", str(tmp_path / "state"))
    assert run_fetchd("operator", "link", *state, folder=tmp_path).returncode == 3
    made = run_fetchd("operator", "token", *state, folder=tmp_path)
    assert made.returncode == 0 and "start it with: fetchd up" in made.stderr


def test_a_reload_reaches_the_listener_over_tls(up: Installed) -> None:
    done = up.run("reload")
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, "reloaded; nothing has changed")
    assert f"https://0.0.0.0:{up.port}" in "\n".join(up.said)


@pytest.mark.parametrize(
    ("host", "status"),
    [("audit.test", 200), ("localhost", 200), ("127.0.0.1", 200), ("evil.test", 421)],
)
def test_probes_reach_health_by_address_and_by_name(up: Installed, host: str, status: int) -> None:
    assert ask(up, "/healthz", host=host)[0] == status


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_agents_do_not_reach_it_by_way_of_the_gateway(up: Installed, scheme: str) -> None:
    """Whatever a profile excepts; the same exception lets another server of this machine through."""
    with open_connection(*up.gateway) as connection:
        answer = connection.get(f"{scheme}://localhost:{up.port}/healthz", host=f"localhost:{up.port}")
    assert (answer.status, answer.header("Fetchd-Rule")) == (403, "no-allowed-address")
    with open_connection(*up.gateway) as connection:
        other = connection.get(f"http://localhost:{up.origin.port}/", host=f"localhost:{up.origin.port}")
    assert other.status == 200


def test_what_an_agent_did_is_on_the_page_and_who_makes_its_index_holds_nobody_up(up: Installed) -> None:
    """The process that makes the index is stopped in the midst of it: gateway and page go on, and it catches up."""
    token = up.run("operator", "token", "--rotate").stdout.strip()
    (indexer,) = [one for one in up.descendants if b"audit_index.indexer" in read_command(one)]

    def ask_gateway(path: str) -> int:
        with open_connection(*up.gateway) as connection:
            url = f"http://localhost:{up.origin.port}{path}"
            return connection.get(url, host=f"localhost:{up.origin.port}").status

    def rows(target: str) -> list[dict[str, object]]:
        status, body = ask(up, "/export.json?range=all&kind=hop", token)
        return [row for row in json.loads(body)["rows"] if status == 200 and row["target"].endswith(target)]

    assert ask_gateway("/first") == 200
    poll_until(lambda: any(row["verdict"] == "allowed" for row in rows("/first")), "the first row")
    os.kill(indexer, signal.SIGSTOP)
    try:
        assert ask_gateway("/second") == 200
        assert ask(up, "/", token)[0] == 200
        assert rows("/second") == []
    finally:
        os.kill(indexer, signal.SIGCONT)
    poll_until(lambda: any(row["verdict"] == "allowed" for row in rows("/second")), "the second row")
    fetch_id = rows("/second")[0]["fetch_id"]
    page = ask(up, f"/fetch/{fetch_id}", token)[1]
    assert b"127.0.0.1" in page and b"let through" in page
    ask(up, "/log", token)
    poll_until(lambda: b"checked at" in ask(up, "/log", token)[1], "the log is checked")
    assert b"whole</span>" in ask(up, "/log", token)[1]


def test_it_does_not_speak_plainly(up: Installed) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", up.port, timeout=PATIENCE)
    connection.request("GET", "/healthz")
    with pytest.raises((http.client.HTTPException, ConnectionError)):
        connection.getresponse()
    connection.close()
