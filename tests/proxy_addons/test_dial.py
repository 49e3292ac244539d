"""Judging (SPEC 1.2, 1.3): each row against a real DNS server; nothing is dialled that was not judged.

Bypass cases 27-32 and 34, bug cases C011, C013, C015, C017. Connects are counted at real listeners.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Iterator

import pytest
from netaddr import IPNetwork

from proxy_addons import dial
from proxy_addons.dial import Dialer, DialRefusedError, Judged
from proxy_addons.own_addresses import Listener, OwnAddresses
from proxy_addons.policy.addresses import SHIPPED_EXTRAS, AddressException
from proxy_addons.policy.hosts import parse_host_pattern
from proxy_addons.policy.limits import DEFAULT_PROFILE, Profile
from proxy_addons.policy.verdicts import Failure, Rule
from proxy_addons.resolve.dns_client import DnsClient
from proxy_addons.resolve.fake import FakeResolver, Held
from proxy_addons.resolve.nameservers import Nameserver
from proxy_addons.resolve.resolver import Answer, LookupFailure, RecordType
from tests.kit.dns import (
    NODATA,
    NXDOMAIN,
    REFUSED,
    SERVFAIL,
    Addresses,
    CnameLoop,
    Delayed,
    Drop,
    Outcome,
    ScriptedDns,
)
from tests.kit.listener import CountingListener
from tests.kit.ports import free_port
from tests.kit.sync import Gate
from tests.proxy_addons.dialling import judge_and_connect

A, AAAA = RecordType.A, RecordType.AAAA
HOST = "a.example"
PATIENT = 60.0
"""A look-up limit that only a broken test reaches."""

SHIPPED_DELAYS = dict(dial.OTHER_TYPE_DELAY)

GOOD_A, GOOD_AAAA = Addresses("93.184.216.34"), Addresses("2606:4700:4700::1111")
BAD_A, BAD_AAAA = Addresses("169.254.169.254"), Addresses("64:ff9b::a9fe:a9fe")
NO_ADDRESS = (Rule.NO_ALLOWED_ADDRESS, Failure.HARD, "host a.example has no allowed address")
DNS_FAILED = (Rule.DNS_FAILED, Failure.SOFT, "dns resolution failed for a.example")


@pytest.fixture(autouse=True)
def _no_second_look_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test here, and so nothing in the dialer, may ask the system for a name."""

    def never(*args: object, **kwargs: object) -> None:
        raise AssertionError("the system's resolver was asked")

    for function in ("getaddrinfo", "gethostbyname", "gethostbyname_ex", "create_connection"):
        monkeypatch.setattr(socket, function, never)


