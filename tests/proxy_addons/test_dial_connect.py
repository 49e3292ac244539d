"""Connecting: judged addresses raced by RFC 8305 over real loopback sockets, all within the connect limit.

Each refusal has its rule; no socket stays open; nothing but the judged addresses sees a connect.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohappyeyeballs.impl import _interleave_addrinfos
from netaddr import IPNetwork

from proxy_addons import dial
from proxy_addons.dial import Dialer, DialRefusedError, DialReport, Judged
from proxy_addons.own_addresses import OwnAddresses
from proxy_addons.policy.addresses import AddressException
from proxy_addons.policy.hosts import ANY_HOST
from proxy_addons.policy.limits import Profile
from proxy_addons.policy.verdicts import ALLOWED, Failure, Rule
from proxy_addons.resolve.dns_client import DnsClient
from proxy_addons.resolve.fake import FakeResolver
from proxy_addons.resolve.nameservers import Nameserver
from tests.kit.dns import Addresses, Drop, ScriptedDns
from tests.kit.listener import BlackHole, CountingListener
from tests.kit.ports import free_port
from tests.proxy_addons.dialling import judge_and_connect

HOST = "a.example"
LOOPBACK = tuple(AddressException(ANY_HOST, IPNetwork(network)) for network in ("127.0.0.0/8", "::1/128"))
PATIENT = Profile("patient", exceptions=LOOPBACK, lookup_timeout=60.0, connect_timeout=60.0)
"""Limits that only a broken test reaches."""

HASTY = Profile("hasty", exceptions=LOOPBACK, connect_timeout=0.2)


@pytest.fixture
def dialer() -> Dialer:
    return Dialer(FakeResolver({}), OwnAddresses())


def judged(port: int, *addresses: str) -> Judged:
    return Judged(HOST, port, addresses, ALLOWED, DialReport(returned=addresses))


@pytest.fixture
def hole() -> Iterator[BlackHole]:
    with BlackHole("127.0.0.20") as hole:
        yield hole


@pytest.fixture
async def server() -> AsyncIterator[ScriptedDns]:
    async with ScriptedDns() as server:
        yield server


def sockets_to(*ports: int) -> list[tuple[Any, ...]]:
    """The peers at these ports that an open socket of this process is connected or connecting to."""
    tables = "".join(Path(f"/proc/self/net/{name}").read_text() for name in ("tcp", "tcp6"))
    rows = [line.split() for line in tables.splitlines() if ":" in line.split()[1]]
    inodes = {
        int(link.readlink().name[8:-1])
        for link in Path("/proc/self/fd").iterdir()
        if link.is_symlink() and link.readlink().name.startswith("socket:[")
    }
    return [
        (row[2], row[3])
        for row in rows
        if int(row[2].rpartition(":")[2], 16) in ports and int(row[9]) in inodes
    ]


async def test_from_name_to_socket(server: ScriptedDns) -> None:
    with CountingListener("127.0.0.10") as listener:
        server.host_addresses(HOST, listener.host)
        subject = Dialer(DnsClient([Nameserver(server.host, server.port)]), OwnAddresses())
        sock, report = await judge_and_connect(subject, HOST, listener.port, PATIENT)
        with sock:
            assert sock.getpeername() == (listener.host, listener.port)
            assert sock.getblocking() is False
            assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            assert (report.returned, report.dropped, report.dialled) == ((listener.host,), (), listener.host)
            assert report.dns_ms > 0 and report.connect_ms > 0
        assert (listener.accepts, server.count(HOST, "A"), server.count(HOST, "AAAA")) == (1, 1, 1)


class TestSeveralAddresses:
    """SPEC 1.2: a dead one must not fail the fetch."""

    async def test_a_refusing_first_address(self, dialer: Dialer) -> None:
        port = free_port("127.0.0.10", "127.0.0.11")
        with CountingListener("127.0.0.11", port) as alive:
            sock, report = await dialer.connect(judged(port, "127.0.0.10", "127.0.0.11"), PATIENT)
            sock.close()
            assert (report.dialled, alive.accepts) == ("127.0.0.11", 1)

    async def test_a_first_address_that_hangs(self, dialer: Dialer, hole: BlackHole) -> None:
        with CountingListener("127.0.0.11", hole.port) as alive:
            before = sockets_to(hole.port)
            sock, report = await dialer.connect(judged(hole.port, hole.host, "127.0.0.11"), PATIENT)
            sock.close()
            assert (report.dialled, alive.accepts) == ("127.0.0.11", 1)
            assert sockets_to(hole.port) == before  # the hanging attempt is closed

    async def test_ipv6_goes_first_and_a_dead_one_falls_back_to_ipv4(self, dialer: Dialer) -> None:
        port = free_port("127.0.0.10", "::1")
        both = judged(port, "127.0.0.10", "::1")
        with CountingListener("127.0.0.10", port) as v4:
            with CountingListener("::1", port) as v6:
                sock, report = await dialer.connect(both, PATIENT)
                sock.close()
                assert (report.dialled, v4.accepts, v6.accepts) == ("::1", 0, 1)
            sock, report = await dialer.connect(both, PATIENT)
            sock.close()
            assert (report.dialled, v4.accepts) == ("127.0.0.10", 1)

    async def test_families_take_turns(self) -> None:
        order = dial._race_order(judged(443, "192.0.2.1", "192.0.2.2", "2001:db8::1", "2001:db8::2"))
        assert [info[4][0] for info in _interleave_addrinfos(order)] == [
            "2001:db8::1",
            "192.0.2.1",
            "2001:db8::2",
            "192.0.2.2",
        ]


class TestNoConnection:
    async def test_all_refuse(self, dialer: Dialer) -> None:
        port = free_port("127.0.0.10", "127.0.0.11")
        with pytest.raises(DialRefusedError) as error:
            await dialer.connect(judged(port, "127.0.0.10", "127.0.0.11"), PATIENT)
        verdict = error.value.verdict
        assert (verdict.rule, verdict.failure) == (Rule.UPSTREAM, Failure.SOFT)
        assert str(error.value) == verdict.message == "could not connect to a.example"
        assert isinstance(error.value, OSError)
        assert error.value.report.dialled is None

    async def test_all_hang_until_the_connect_limit(self, dialer: Dialer, hole: BlackHole) -> None:
        before = sockets_to(hole.port)
        with pytest.raises(DialRefusedError) as error:
            await dialer.connect(judged(hole.port, hole.host), HASTY)
        verdict = error.value.verdict
        assert (verdict.rule, verdict.failure) == (Rule.CONNECT_TIMEOUT, Failure.SOFT)
        assert str(error.value) == "connecting to a.example timed out"
        assert error.value.report.connect_ms > 0
        assert sockets_to(hole.port) == before

    async def test_the_look_up_does_not_eat_the_connect_limit(self, server: ScriptedDns) -> None:
        """Two limits, each its own: a look-up longer than the connect limit still connects."""
        with CountingListener("127.0.0.10") as listener:
            server.script(HOST, "A", Drop(), Addresses(listener.host))
            client = DnsClient([Nameserver(server.host, server.port)], 60.0, first_wait=0.6)
            limits = Profile("p", exceptions=LOOPBACK, lookup_timeout=60.0, connect_timeout=0.5)
            sock, _ = await judge_and_connect(Dialer(client, OwnAddresses()), HOST, listener.port, limits)
            sock.close()
            assert (listener.accepts, server.count(HOST, "A")) == (1, 2)

    async def test_a_refused_judgement_connects_nowhere(self, dialer: Dialer) -> None:
        with CountingListener("127.0.0.10") as listener:
            refused = await dialer.judge("unknown.example", listener.port, PATIENT)
            with pytest.raises(DialRefusedError) as error:
                await dialer.connect(refused, PATIENT)
            assert error.value.verdict.rule is Rule.DNS_FAILED
            assert listener.accepts == 0

    @pytest.mark.parametrize(
        "addresses", [("127.0.0.20",), ("127.0.0.20", "127.0.0.10")], ids=["one", "a race"]
    )
    async def test_a_cancelled_dial_closes_its_sockets(
        self, dialer: Dialer, hole: BlackHole, addresses: tuple[str, ...]
    ) -> None:
        with BlackHole("127.0.0.10", hole.port):
            before = sockets_to(hole.port)
            task = asyncio.ensure_future(dialer.connect(judged(hole.port, *addresses), PATIENT))
            while len(sockets_to(hole.port)) < len(before) + len(addresses):  # noqa: ASYNC110 the kernel's own table
                await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert sockets_to(hole.port) == before

    async def test_proxy_variables_mean_nothing(
        self, dialer: Dialer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Cases 34 and 35."""
        with CountingListener("127.0.0.10") as origin, CountingListener("127.0.0.11") as proxy:
            for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
                monkeypatch.setenv(name, f"http://{proxy.host}:{proxy.port}")
            sock, _ = await dialer.connect(judged(origin.port, origin.host), PATIENT)
            sock.close()
            assert (origin.accepts, proxy.accepts) == (1, 0)


