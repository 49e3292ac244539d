"""DnsClient against a real scripted server: each bad answer, retry and bound (SPEC 1.2; cases 27, 31, 32)."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import dns.message
import dns.name
import dns.rdataclass
import dns.rdatatype
import dns.rrset
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy_addons.resolve import dns_client
from proxy_addons.resolve.dns_client import MAX_RECORDS, DnsClient
from proxy_addons.resolve.nameservers import Nameserver
from proxy_addons.resolve.resolver import MAX_ADDRESSES, Answer, LookupFailure, RecordType
from tests.kit.dns import (
    NODATA,
    NXDOMAIN,
    REFUSED,
    SERVFAIL,
    Addresses,
    CnameLoop,
    Delayed,
    Drop,
    Failure,
    Forged,
    Forgery,
    Garbage,
    Outcome,
    Query,
    ScriptedDns,
    Transport,
    Truncated,
    render_reply,
)
from tests.kit.ports import free_port
from tests.kit.sync import Gate

A, AAAA = RecordType.A, RecordType.AAAA
GOOD = Addresses("198.51.100.7")
EVIL = Addresses("127.0.0.1")
NAME = "a.example"


@pytest.fixture
async def server() -> AsyncIterator[ScriptedDns]:
    async with ScriptedDns() as server:
        yield server


def client_of(*servers: ScriptedDns, limit: float = 10.0, first_wait: float = 10.0) -> DnsClient:
    """A client that waits so long that only facts end a wait."""
    return DnsClient([Nameserver(server.host, server.port) for server in servers], limit, first_wait)


def numbered(count: int) -> tuple[str, ...]:
    return tuple(f"198.51.{n // 250}.{n % 250}" for n in range(count))


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        pytest.param(NODATA, Answer(A), id="no data is an empty answer"),
        pytest.param(NXDOMAIN, Answer(A, failure=LookupFailure.NXDOMAIN), id="NXDOMAIN"),
        pytest.param(SERVFAIL, Answer(A, failure=LookupFailure.SERVFAIL), id="SERVFAIL"),
        pytest.param(REFUSED, Answer(A, failure=LookupFailure.REFUSED), id="REFUSED"),
        pytest.param(Failure(dns.rcode.NOTIMP), Answer(A, failure=LookupFailure.OTHER_RCODE), id="NOTIMP"),
        pytest.param(CnameLoop(), Answer(A, failure=LookupFailure.CNAME_CHAIN), id="an alias of itself"),
        pytest.param(
            Addresses("198.51.100.7", via=("b.example", "C.example")),
            Answer(A, ("198.51.100.7",)),
            id="at the end of a CNAME chain",
        ),
        pytest.param(
            Addresses("198.51.100.7", via=tuple(f"l{n}.example" for n in range(15))),
            Answer(A, ("198.51.100.7",)),
            id="a chain of 15 links is followed",
        ),
        pytest.param(
            Addresses("198.51.100.7", via=tuple(f"l{n}.example" for n in range(16))),
            Answer(A, failure=LookupFailure.CNAME_CHAIN),
            id="a chain of 16 links is not",
        ),
        pytest.param(Addresses(via=("b.example",)), Answer(A), id="an alias without addresses is no data"),
        pytest.param(Truncated(GOOD), Answer(A, ("198.51.100.7",)), id="truncated, then whole over TCP"),
        pytest.param(
            Truncated(NXDOMAIN), Answer(A, failure=LookupFailure.NXDOMAIN), id="truncated, then NXDOMAIN"
        ),
        pytest.param(
            Truncated(Garbage(b"\x00" * 40)),
            Answer(A, failure=LookupFailure.MALFORMED),
            id="truncated, then garbage over TCP",
        ),
        pytest.param(
            Truncated(Forged(Forgery.WRONG_ID, EVIL)),
            Answer(A, failure=LookupFailure.MALFORMED),
            id="truncated, then another id over TCP",
        ),
        pytest.param(
            Addresses(*numbered(MAX_ADDRESSES)),
            Answer(A, numbered(MAX_ADDRESSES)),
            id="as many addresses as are used",
        ),
        pytest.param(
            Addresses(*numbered(300)),
            Answer(A, numbered(300)[:MAX_ADDRESSES], surplus=300 - MAX_ADDRESSES),
            id="300 addresses: the first 64 are used and the rest is counted",
        ),
        pytest.param(
            Addresses(*numbered(MAX_RECORDS)),
            Answer(A, numbered(300)[:MAX_ADDRESSES], surplus=MAX_RECORDS - MAX_ADDRESSES),
            id="as many records as are read",
        ),
        pytest.param(
            Addresses(*numbered(MAX_RECORDS + 1)),
            Answer(A, failure=LookupFailure.MALFORMED),
            id="one record more than is read",
        ),
    ],
)
async def test_each_outcome_has_its_own_answer(
    server: ScriptedDns, outcome: Outcome, expected: Answer
) -> None:
    server.script(NAME, "A", outcome)
    assert await client_of(server).resolve(NAME, A) == expected


@pytest.mark.parametrize(
    "address",
    ["64:ff9b::a00:5", "64:ff9b::a9fe:a9fe", "64:ff9b:1::a00:5", "::ffff:127.0.0.1", "fd00:ec2::254"],
)
async def test_addresses_are_reported_as_they_are_even_internal_ones(
    server: ScriptedDns, address: str
) -> None:
    server.script(NAME, "AAAA", Addresses(address))
    assert (await client_of(server).resolve(NAME, AAAA)).addresses == (address,)


@pytest.mark.parametrize("how", Forgery)
async def test_a_forged_reply_is_passed_over_and_the_true_one_taken(
    server: ScriptedDns, how: Forgery
) -> None:
    server.script(NAME, "A", Forged(how, EVIL, GOOD))
    assert await client_of(server).resolve(NAME, A) == Answer(A, ("198.51.100.7",))
    assert server.count() == 1


async def test_a_flood_of_forgeries_ends_the_attempt(server: ScriptedDns) -> None:
    flood: Outcome = Drop()
    for _ in range(40):
        flood = Forged(Forgery.WRONG_ID, EVIL, flood)
    server.script(NAME, "A", flood)
    assert await client_of(server).resolve(NAME, A) == Answer(A, failure=LookupFailure.MALFORMED)


async def test_a_reply_with_our_id_that_cannot_be_read_is_malformed_at_once(server: ScriptedDns) -> None:
    def cut_short(query: Query) -> Outcome:
        reply = render_reply(dns.message.make_query(query.name, query.rtype, id=query.message_id), GOOD)
        return Garbage(reply.to_wire()[:-2])

    server.script(NAME, "A", cut_short)
    assert await client_of(server).resolve(NAME, A) == Answer(A, failure=LookupFailure.MALFORMED)
    assert server.count() == 1


async def test_an_error_without_a_question_counts(server: ScriptedDns) -> None:
    def bare(query: Query) -> Outcome:
        return Garbage(query.message_id.to_bytes(2) + b"\x81\x82" + bytes(8))

    server.script(NAME, "A", bare)
    assert await client_of(server).resolve(NAME, A) == Answer(A, failure=LookupFailure.SERVFAIL)


async def test_records_of_another_class_are_not_addresses(server: ScriptedDns) -> None:
    def chaos(query: Query) -> Outcome:
        owner = b"\xc0\x0c" + b"\x00\x01\x00\x03" + bytes(4) + b"\x00\x04\x7f\x00\x00\x01"
        question = dns_client._render_question((b"a", b"example"), A)
        return Garbage(query.message_id.to_bytes(2) + b"\x81\x80\0\1\0\1\0\0\0\0" + question + owner)

    server.script(NAME, "A", chaos)
    assert await client_of(server).resolve(NAME, A) == Answer(A)


class TestRetries:
    async def test_a_lost_query_is_sent_again_under_another_id_and_port(self, server: ScriptedDns) -> None:
        server.script(NAME, "A", Drop(), Drop(), GOOD)
        answer = await client_of(server, first_wait=0.05).resolve(NAME, A)
        assert answer == Answer(A, ("198.51.100.7",))
        assert server.count() == 3
        assert len({(query.message_id, query.source_port) for query in server.queries}) == 3

    async def test_three_rounds_at_most_and_a_silent_server_is_a_time_out(self, server: ScriptedDns) -> None:
        server.script(NAME, "A", Drop())
        answer = await client_of(server, limit=0.5, first_wait=0.01).resolve(NAME, A)
        assert answer == Answer(A, failure=LookupFailure.TIMEOUT)
        assert server.count() == 3

    async def test_the_limit_ends_the_look_up_before_the_rounds_do(self, server: ScriptedDns) -> None:
        server.script(NAME, "A", Drop())
        answer = await client_of(server, limit=0.05, first_wait=10.0).resolve(NAME, A)
        assert answer == Answer(A, failure=LookupFailure.TIMEOUT)
        assert server.count() == 1

    @pytest.mark.parametrize(
        "first", [SERVFAIL, REFUSED, Failure(dns.rcode.FORMERR)], ids=["SERVFAIL", "REFUSED", "FORMERR"]
    )
    async def test_the_second_server_is_asked_when_the_first_is_no_use(
        self, server: ScriptedDns, first: Outcome
    ) -> None:
        server.script(NAME, "A", first)
        async with ScriptedDns() as second:
            second.script(NAME, "A", GOOD)
            assert await client_of(server, second).resolve(NAME, A) == Answer(A, ("198.51.100.7",))
            assert (server.count(), second.count()) == (1, 1)

    async def test_a_silent_first_server_does_not_hide_the_second(self, server: ScriptedDns) -> None:
        server.script(NAME, "A", Drop())
        async with ScriptedDns() as second:
            second.script(NAME, "A", GOOD)
            client = client_of(server, second, first_wait=0.05)
            assert await client.resolve(NAME, A) == Answer(A, ("198.51.100.7",))

    async def test_a_server_that_is_not_there_is_passed_over_at_once(self, server: ScriptedDns) -> None:
        server.script(NAME, "A", GOOD)
        gone = Nameserver("127.0.0.1", free_port())
        client = DnsClient([gone, Nameserver(server.host, server.port)], 10.0, 10.0)
        assert await client.resolve(NAME, A) == Answer(A, ("198.51.100.7",))
        alone = DnsClient([gone], 10.0, 10.0)
        assert await alone.resolve(NAME, A) == Answer(A, failure=LookupFailure.UNREACHABLE)

    async def test_no_such_name_is_final(self, server: ScriptedDns) -> None:
        async with ScriptedDns() as second:
            answer = await client_of(server, second).resolve("none.example", A)
            assert answer == Answer(A, failure=LookupFailure.NXDOMAIN)
            assert (server.count(), second.count()) == (1, 0)

    async def test_a_useless_server_is_asked_once_and_its_reason_kept(self, server: ScriptedDns) -> None:
        server.script(NAME, "A", REFUSED)
        async with ScriptedDns() as silent:
            silent.script(NAME, "A", Drop())
            answer = await client_of(server, silent, limit=0.5, first_wait=0.01).resolve(NAME, A)
            assert answer == Answer(A, failure=LookupFailure.REFUSED)
            assert (server.count(), silent.count()) == (1, 3)


async def test_an_ipv6_nameserver() -> None:
    async with ScriptedDns("::1") as server:
        server.script(NAME, "A", Truncated(GOOD))
        assert await client_of(server).resolve(NAME, A) == Answer(A, ("198.51.100.7",))
        assert [query.transport for query in server.queries] == [Transport.UDP, Transport.TCP]


async def test_ids_and_source_ports_are_not_constant(server: ScriptedDns) -> None:
    server.script(NAME, "A", GOOD)
    for _ in range(8):
        await client_of(server).resolve(NAME, A)
    assert len({query.message_id for query in server.queries}) > 4
    assert len({query.source_port for query in server.queries}) > 4
    assert all(query.recursion_desired for query in server.queries)


async def test_names_are_absolute_and_the_machine_has_no_say(
    server: ScriptedDns, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Case 32: no search domain, no hosts file, no proxy variable, no C library."""

    def never(*args: object, **kwargs: object) -> None:
        raise AssertionError("the system's resolver was asked")

    for function in ("getaddrinfo", "gethostbyname", "gethostbyname_ex"):
        monkeypatch.setattr(socket, function, never)
    monkeypatch.setenv("LOCALDOMAIN", "corp.example")
    monkeypatch.setenv("RES_OPTIONS", "ndots:9")
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")
    for name in ("intranet", "ip6-loopback", "host.docker.internal", socket.gethostname()):
        assert (await client_of(server).resolve(name, A)).failure is LookupFailure.NXDOMAIN
        assert {query.name for query in server.queries} == {name}
        server.forget_queries()