@pytest.fixture(autouse=True)
def _answers_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow machine must not cut an answer off; TestWaitingForTheOtherType sets its own times."""
    monkeypatch.setattr(dial, "OTHER_TYPE_DELAY", {A: PATIENT, AAAA: PATIENT})


@pytest.fixture
async def server() -> AsyncIterator[ScriptedDns]:
    async with ScriptedDns() as server:
        yield server


@pytest.fixture
def dialer(server: ScriptedDns) -> Dialer:
    return Dialer(DnsClient([Nameserver(server.host, server.port)], PATIENT, PATIENT), OwnAddresses())


def profile(*networks: str, host: str = "*", port: int | None = None, lookup: float = PATIENT) -> Profile:
    """The default limits with holes for these loopback networks."""
    holes = tuple(AddressException(parse_host_pattern(host), IPNetwork(each), port) for each in networks)
    return Profile("test", exceptions=holes, lookup_timeout=lookup)


def refusal(judged: Judged) -> tuple[Rule | None, Failure | None, str]:
    assert judged.refused and judged.allowed == ()
    return judged.verdict.rule, judged.verdict.failure, judged.verdict.message


@pytest.mark.parametrize(
    ("a", "aaaa", "allowed"),
    [
        pytest.param(GOOD_A, GOOD_AAAA, ["93.184.216.34", "2606:4700:4700::1111"], id="both types, A first"),
        pytest.param(GOOD_A, NODATA, ["93.184.216.34"], id="AAAA has no data"),
        pytest.param(NODATA, GOOD_AAAA, ["2606:4700:4700::1111"], id="A has no data"),
        pytest.param(GOOD_A, SERVFAIL, ["93.184.216.34"], id="C015: a failing AAAA does not cost a good A"),
        pytest.param(SERVFAIL, GOOD_AAAA, ["2606:4700:4700::1111"], id="C015: nor a failing A a good AAAA"),
        pytest.param(GOOD_A, NXDOMAIN, ["93.184.216.34"], id="nor does a lying NXDOMAIN"),
        pytest.param(GOOD_A, BAD_AAAA, ["93.184.216.34"], id="a blocked AAAA is dropped"),
        pytest.param(BAD_A, GOOD_AAAA, ["2606:4700:4700::1111"], id="a blocked A is dropped"),
        pytest.param(
            Addresses("127.0.0.1", "93.184.216.34", "10.0.0.1", "1.1.1.1"),
            NODATA,
            ["93.184.216.34", "1.1.1.1"],
            id="C011: blocked members are dropped, the order of the others stays",
        ),
        pytest.param(
            Addresses("93.184.216.34", "93.184.216.34"), NODATA, ["93.184.216.34"], id="twice is once"
        ),
        pytest.param(
            Addresses("93.184.216.34", via=("localhost.example", "b.example")),
            NODATA,
            ["93.184.216.34"],
            id="at the end of a CNAME chain",
        ),
    ],
)
async def test_allowed(
    server: ScriptedDns, dialer: Dialer, a: Outcome, aaaa: Outcome, allowed: list[str]
) -> None:
    server.script(HOST, "A", a)
    server.script(HOST, "AAAA", aaaa)
    judged = await dialer.judge(HOST, 443, profile())
    assert (list(judged.allowed), judged.refused) == (allowed, False)
    assert (judged.host, judged.port) == (HOST, 443)


@pytest.mark.parametrize(
    ("a", "aaaa", "expected", "failed"),
    [
        pytest.param(BAD_A, BAD_AAAA, NO_ADDRESS, (), id="both types blocked"),
        pytest.param(BAD_A, NODATA, NO_ADDRESS, (), id="A blocked, AAAA no data"),
        pytest.param(NODATA, BAD_AAAA, NO_ADDRESS, (), id="A no data, AAAA blocked"),
        pytest.param(NODATA, NODATA, NO_ADDRESS, (), id="nothing returned, nothing failed"),
        pytest.param(BAD_A, SERVFAIL, NO_ADDRESS, (("AAAA", "servfail"),), id="A blocked, AAAA fails: hard"),
        pytest.param(NXDOMAIN, BAD_AAAA, NO_ADDRESS, (("A", "nxdomain"),), id="A fails, AAAA blocked: hard"),
        pytest.param(
            NXDOMAIN, NXDOMAIN, DNS_FAILED, (("A", "nxdomain"), ("AAAA", "nxdomain")), id="no such name: soft"
        ),
        pytest.param(SERVFAIL, NODATA, DNS_FAILED, (("A", "servfail"),), id="A fails, AAAA no data: soft"),
        pytest.param(NODATA, REFUSED, DNS_FAILED, (("AAAA", "refused"),), id="A no data, AAAA refused: soft"),
        pytest.param(
            CnameLoop(),
            CnameLoop(),
            DNS_FAILED,
            (("A", "cname-chain"), ("AAAA", "cname-chain")),
            id="an alias loop",
        ),
    ],
)
async def test_refused(
    server: ScriptedDns,
    dialer: Dialer,
    a: Outcome,
    aaaa: Outcome,
    expected: tuple[Rule, Failure, str],
    failed: tuple[tuple[str, str], ...],
) -> None:
    server.script(HOST, "A", a)
    server.script(HOST, "AAAA", aaaa)
    judged = await dialer.judge(HOST, 443, profile())
    assert (refusal(judged), judged.report.failed) == (expected, failed)
    with pytest.raises(DialRefusedError, match=judged.verdict.message) as error:
        await dialer.connect(judged, profile())
    assert (error.value.verdict, error.value.report) == (judged.verdict, judged.report)


@pytest.mark.parametrize(
    ("a", "aaaa", "expected", "failed"),
    [
        pytest.param(
            Drop(), Drop(), DNS_FAILED, (("A", "timeout"), ("AAAA", "timeout")), id="both silent: soft"
        ),
        pytest.param(Drop(), NODATA, DNS_FAILED, (("A", "timeout"),), id="A silent, AAAA no data: soft"),
        pytest.param(BAD_A, Drop(), NO_ADDRESS, (("AAAA", "timeout"),), id="A blocked, AAAA silent: hard"),
    ],
)
async def test_silence_ends_at_the_look_up_limit(
    server: ScriptedDns,
    dialer: Dialer,
    a: Outcome,
    aaaa: Outcome,
    expected: tuple[Rule, Failure, str],
    failed: tuple[tuple[str, str], ...],
) -> None:
    server.script(HOST, "A", a)
    server.script(HOST, "AAAA", aaaa)
    judged = await dialer.judge(HOST, 443, profile(lookup=0.2))
    assert (refusal(judged), judged.report.failed) == (expected, failed)


EMBEDDED = (
    "64:ff9b::7f00:1", "64:ff9b::a00:5", "64:ff9b::a9fe:a9fe", "64:ff9b:1::a00:5", "::127.0.0.1",
    "::ffff:127.0.0.1", "::ffff:8.8.8.8", "2002:7f00:1::", "3fff::1", "fec0::1", "ff02::1",
    "fd00:ec2::254", "fe80::1", "::", "::1",
)  # fmt: skip
INTERNAL_V4 = (
    "100.100.100.200", "192.0.0.192", "0.1.2.3", "198.19.0.1", "240.0.0.1", "255.255.255.255",
    "224.0.0.1",
)  # fmt: skip
EXTRAS = ("5f00::1", "100:0:0:1::1", "::ffff:0:127.0.0.1", "168.63.129.16")


@pytest.mark.parametrize("address", [*EMBEDDED, *INTERNAL_V4, *EXTRAS])
async def test_case_27_an_internal_address_in_any_form_is_dropped(
    server: ScriptedDns, dialer: Dialer, address: str
) -> None:
    server.host_addresses(HOST, address)
    shipped = Profile("shipped", blocked_extra=SHIPPED_EXTRAS, lookup_timeout=PATIENT)
    judged = await dialer.judge(HOST, 443, shipped)
    assert refusal(judged) == NO_ADDRESS
    assert [dropped for dropped, _ in judged.report.dropped] == list(judged.report.returned) != []


async def test_each_dropped_address_is_one_exact_debug_line(
    server: ScriptedDns, dialer: Dialer, caplog: pytest.LogCaptureFixture
) -> None:
    server.host_addresses(HOST, "10.1.2.3", "93.184.216.34", "2001:2::7")
    with caplog.at_level(logging.DEBUG, "proxy_addons.dial"):
        judged = await dialer.judge(HOST, 443, profile())
    assert caplog.messages == [
        "host a.example resolved to blocked address 10.1.2.3 in range 10.0.0.0/8",
        "host a.example resolved to blocked address 2001:2::7 in range 2001:2::/48",
    ]
    assert judged.report.returned == ("10.1.2.3", "93.184.216.34", "2001:2::7")
    assert judged.report.dropped == (("10.1.2.3", "10.0.0.0/8"), ("2001:2::7", "2001:2::/48"))


async def test_localhost_is_answered_without_a_query_and_blocked(server: ScriptedDns, dialer: Dialer) -> None:
    for host in ("localhost", "db.localhost"):
        judged = await dialer.judge(host, 443, profile())
        assert judged.verdict.rule is Rule.NO_ALLOWED_ADDRESS
        assert judged.report.dropped == (("127.0.0.1", "127.0.0.0/8"), ("::1", "::/96"))
    assert server.count() == 0


async def test_a_name_dns_cannot_carry_fails_without_a_query(server: ScriptedDns, dialer: Dialer) -> None:
    judged = await dialer.judge("x" * 64 + ".example", 443, profile())
    assert (judged.verdict.rule, judged.verdict.failure) == (Rule.DNS_FAILED, Failure.SOFT)
    assert server.count() == 0


class TestFlips:
    """Case 28, C017: check and use are the same answer."""

    @pytest.fixture
    def pair(self) -> Iterator[tuple[CountingListener, CountingListener]]:
        port = free_port("127.0.0.10", "127.0.0.11")
        with CountingListener("127.0.0.10", port) as good, CountingListener("127.0.0.11", port) as bad:
            yield good, bad

    async def test_the_answer_that_was_judged_is_dialled_and_the_next_dial_asks_again(
        self, server: ScriptedDns, dialer: Dialer, pair: tuple[CountingListener, CountingListener]
    ) -> None:
        good, bad = pair
        server.script("flip.example", "A", Addresses(good.host), Addresses(bad.host))
        limits = profile("127.0.0.10/32")
        sock, report = await judge_and_connect(dialer, "flip.example", good.port, limits)
        with sock:
            assert (sock.getpeername(), report.dialled) == ((good.host, good.port), good.host)
        assert (server.count("flip.example", "A"), server.count("flip.example", "AAAA")) == (1, 1)
        with pytest.raises(DialRefusedError, match=r"host flip\.example has no allowed address"):
            await judge_and_connect(dialer, "flip.example", good.port, limits)
        assert (server.count("flip.example", "A"), server.count("flip.example", "AAAA")) == (2, 2)
        assert (good.accepts, bad.accepts) == (1, 0)

    async def test_the_other_way_round_the_first_dial_is_refused(
        self, server: ScriptedDns, dialer: Dialer, pair: tuple[CountingListener, CountingListener]
    ) -> None:
        good, bad = pair
        server.script("flip.example", "A", Addresses(bad.host), Addresses(good.host))
        with pytest.raises(DialRefusedError):
            await judge_and_connect(dialer, "flip.example", good.port, profile("127.0.0.10/32"))
        assert (good.accepts, bad.accepts, server.count()) == (0, 0, 2)

    @pytest.mark.parametrize("swapped", [False, True], ids=["allowed first", "blocked first"])
    @pytest.mark.parametrize("alive", [True, False], ids=["allowed one alive", "allowed one dead"])
    async def test_case_29_never_the_blocked_member_of_a_mixed_answer(
        self, server: ScriptedDns, dialer: Dialer, swapped: bool, alive: bool
    ) -> None:
        port = free_port("127.0.0.10", "127.0.0.11", "::1")
        server.script(
            HOST, "A", Addresses(*(["127.0.0.11", "127.0.0.10"] if swapped else ["127.0.0.10", "127.0.0.11"]))
        )
        server.script(HOST, "AAAA", Addresses("::1"))
        with CountingListener("127.0.0.11", port) as bad, CountingListener("::1", port) as bad_v6:
            if alive:
                with CountingListener("127.0.0.10", port) as good:
                    sock, _ = await judge_and_connect(dialer, HOST, port, profile("127.0.0.10/32"))
                    sock.close()
                    assert good.accepts == 1
            else:
                with pytest.raises(DialRefusedError) as error:
                    await judge_and_connect(dialer, HOST, port, profile("127.0.0.10/32"))
                assert error.value.verdict.rule is Rule.UPSTREAM
            assert (bad.accepts, bad_v6.accepts) == (0, 0)


class TestOwnAddresses:
    """Case 34: the gateway is never asked to connect to itself."""

    @pytest.mark.parametrize("written", ["127.0.0.1", "0.0.0.0", "::ffff:127.0.0.1"])
    async def test_a_listener_of_ours_is_refused_whatever_is_excepted(
        self, server: ScriptedDns, written: str
    ) -> None:
        server.host_addresses("self.example", written)
        limits = profile("0.0.0.0/0", "::/0")
        with CountingListener("127.0.0.1") as ours, CountingListener("127.0.0.1") as other:
            own = OwnAddresses([Listener("127.0.0.1", ours.port)])
            dialer = Dialer(DnsClient([Nameserver(server.host, server.port)]), own)
            judged = await dialer.judge("self.example", ours.port, limits)
            assert judged.verdict.rule is Rule.NO_ALLOWED_ADDRESS
            assert judged.report.dropped == ((judged.report.returned[0], "own address"),)
            with pytest.raises(DialRefusedError):
                await dialer.connect(judged, limits)
            server.host_addresses("twin.example", "127.0.0.1")
            sock, _ = await judge_and_connect(dialer, "twin.example", other.port, limits)
            sock.close()
            assert (ours.accepts, other.accepts) == (0, 1)

    async def test_beside_a_listener_of_ours_the_rest_of_the_answer_stands(self, server: ScriptedDns) -> None:
        port = free_port("127.0.0.10", "127.0.0.11")
        server.script(HOST, "A", Addresses("127.0.0.10", "127.0.0.11"))
        with CountingListener("127.0.0.10", port) as ours, CountingListener("127.0.0.11", port) as other:
            own = OwnAddresses([Listener(ours.host, port)])
            dialer = Dialer(DnsClient([Nameserver(server.host, server.port)]), own)
            sock, report = await judge_and_connect(dialer, HOST, port, profile("127.0.0.0/8"))
            sock.close()
            assert (report.dialled, report.dropped) == ("127.0.0.11", (("127.0.0.10", "own address"),))
            assert (ours.accepts, other.accepts) == (0, 1)

    async def test_a_listener_of_ours_beside_a_failing_type_is_still_hard(self, server: ScriptedDns) -> None:
        server.script(HOST, "A", Addresses("127.0.0.1"))
        server.script(HOST, "AAAA", SERVFAIL)
        own = OwnAddresses([Listener("127.0.0.1", 3128)])
        dialer = Dialer(DnsClient([Nameserver(server.host, server.port)]), own)
        assert refusal(await dialer.judge(HOST, 3128, profile("127.0.0.0/8"))) == NO_ADDRESS

    async def test_an_interface_address_outside_the_table_is_own_unless_excepted(
        self, server: ScriptedDns, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        own = OwnAddresses()
        monkeypatch.setattr(own, "is_own", lambda address: address == "93.184.216.34")
        dialer = Dialer(DnsClient([Nameserver(server.host, server.port)]), own)
        server.host_addresses(HOST, "93.184.216.34", "1.1.1.1")
        judged = await dialer.judge(HOST, 443, profile())
        assert (judged.allowed, judged.report.dropped) == (("1.1.1.1",), (("93.184.216.34", "own address"),))
        excepted = await dialer.judge(HOST, 443, profile("93.184.216.34/32"))
        assert excepted.allowed == ("93.184.216.34", "1.1.1.1")


class TestExceptions:
    """An exception names host, address and, if given, port; each of them alone is not enough."""

    @pytest.mark.parametrize(
        ("host", "address", "port", "allowed"),
        [
            pytest.param("a.example", "127.0.0.10", 8443, True, id="all three agree"),
            pytest.param("b.example", "127.0.0.10", 8443, False, id="another host"),
            pytest.param("a.example", "127.0.0.11", 8443, False, id="another address"),
            pytest.param("a.example", "127.0.0.10", 443, False, id="another port"),
        ],
    )
    async def test_exception(
        self, server: ScriptedDns, dialer: Dialer, host: str, address: str, port: int, allowed: bool
    ) -> None:
        server.host_addresses(host, address)
        judged = await dialer.judge(host, port, profile("127.0.0.10/32", host="a.example", port=8443))
        assert judged.refused is not allowed


class TestWaitingForTheOtherType:
    """RFC 8305 section 3. The held type comes only when the gate opens, so the order of events is a fact."""

    def test_the_times(self) -> None:
        assert SHIPPED_DELAYS == {A: 0.05, AAAA: 0.5}

    async def test_a_dropped_aaaa_does_not_hold_a_good_a(
        self, server: ScriptedDns, dialer: Dialer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(dial.OTHER_TYPE_DELAY, A, 0.05)
        server.script(HOST, "A", GOOD_A)
        server.script(HOST, "AAAA", Delayed(Gate(), GOOD_AAAA))
        judged = await dialer.judge(HOST, 443, profile())
        assert (judged.allowed, judged.report.failed) == (("93.184.216.34",), (("AAAA", "late"),))

    async def test_a_dropped_a_does_not_hold_a_good_aaaa(
        self, server: ScriptedDns, dialer: Dialer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(dial.OTHER_TYPE_DELAY, AAAA, 0.05)
        server.script(HOST, "A", Drop())
        server.script(HOST, "AAAA", Addresses("::1"))
        judged = await dialer.judge(HOST, 443, profile("::1/128"))
        assert (judged.allowed, judged.report.failed) == (("::1",), (("A", "late"),))

    async def test_a_little_later_is_waited_for(self) -> None:
        arrived = asyncio.Event()
        resolver = FakeResolver(
            {
                (HOST, A): Answer(A, ("93.184.216.34",)),
                (HOST, AAAA): Held(arrived, Answer(AAAA, ("2606:4700:4700::1111",))),
            }
        )
        task = asyncio.ensure_future(Dialer(resolver, OwnAddresses()).judge(HOST, 443, profile()))
        while len(resolver.asked) < 2:  # noqa: ASYNC110 the fake's own list is the event
            await asyncio.sleep(0)
        arrived.set()
        assert len((await task).allowed) == 2

    @pytest.mark.parametrize(
        "first",
        [
            pytest.param(Answer(A, ("10.0.0.1",)), id="only blocked"),
            pytest.param(Answer(A), id="no data"),
            pytest.param(Answer(A, failure=LookupFailure.SERVFAIL), id="failed"),
        ],
    )
    async def test_while_nothing_can_be_dialled_the_other_type_is_waited_for(
        self, first: Answer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(dial.OTHER_TYPE_DELAY, A, 0.0)
        await self._waits_for_aaaa(first)

    async def test_an_address_without_a_route_is_nothing_to_dial(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(dial.OTHER_TYPE_DELAY, A, 0.0)
        monkeypatch.setattr(dial, "_is_routable", lambda address: ":" in address)
        await self._waits_for_aaaa(Answer(A, ("93.184.216.34",)))

    async def _waits_for_aaaa(self, first: Answer) -> None:
        arrived = asyncio.Event()
        resolver = FakeResolver(
            {(HOST, A): first, (HOST, AAAA): Held(arrived, Answer(AAAA, ("2606:4700::1",)))}
        )
        task = asyncio.ensure_future(Dialer(resolver, OwnAddresses()).judge(HOST, 443, profile()))
        for _ in range(20):
            await asyncio.sleep(0)
        arrived.set()
        assert "2606:4700::1" in (await task).allowed

    def test_the_loopback_has_a_route_and_nonsense_has_none(self) -> None:
        assert dial._is_routable("127.0.0.1")
        assert not dial._is_routable("fe80::1")


class TestFaultsOfOurOwn:
    """Law 5: what cannot be judged is not dialled."""

    async def test_a_resolver_that_raises(self, caplog: pytest.LogCaptureFixture) -> None:
        class Broken:
            async def resolve(self, host: str, rtype: RecordType) -> Answer:
                raise RuntimeError("bug")

        judged = await Dialer(Broken(), OwnAddresses()).judge(HOST, 443, profile())
        assert refusal(judged) == (Rule.INTERNAL, Failure.SOFT, "internal error; the request was refused")
        assert "judging host a.example failed" in caplog.text

    @pytest.mark.parametrize("part", ["decide_addresses", "_is_routable"])
    async def test_a_judge_that_raises(
        self, server: ScriptedDns, dialer: Dialer, monkeypatch: pytest.MonkeyPatch, part: str
    ) -> None:
        def broken(*args: object, **kwargs: object) -> None:
            raise RuntimeError("bug")

        monkeypatch.setattr(dial, part, broken)
        server.script(HOST, "A", GOOD_A)
        server.script(HOST, "AAAA", Drop())
        judged = await dialer.judge(HOST, 443, profile(lookup=0.2))
        assert judged.verdict.rule is Rule.INTERNAL

    async def test_a_system_that_cannot_say_what_is_own(
        self, server: ScriptedDns, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        own = OwnAddresses()

        def exhausted(address: str) -> bool:
            raise OSError("too many open files")

        monkeypatch.setattr(own, "is_own", exhausted)
        server.host_addresses(HOST, "93.184.216.34")
        judged = await Dialer(DnsClient([Nameserver(server.host, server.port)]), own).judge(
            HOST, 443, profile()
        )
        assert judged.verdict.rule is Rule.INTERNAL


async def test_a_cancelled_judgement_cancels_both_look_ups() -> None:
    ended: list[RecordType] = []

    class Hanging:
        async def resolve(self, host: str, rtype: RecordType) -> Answer:
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                ended.append(rtype)
            raise AssertionError

    task = asyncio.ensure_future(Dialer(Hanging(), OwnAddresses()).judge(HOST, 443, DEFAULT_PROFILE))
    for _ in range(3):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    for _ in range(3):
        await asyncio.sleep(0)
    assert sorted(ended) == [A, AAAA]
