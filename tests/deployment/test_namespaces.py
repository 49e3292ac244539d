"""A reader who follows the operator's guide ends with an agent whose only way out is the gateway.

Three machines of the test's own: the reader's, which forwards whatever it is asked to, an internet with a site, a
resolver and a service over UDP, and the agent, made by the guide's own commands. The agent is root in its namespace.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

import pytest

from tests.kit import replies
from tests.kit.corpora import REPOSITORY
from tests.kit.dns import ScriptedDns
from tests.kit.installed import CLI, Up, environment
from tests.kit.listener import CountingListener
from tests.kit.namespaces import Namespace, connect, require_namespaces
from tests.kit.origin import Origin
from tests.kit.pki import Pki
from tests.kit.processes import poll_until
from tests.kit.toml import write_toml
from tests.kit.tools import require_tool

require_namespaces()

GUIDE = (REPOSITORY / "docs" / "operators-guide.md").read_text("utf-8")
SECTION = GUIDE.partition("## An agent on this machine\n")[2].partition("\n## ")[0]
HERE, NEIGHBOUR = "172.31.231.1", "172.31.231.6"
SITE, SITE_NAME = "93.184.216.34", "example.com"
"""Addresses of the public network, in a network that is none of it."""
MACHINE_OUTSIDE = "93.184.216.1"


def fence(language: str) -> str:
    (found,) = re.findall(rf"^```{language}\n(.*?)^```", SECTION, re.MULTILINE | re.DOTALL)
    return found


@dataclass(frozen=True, slots=True)
class World:
    """Everything, running. `agent` is the name of the agent's namespace."""

    agent: str
    machine: Namespace
    up: Up
    origin: Origin
    dns: ScriptedDns
    udp: socket.socket
    other: CountingListener
    operator_twin: CountingListener
    commands: list[str]
    shared: Path

    def as_root(self, code: str, *arguments: str) -> str:
        """What Python says in the agent's namespace, with every privilege that it can have there."""
        done = subprocess.run(
            ["ip", "netns", "exec", self.agent, sys.executable, "-c", dedent(code), *arguments],
            capture_output=True, text=True, check=False, env=environment(),
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def follow(self, command: str) -> subprocess.CompletedProcess[str]:
        """A command of the guide on the reader's machine."""
        return subprocess.run(
            self.machine.command("sh", "-c", command),
            cwd=REPOSITORY,
            capture_output=True,
            text=True,
            check=False,
        )


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    require_tool("curl")
    folder = tmp_path_factory.mktemp("machine")
    with ExitStack() as stack:
        shared = Path(
            tempfile.mkdtemp(prefix="fetchd-guide-")
        )  # where everybody may look, unlike pytest's folders
        stack.callback(shutil.rmtree, shared)
        shared.chmod(0o755)
        machine, internet = (stack.enter_context(Namespace(kind)) for kind in ("machine", "internet"))
        connect(machine, f"{MACHINE_OUTSIDE}/24", internet, f"{SITE}/24")
        # The worst of machines: it forwards, and the internet knows the way back to the agent.
        machine.run("sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward")
        internet.run("ip", "route", "add", "172.31.231.0/24", "via", MACHINE_OUTSIDE)
        pki = Pki(folder)
        with internet.inside():
            dns = stack.enter_context(ScriptedDns(SITE))
            origin = stack.enter_context(Origin(SITE, 443, tls=pki.server_context(SITE_NAME)))
            udp = stack.enter_context(socket.socket(type=socket.SOCK_DGRAM))
            udp.bind((SITE, 443))
            udp.setblocking(False)
        dns.host_addresses(SITE_NAME, SITE)
        origin.route("/", replies.text("a page of the world"))
        with machine.inside():
            other = stack.enter_context(CountingListener("0.0.0.0", 8080))
            operator_twin = stack.enter_context(CountingListener(MACHINE_OUTSIDE, 3130))

        agent = f"a{os.getpid() % 10_000_000}"
        commands = [
            re.sub(r"\bbot agent\b", f"{agent} nobody", line.removeprefix("sudo "))
            .replace("config/namespace.sh up bot", f"config/namespace.sh up {agent}")
            .replace("/srv/fetchd", str(shared))
            .replace("| sudo tee", "| tee")
            for line in fence("sh").splitlines()
        ]
        document = tomllib.loads(fence("toml"))
        document |= {"dns": {"nameservers": [f"{SITE}:{dns.port}"]}, "tls": {"extra_ca": [str(pki.ca_path)]}}
        config = write_toml(folder / "fetchd.toml", document)
        machine.run("sh", "-c", f"cd {REPOSITORY} && {commands[0]}")
        stack.callback(lambda: machine.run(str(REPOSITORY / "config" / "namespace.sh"), "down", agent))
        assert commands[1] == "fetchd up"
        cli = machine.command(*CLI)
        up = stack.enter_context(Up(folder, "--config", str(config), "--workers", "1", cli=cli))
        fetchd = " ".join(CLI)
        for index in (2, 3):
            state = f"FETCHD_STATE={up.state} FETCHD_CONFIG={config} PYTHONPATH={REPOSITORY}"
            commands[index] = re.sub(r"^fetchd", f"{state} {fetchd}", commands[index])
            machine.run("sh", "-c", commands[index])
        yield World(agent, machine, up, origin, dns, udp, other, operator_twin, commands, shared)


# -- the way that is there


def test_the_last_command_of_the_guide_gets_the_page_through_the_gateway(world: World) -> None:
    """As a user without privileges, with nothing but what the commands before it wrote."""
    done = world.follow(world.commands[-1])

    assert (done.returncode, done.stdout) == (0, "a page of the world"), done.stderr
    poll_until(lambda: bool(world.up.audit("close", agent="bot")), "the end of the hop in the log")
    assert world.up.audit("close", agent="bot")[0]["addresses"]["dialled"] == SITE


def test_what_the_profile_refuses_is_refused_there(world: World) -> None:
    command = world.commands[-1].replace("https://example.com/", "-v https://169.254.169.254/")
    done = world.follow(command)

    assert done.returncode == 56
    assert "403 ip literal host not allowed: 169.254.169.254" in done.stderr


def test_the_tools_are_reached_without_the_proxy(world: World) -> None:
    tool = '$FETCHD_TOOLS_URL/v1/tools/web_fetch --json \'"\'"\'{"url": "https://example.com/"}\'"\'"\''
    done = world.follow(world.commands[-1].replace("https://example.com/", tool.replace("'\"'\"'", "'\\''")))

    assert "a page of the world" in done.stdout, done.stderr


# -- the ways that are not


CONNECT = """
    import socket, sys
    try:
        socket.create_connection((sys.argv[1], int(sys.argv[2])), 1).close()
        print("connected")
    except OSError as error:
        print(error.strerror or type(error).__name__)
"""
ASK = """
    import socket, sys
    with socket.socket(type=socket.SOCK_DGRAM) as asking:
        try:
            asking.connect((sys.argv[1], int(sys.argv[2])))
            for _ in range(3):
                asking.send(b"?")
        except OSError as error:
            print(error.strerror)
        else:
            print("sent")
"""


@pytest.fixture(params=["as made", "with a route of its own", "with a neighbour's address"])
def hostile(request: pytest.FixtureRequest, world: World) -> Iterator[World]:
    """The agent as the guide makes it, and after what root in its namespace may do to it."""

    def alter(*command: str) -> None:
        subprocess.run(["ip", "-n", world.agent, *command], check=True)

    if request.param == "with a neighbour's address":
        alter("address", "add", NEIGHBOUR, "dev", "gateway")
        alter("route", "add", "default", "via", HERE, "src", NEIGHBOUR)
    elif request.param == "with a route of its own":
        alter("route", "add", "default", "via", HERE)
    try:
        yield world
    finally:
        if request.param != "as made":
            alter("route", "del", "default")
        if request.param == "with a neighbour's address":
            alter("address", "del", f"{NEIGHBOUR}/32", "dev", "gateway")


@pytest.mark.parametrize(
    ("host", "port"),
    [
        pytest.param(SITE, 443, id="an origin"),
        pytest.param(HERE, 8080, id="another service of the machine"),
        pytest.param(HERE, 22, id="a closed port of the machine"),
        pytest.param(MACHINE_OUTSIDE, 8080, id="the machine by its other address"),
        pytest.param(MACHINE_OUTSIDE, 3128, id="the gateway's port there"),
        pytest.param(HERE, 3130, id="the operator's port"),
        pytest.param(MACHINE_OUTSIDE, 3130, id="an operator's listener beyond loopback"),
        pytest.param("127.0.0.1", 3130, id="the operator's listener"),
    ],
)
def test_no_connection_leads_anywhere_else(hostile: World, host: str, port: int) -> None:
    before = hostile.origin.accepts

    assert hostile.as_root(CONNECT, host, str(port)) != "connected"
    assert (hostile.origin.accepts, hostile.other.accepts, hostile.operator_twin.accepts) == (before, 0, 0)


def test_no_datagram_gets_out(hostile: World) -> None:
    """Neither DNS nor QUIC."""
    hostile.dns.forget_queries()
    hostile.as_root(ASK, SITE, str(hostile.dns.port))
    hostile.as_root(ASK, SITE, "443")
    hostile.as_root(ASK, HERE, "53")

    with pytest.raises(BlockingIOError):
        hostile.udp.recv(1)
    assert hostile.dns.queries == []


def test_a_name_is_looked_up_by_nobody(hostile: World) -> None:
    code = """
        import socket
        try:
            print(socket.gethostbyname("example.com"))
        except OSError as error:
            print("no such name")
    """
    hostile.dns.forget_queries()

    assert hostile.as_root(code) == "no such name"
    assert hostile.dns.queries == []


def test_with_another_address_the_gateway_is_not_reached_at_all(world: World) -> None:
    """Only the address by which the gateway knows the agent has a way in."""
    subprocess.run(["ip", "-n", world.agent, "address", "add", NEIGHBOUR, "dev", "gateway"], check=True)
    code = f"""
        import socket
        try:
            socket.create_connection(("{HERE}", 3128), 1, ("{NEIGHBOUR}", 0))
            print("connected")
        except OSError as error:
            print(type(error).__name__)
    """
    said = world.as_root(code)
    subprocess.run(
        ["ip", "-n", world.agent, "address", "del", f"{NEIGHBOUR}/32", "dev", "gateway"], check=True
    )

    assert said != "connected"


def test_there_is_no_ipv6_and_turned_on_it_leads_nowhere(world: World) -> None:
    subprocess.run(
        ["ip", "netns", "exec", world.agent, "sh", "-c", "echo 0 > /proc/sys/net/ipv6/conf/gateway/disable_ipv6"],
        check=True,
    )  # fmt: skip
    with world.machine.inside(), socket.socket(socket.AF_INET6) as listening:
        listening.bind(("::", 0))
        listening.listen()
        listening.setblocking(False)
        code = """
            import socket, sys
            address = sys.argv[1]
            try:
                where = socket.getaddrinfo(address, int(sys.argv[2]), socket.AF_INET6)[0][4]
                with socket.socket(socket.AF_INET6) as trying:
                    trying.settimeout(2)
                    trying.connect(where)
                print("connected")
            except OSError as error:
                print(type(error).__name__)
        """
        wire = world.machine.run(
            "ip", "-6", "-o", "address", "show", "dev", f"fetchd-{world.agent}", "scope", "link"
        )
        link_local = wire.split("inet6 ")[1].split("/")[0]
        said = world.as_root(code, f"{link_local}%gateway", str(listening.getsockname()[1]))

        assert said != "connected"
        with pytest.raises(BlockingIOError):
            listening.accept()


def test_a_command_in_it_has_no_privilege_and_sees_no_sockets_of_run(world: World) -> None:
    code = (
        "grep -E ^Cap.*: /proc/self/status; grep NoNewPrivs /proc/self/status; id -un; ls -A /run;"
        " ip route add default via 1.1.1.1"
    )
    done = world.follow(f'config/namespace.sh run {world.agent} nobody sh -c "{code}"')
    said = done.stdout.split()

    assert said == [
        "CapInh:", "0" * 16, "CapPrm:", "0" * 16, "CapEff:", "0" * 16, "CapBnd:", "0" * 16, "CapAmb:", "0" * 16,
        "NoNewPrivs:", "1", "nobody",
    ]  # fmt: skip
    assert "Operation not permitted" in done.stderr


def test_a_command_in_it_has_none_of_the_callers_variables(world: World) -> None:
    done = world.follow(f"SECRET=of-the-caller config/namespace.sh run {world.agent} nobody env")

    assert done.returncode == 0, done.stderr
    assert {line.partition("=")[0] for line in done.stdout.splitlines()} <= {
        "HOME", "LOGNAME", "PATH", "PWD", "SHELL", "TERM", "USER",
    }  # fmt: skip


def test_taken_down_while_something_runs_in_it_that_has_no_way_out_either(world: World) -> None:
    """The wire goes first: a process keeps its namespace alive, and the packet filter goes last."""
    name = f"b{os.getpid() % 10_000_000}"
    script = str(REPOSITORY / "config" / "namespace.sh")
    world.machine.run(script, "up", name, "7")
    later = "input()\n" + dedent(CONNECT)
    left = subprocess.Popen(
        ["ip", "netns", "exec", name, sys.executable, "-c", later, "172.31.231.29", "8080"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    world.machine.run(script, "down", name)
    said, _ = left.communicate("\n", timeout=60)

    assert said.strip() != "connected"
    assert world.other.accepts == 0
    assert name not in world.machine.run("nft", "list", "tables")


@pytest.mark.parametrize(
    "arguments",
    [(), ("up",), ("up", "UPPER"), ("up", "toolongname"), ("up", "a;b"), ("up", "bot", "64"), ("up", "bot", "x"),
     ("sideways", "bot"), ("run", "bot"), ("run", "bot", "nobody")],
)  # fmt: skip
def test_what_it_cannot_do_is_one_line_and_nothing_done(world: World, arguments: tuple[str, ...]) -> None:
    done = subprocess.run(
        world.machine.command(str(REPOSITORY / "config" / "namespace.sh"), *arguments),
        capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert done.returncode == 2
    assert re.fullmatch(r"namespace\.sh: .+\n", done.stderr)
    assert "fetchd_bot" not in world.machine.run("nft", "list", "tables")
