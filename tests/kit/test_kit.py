"""The kit is itself under test: a server that lies would make every other test worthless."""

from __future__ import annotations

import asyncio
import gzip
import ssl
import zlib
from collections.abc import Callable
from pathlib import Path

import brotli
import dns.flags
import dns.message
import dns.query
import dns.rcode
import pytest
from backports import zstd

from tests.kit import replies
from tests.kit.bodies import Coding, bomb, encode_body
from tests.kit.client import Closing, NoResponseError, RawConnection, Response, open_connection
from tests.kit.client_h2 import H2Client, StreamResetError
from tests.kit.dns import (
    NXDOMAIN,
    SERVFAIL,
    Addresses,
    CnameLoop,
    Delayed,
    Drop,
    Forged,
    Forgery,
    ScriptedDns,
    Transport,
    Truncated,
)
from tests.kit.exchange import Ending
from tests.kit.listener import BlackHole, CountingListener
from tests.kit.origin import Origin
from tests.kit.pki import H2, Pki
from tests.kit.ports import free_port
from tests.kit.sync import Gate


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    return Pki(tmp_path_factory.mktemp("pki"))


def ask(server: ScriptedDns, name: str, rtype: str, transport: str = "udp") -> dns.message.Message:
    send = dns.query.udp if transport == "udp" else dns.query.tcp
    return send(dns.message.make_query(name, rtype), server.host, port=server.port, timeout=5)


def addresses_in(message: dns.message.Message) -> list[str]:
    return [str(record) for rrset in message.answer for record in rrset if rrset.rdtype in (1, 28)]


class TestScriptedDns:
    def test_answers_by_type_counts_queries_and_takes_outcomes_in_turn(self) -> None:
        with ScriptedDns() as server:
            server.host_addresses("A.example", "192.0.2.1", "2001:db8::1")
            server.script("flip.example", "A", Addresses("192.0.2.1"), Addresses("127.0.0.1"))
            server.script("bad.example", "A", SERVFAIL)
            assert addresses_in(ask(server, "a.EXAMPLE", "A")) == ["192.0.2.1"]
            assert addresses_in(ask(server, "a.example", "AAAA")) == ["2001:db8::1"]
            flips = [addresses_in(ask(server, "flip.example", "A")) for _ in range(3)]
            assert flips == [["192.0.2.1"], ["127.0.0.1"], ["127.0.0.1"]]
            assert ask(server, "flip.example", "AAAA").rcode() == dns.rcode.NOERROR
            assert ask(server, "bad.example", "A").rcode() == dns.rcode.SERVFAIL
            assert ask(server, "unknown.example", "A").rcode() == dns.rcode.NXDOMAIN
            assert (server.count(), server.count("flip.example"), server.count("flip.example", "A")) == (
                8,
                4,
                3,
            )

    def test_truncation_on_purpose_and_by_size_then_tcp_on_the_same_port(self) -> None:
        many = tuple(f"192.0.{n // 250}.{n % 250}" for n in range(300))
        with ScriptedDns() as server:
            server.script("tc.example", "A", Truncated(Addresses("192.0.2.7")))
            server.script("many.example", "A", Addresses(*many))
            for name, number in (("tc.example", 1), ("many.example", 300)):
                assert ask(server, name, "A").flags & dns.flags.TC
                assert len(addresses_in(ask(server, name, "A", "tcp"))) == number
            assert [query.transport for query in server.queries] == [Transport.UDP, Transport.TCP] * 2

    def test_cname_chain_and_loop(self) -> None:
        with ScriptedDns() as server:
            server.script("www.example", "A", Addresses("192.0.2.1", via=("x.example", "y.example")))
            server.script("loop.example", "A", CnameLoop())
            assert len(ask(server, "www.example", "A").answer) == 3
            assert len(ask(server, "loop.example", "A").answer) == 2

    def test_drop_delay_and_forgery(self) -> None:
        gate = Gate()
        with ScriptedDns() as server:
            server.script("slow.example", "A", Delayed(gate, Addresses("192.0.2.1")))
            server.script("drop.example", "A", Drop())
            server.script(
                "lie.example", "A", Forged(Forgery.WRONG_ID, Addresses("203.0.113.9"), Addresses("192.0.2.1"))
            )
            with pytest.raises(dns.exception.Timeout):
                dns.query.udp(
                    dns.message.make_query("drop.example", "A"), server.host, port=server.port, timeout=0.05
                )
            gate.open()
            assert addresses_in(ask(server, "slow.example", "A")) == ["192.0.2.1"]
            with pytest.raises(dns.query.BadResponse):
                ask(server, "lie.example", "A")

    def test_the_default_outcome_can_be_an_internal_address_for_every_name(self) -> None:
        with ScriptedDns(default=Addresses("169.254.169.254")) as server:
            assert addresses_in(ask(server, "anything.example", "A")) == ["169.254.169.254"]
            server.script("known.example", "A", NXDOMAIN)
            assert ask(server, "known.example", "A").rcode() == dns.rcode.NXDOMAIN