class TestFaultsOfOurOwn:
    async def test_a_racer_that_raises_anything(
        self, dialer: Dialer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async def broken(*args: object, **kwargs: object) -> socket.socket:
            raise RuntimeError("bug")

        monkeypatch.setattr(dial, "start_connection", broken)
        with pytest.raises(DialRefusedError, match="internal error; the request was refused") as error:
            await dialer.connect(judged(443, "127.0.0.10"), PATIENT)
        assert error.value.verdict.rule is Rule.INTERNAL

    @pytest.mark.parametrize("elsewhere", ["127.0.0.11", "::1"])
    async def test_a_socket_connected_elsewhere_is_closed_and_refused(
        self, dialer: Dialer, monkeypatch: pytest.MonkeyPatch, elsewhere: str
    ) -> None:
        made: list[socket.socket] = []
        with CountingListener(elsewhere) as other:

            async def astray(*args: object, **kwargs: object) -> socket.socket:
                sock = socket.socket(socket.AF_INET6 if ":" in elsewhere else socket.AF_INET)
                sock.connect((other.host, other.port))
                made.append(sock)
                return sock

            monkeypatch.setattr(dial, "start_connection", astray)
            with pytest.raises(DialRefusedError) as error:
                await dialer.connect(judged(other.port, "127.0.0.10"), PATIENT)
            assert error.value.verdict.rule is Rule.INTERNAL
            assert made[0].fileno() == -1

    async def test_a_socket_connected_to_itself_is_closed_and_refused(
        self, dialer: Dialer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        port = free_port("127.0.0.10")

        async def itself(*args: object, **kwargs: object) -> socket.socket:
            sock = socket.socket()
            sock.bind(("127.0.0.10", port))
            sock.connect(("127.0.0.10", port))
            return sock

        monkeypatch.setattr(dial, "start_connection", itself)
        with pytest.raises(DialRefusedError) as error:
            await dialer.connect(judged(port, "127.0.0.10"), PATIENT)
        assert error.value.verdict.rule is Rule.UPSTREAM


async def test_many_dials_at_once_keep_to_themselves(server: ScriptedDns) -> None:
    with CountingListener("127.0.0.10") as listener:
        subject = Dialer(DnsClient([Nameserver(server.host, server.port)]), OwnAddresses())
        names = [f"n{number}.example" for number in range(40)]
        for name in names:
            server.host_addresses(name, listener.host)
        results = await asyncio.gather(
            *(judge_and_connect(subject, name, listener.port, PATIENT) for name in names)
        )
        for sock, _ in results:
            sock.close()
        assert listener.accepts == 40
        assert [server.count(name, "A") for name in names] == [1] * 40