async def test_octets_go_out_as_they_are(server: ScriptedDns) -> None:
    name = "b\\c\x00\xfc.example"
    await client_of(server).resolve(name, A)
    labels = [*name.encode().split(b"."), b""]
    assert server.queries[0].name == dns.name.Name(labels).to_text(omit_final_dot=True)


async def test_surplus_addresses_are_said_in_the_debug_log(
    server: ScriptedDns, caplog: pytest.LogCaptureFixture
) -> None:
    server.script(NAME, "A", Addresses(*numbered(65)))
    with caplog.at_level(logging.DEBUG, "proxy_addons.resolve"):
        await client_of(server).resolve(NAME, A)
    assert "a.example A: 1 addresses beyond the first 64" in caplog.messages


@pytest.mark.parametrize("outcome", [Drop(), Truncated(Drop())], ids=["over UDP", "over TCP"])
async def test_cancelling_a_look_up_closes_its_socket(server: ScriptedDns, outcome: Outcome) -> None:
    server.script(NAME, "A", outcome)
    open_before = _open_files()
    task = asyncio.ensure_future(client_of(server).resolve(NAME, A))
    await server.wait_queries(2 if isinstance(outcome, Truncated) else 1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not [fd for fd in _open_files() - open_before if _is_client_socket(fd, server.port)]


def _open_files() -> set[int]:
    return {int(path.name) for path in Path("/proc/self/fd").iterdir()}


def _is_client_socket(fd: int, port: int) -> bool:
    try:
        with socket.socket(fileno=os.dup(fd)) as sock:
            return bool(sock.getpeername()[1] == port)
    except (OSError, IndexError, TypeError):
        return False


async def test_a_late_answer_is_taken_within_the_limit(server: ScriptedDns) -> None:
    gate = Gate()
    server.script(NAME, "A", Delayed(gate, GOOD))
    task = asyncio.ensure_future(client_of(server).resolve(NAME, A))
    await server.wait_queries(1)
    assert not task.done()
    gate.open()
    assert await task == Answer(A, ("198.51.100.7",))


async def test_a_fault_of_our_own_is_a_failed_look_up(
    server: ScriptedDns, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*args: object) -> None:
        raise RuntimeError("bug")

    monkeypatch.setattr(dns_client, "_parse_answer_section", broken)
    server.script(NAME, "A", GOOD)
    assert await client_of(server).resolve(NAME, A) == Answer(A, failure=LookupFailure.INTERNAL)
    assert "failed inside the resolver" in caplog.text


def test_no_nameserver_is_an_error_at_once() -> None:
    with pytest.raises(ValueError, match="at least one nameserver"):
        DnsClient([])


# -- the reply parser by itself

QUERY = dns_client._Query(4711, dns_client._render_question((b"a", b"example"), A), (b"a", b"example"), A)
LABEL = st.text("ab-_Z", min_size=1, max_size=5)
HOSTS = st.builds(lambda labels: ".".join(labels) + ".", st.lists(LABEL, min_size=1, max_size=3))


@given(st.binary(max_size=200), st.booleans())
def test_any_bytes_are_a_result_or_malformed(tail: bytes, ours: bool) -> None:
    head = b"\x12\x67\x80\x00\x00\x01\x00\x05\x00\x00\x00\x00" + QUERY.question if ours else b""
    try:
        reply = dns_client._parse_reply(head + tail, QUERY)
    except dns_client._MalformedError:
        assert ours
    else:
        assert reply is None or isinstance(reply, (Answer, dns_client._Truncated))


@given(
    st.lists(
        st.tuples(HOSTS, st.sampled_from(["A", "CNAME", "AAAA", "TXT"]), HOSTS, st.integers(0, 255)),
        max_size=8,
    )
)
def test_reads_an_answer_section_as_dnspython_does(records: list[tuple[str, str, str, int]]) -> None:
    query = dns.message.make_query("a.example.", "A", id=4711)
    reply = dns.message.make_response(query)
    for owner, rtype, target, octet in [("A.Example.", "CNAME", "b.", 0), *records]:
        data = {"A": f"192.0.2.{octet}", "AAAA": f"::{octet:x}", "CNAME": target, "TXT": "x"}[rtype]
        rrset = reply.find_rrset(
            reply.answer,
            dns.name.from_text(owner),
            dns.rdataclass.IN,
            dns.rdatatype.from_text(rtype),
            create=True,
        )
        if rtype != "CNAME" or not len(rrset):
            rrset.add(dns.rdata.from_text("IN", rtype, data))
    wire = reply.to_wire()
    theirs = dns.message.from_wire(wire)
    assert isinstance(theirs, dns.message.QueryMessage)
    ours = dns_client._parse_reply(wire, QUERY)
    try:
        rrset_found = theirs.resolve_chaining().answer
    except dns.message.ChainTooLong:
        assert ours == Answer(A, failure=LookupFailure.CNAME_CHAIN)
    else:
        found = () if rrset_found is None else tuple(str(record) for record in rrset_found)
        assert ours == Answer(A, found)


@pytest.mark.parametrize(
    ("labels", "is_read"),
    [
        pytest.param(16, True, id="a name as long as any in use"),
        pytest.param(110, False, id="nearly as many labels as a name can have"),
    ],
)
def test_names_are_read_again_and_again_up_to_a_bound(labels: int, is_read: bool) -> None:
    """Records of twelve octets that point to one long name: each time it is read as a whole."""
    alias = b"\1x" * labels + b"\0"
    head = b"\x12\x67\x80\x00\x00\x01" + MAX_RECORDS.to_bytes(2) + bytes(4) + QUERY.question
    first = b"\xc0\x0c" + b"\0\5\0\1" + bytes(4) + len(alias).to_bytes(2) + alias
    pointer = (0xC000 + len(head) + 12).to_bytes(2)
    address = pointer + b"\0\1\0\1" + bytes(4) + b"\0\4" + bytes((198, 51, 100, 7))
    wire = head + first + address * (MAX_RECORDS - 1)

    if is_read:
        found = dns_client._parse_reply(wire, QUERY)
        assert isinstance(found, Answer)
        assert found.addresses[:1] == ("198.51.100.7",)
    else:
        with pytest.raises(dns_client._MalformedError):
            dns_client._parse_reply(wire, QUERY)