def fetch(origin: Origin, path: str, method: str = "GET") -> Response:
    with open_connection(origin.host, origin.port) as client:
        client.request(method, path, "a.example")
        return client.read_response(method)


class TestOrigin:
    async def test_records_connections_requests_and_how_they_ended(self) -> None:
        async with Origin("127.0.0.10") as origin:
            assert (await asyncio.to_thread(fetch, origin, "/x?y")).body == b"hello /x?y\n"
            client = open_connection(origin.host, origin.port)
            await origin.wait_connections(2)
            client.abort()
            await origin.wait_closed()
            first, second = origin.connections
            assert first.requests[0].headers == (("Host", "a.example"),)
            assert bytes(first.received) == b"GET /x?y HTTP/1.1\r\nHost: a.example\r\n\r\n"
            assert (first.ending, second.ending) == (Ending.PEER_FIN, Ending.PEER_RESET)

    def test_request_bodies_chunked_and_measured_are_told_apart(self) -> None:
        with Origin() as origin, open_connection(origin.host, origin.port) as client:
            client.request("POST", "/a", "a.example", body=b"one")
            client.read_response("POST")
            client.request("POST", "/b", "a.example", [("Transfer-Encoding", "chunked")])
            client.send(b"3\r\ntwo\r\n0\r\n\r\n")
            client.read_response("POST")
            assert [(request.path, request.body) for request in origin.requests] == [
                ("/a", b"one"),
                ("/b", b"two"),
            ]

    def test_ready_made_replies(self) -> None:
        with Origin() as origin:
            origin.route("/r", replies.redirect("/next", 307))
            origin.route("/j", replies.json({"a": 1}))
            origin.route("/c", replies.chunked([b"ab", b"cd"]))
            origin.route("/n", replies.no_length(b"all"))
            origin.route("/e", replies.informational_first([103, 100], replies.page("late")))
            origin.route("/gz", replies.encoded(b"zip me", Coding.DEFLATE, Coding.GZIP))
            assert fetch(origin, "/r").header("location") == "/next"
            assert fetch(origin, "/j").json() == {"a": 1}
            assert fetch(origin, "/c").body == b"abcd"
            assert fetch(origin, "/n").body == b"all"
            early = fetch(origin, "/e")
            assert (early.informational, early.body) == ((103, 100), b"late")
            zipped = fetch(origin, "/gz")
            assert zipped.body == encode_body(b"zip me", Coding.DEFLATE, Coding.GZIP)
            assert zipped.header("content-encoding") == "deflate, gzip"
            assert fetch(origin, "/j", "HEAD").body == b""

    def test_broken_bodies_are_incomplete_at_a_strict_client(self) -> None:
        with Origin() as origin:
            origin.route("/chunk", replies.broken_chunk())
            origin.route("/cut", replies.chunked([b"part"], finish=False))
            origin.route("/short", replies.close_mid_body(b"part"))
            origin.route("/reset", replies.close_mid_body(b"", reset=True))
            answers = [fetch(origin, path) for path in ("/chunk", "/cut", "/short", "/reset")]
            assert [answer.complete for answer in answers] == [False] * 4
            origin.route("/nothing", replies.wire(b""))
            with pytest.raises(NoResponseError) as ended:
                fetch(origin, "/nothing")
            assert ended.value.closing is Closing.FIN

    async def test_trickle_endless_and_headers_only_wait_for_the_test(self) -> None:
        gates = [Gate(), Gate()]
        async with Origin() as origin:
            origin.route("/t", replies.trickle([b"1", b"2"], gates))
            origin.route("/endless", replies.endless())
            with open_connection(origin.host, origin.port) as client:
                client.request("GET", "/t", "a.example")
                assert b"200" in await asyncio.to_thread(client.receive)
                gates[0].open()
                assert await asyncio.to_thread(client.receive) == b"1\r\n1\r\n"
                gates[1].open()
            with open_connection(origin.host, origin.port) as client:
                client.request("GET", "/endless", "a.example")
                assert await asyncio.to_thread(client.receive)
            await origin.wait_closed()
            assert origin.connections[1].ending in (Ending.PEER_FIN, Ending.PEER_RESET)

    def test_upgrade_echoes(self) -> None:
        with Origin() as origin, open_connection(origin.host, origin.port) as client:
            origin.route("/up", replies.upgrade("odd"))
            client.request("GET", "/up", "a.example", [("Connection", "upgrade"), ("Upgrade", "odd")])
            assert client.read_response().status == 101
            client.send(b"ping")
            assert client.receive() == b"ping"

    def test_tls_names_and_h2_by_alpn(self, pki: Pki) -> None:
        with Origin(tls=pki.server_context("a.example", alpn=H2)) as origin:
            origin.route("/big", replies.page("x" * 300_000))
            origin.route("/cut", replies.chunked([b"part"], finish=False))
            with open_connection(origin.host, origin.port) as raw:
                client = H2Client(raw.start_tls("a.example", pki.ca_path, ["h2"]))
                assert client.get("a.example", "/one").body == b"hello /one\n"
                assert len(client.get("a.example", "/big").body) == 300_000
                with pytest.raises(StreamResetError) as cut:
                    client.get("a.example", "/cut")
                assert cut.value.response is not None
                assert cut.value.response.body == b"part"
            connection = origin.connections[0]
            assert (connection.sni, connection.alpn, connection.tls) == ("a.example", "h2", True)
            assert [request.version for request in origin.requests] == ["h2"] * 3

    def test_no_sni_is_recorded_as_none(self, pki: Pki) -> None:
        with Origin(tls=pki.server_context("a.example")) as origin:
            with open_connection(origin.host, origin.port) as raw:
                tunnel = raw.start_tls(None, pki.ca_path)
                assert tunnel.get("/", "a.example").status == 200
            assert origin.connections[0].sni is None

    @pytest.mark.parametrize("kind", ["wrong name", "expired", "unknown ca", "self signed"])
    def test_bad_certificates_are_refused_by_a_strict_client(self, pki: Pki, kind: str) -> None:
        context = {
            "wrong name": pki.wrong_name_context,
            "expired": lambda: pki.expired_context("a.example"),
            "unknown ca": lambda: pki.unknown_ca_context("a.example"),
            "self signed": lambda: pki.self_signed_context("a.example"),
        }[kind]()
        with Origin(tls=context) as origin:
            with (
                open_connection(origin.host, origin.port) as raw,
                pytest.raises(ssl.SSLCertVerificationError),
            ):
                raw.start_tls("a.example", pki.ca_path)
            assert (origin.accepts, origin.requests) == (1, [])

    async def test_a_held_handshake_counts_as_an_accept(self, pki: Pki) -> None:
        async with Origin(tls=pki.server_context("a.example")) as origin:
            origin.hold_handshake = Gate()
            with open_connection(origin.host, origin.port) as raw:
                await origin.wait_connections(1)
                origin.hold_handshake.open()
                tunnel: RawConnection = await asyncio.to_thread(raw.start_tls, "a.example", pki.ca_path)
                assert tunnel.alpn == "http/1.1"


class TestListeners:
    def test_counts_accepts_and_bytes_without_a_thread(self) -> None:
        with CountingListener("127.0.0.11") as listener:
            assert (listener.accepts, listener.received) == (0, 0)
            with (
                open_connection(listener.host, listener.port) as one,
                open_connection(listener.host, listener.port),
            ):
                one.send(b"12345")
                assert (listener.accepts, listener.received) == (2, 5)

    def test_a_black_hole_never_finishes_a_connect(self) -> None:
        with BlackHole("127.0.0.12") as hole, pytest.raises(TimeoutError):
            open_connection(hole.host, hole.port, 0.1)

    def test_one_port_free_on_several_addresses(self) -> None:
        port = free_port("127.0.0.13", "127.0.0.14", "::1")
        with CountingListener("127.0.0.13", port), CountingListener("::1", port) as v6:
            assert v6.port == port


@pytest.mark.parametrize(
    ("coding", "inflate"),
    [
        (Coding.GZIP, gzip.decompress),
        (Coding.DEFLATE, zlib.decompress),
        (Coding.RAW_DEFLATE, lambda data: zlib.decompress(data, -15)),
        (Coding.BR, brotli.decompress),
        (Coding.ZSTD, zstd.decompress),
    ],
)
def test_bodies_and_bombs_inflate_to_what_they_say(coding: Coding, inflate: Callable[[bytes], bytes]) -> None:
    packed = bomb(coding, (3 << 20) + 5)
    assert len(packed) < 40_000
    assert inflate(packed) == bytes((3 << 20) + 5)
    assert inflate(encode_body(b"text", coding)) == b"text"


def test_the_package_says_what_it_holds() -> None:
    import tests.kit

    modules = {path.stem for path in Path(tests.kit.__file__ or "").parent.glob("[a-z]*.py")}
    listed = {line.split()[0] for line in (tests.kit.__doc__ or "").splitlines() if line.startswith("    ")}
    assert listed >= modules - {"test_kit", "exchange", "origin_h2", "client_h2"}
