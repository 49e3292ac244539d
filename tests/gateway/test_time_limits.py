"""Time limits (SPEC 1 and 1.7): what takes too long ends, on both sides, and says so in the audit.

No assertion is about how long something took. A silent peer must find the connection closed, an origin must find it
closed too; where the gateway failed to, the client's own patience ends the test in red. A test walks all its ways at
once, for they wait, each on a path of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from tests.gateway.expect import contacts, ended, forget
from tests.gateway.paths import (
    ABSOLUTE,
    ALL,
    HTTP1,
    OPEN,
    WEBSOCKET_FIELDS,
    Ask,
    Entry,
    listener_tls,
    send,
    tunnel,
)
from tests.gateway.side_by_side import at_once
from tests.kit import replies
from tests.kit.client import RawConnection, Response
from tests.kit.client_h2 import H2Client, StreamResetError
from tests.kit.dns import Addresses, Delayed, Drop
from tests.kit.exchange import Exchange, Route
from tests.kit.gateway import NAMES, ORIGIN_ADDRESS, World
from tests.kit.listener import BlackHole
from tests.kit.sync import Gate

SHORT = 1.0
LONG = 30.0
HOLE_ADDRESS = "127.0.0.11"


class SlowWorld(World):
    """Names that lead nowhere: `hole.example` to an address that never connects."""

    hole: BlackHole

    def __enter__(self) -> SlowWorld:
        self.hole = self._stack.enter_context(BlackHole(HOLE_ADDRESS))
        super().__enter__()
        self.dns.host_addresses("hole.example", HOLE_ADDRESS)
        return self

    def config(self) -> dict[str, Any]:
        config = super().config()
        for profile in config["profiles"].values():
            profile["ports"] = [*profile["ports"], self.hole.port]
            profile["exceptions"] = [
                {"host": "*.example", "address": address} for address in (ORIGIN_ADDRESS, HOLE_ADDRESS)
            ]
        return config


@pytest.fixture(scope="module")
def short_hops(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlowWorld]:
    """`open`: short look-up, connect and whole time. `test`: all of them long."""
    profiles = {
        "open": {"lookup_timeout": LONG, "connect_timeout": LONG, "total_timeout": SHORT},
        "look": {"lookup_timeout": SHORT, "connect_timeout": LONG, "total_timeout": LONG},
        "dial": {"lookup_timeout": LONG, "connect_timeout": SHORT, "total_timeout": LONG},
        "test": {"lookup_timeout": LONG, "connect_timeout": LONG, "total_timeout": LONG},
    }
    with SlowWorld(
        tmp_path_factory.mktemp("hops"), profiles=profiles, listeners=("test", "open", "look", "dial")
    ) as world:
        yield world


@pytest.fixture
def hops(short_hops: SlowWorld) -> SlowWorld:
    forget(short_hops)
    for name in NAMES:
        short_hops.dns.host_addresses(name, ORIGIN_ADDRESS)
    return short_hops


PATIENT, HASTY, LOOK, DIAL = 0, OPEN, 2, 3


# --- the origin's side ------------------------------------------------------------------------------------------


def answered(answers: Mapping[Entry, Response]) -> dict[Entry, tuple[int, str | None]]:
    return {entry: (answer.status, answer.header("fetchd-rule")) for entry, answer in answers.items()}


def close_rules(world: World, answers: Mapping[Entry, Response]) -> dict[Entry, tuple[str, str]]:
    """Verdict and rule of each answer's close line."""
    lines = {line["fetch_id"]: line for line in world.gateway.lines("close")}
    found = {entry: lines[answer.header("fetchd-id")] for entry, answer in answers.items()}
    return {entry: (line["verdict"], line["rule"]) for entry, line in found.items()}


TIME_IS_UP = (504, "total-timeout")
NOT_WEBSOCKET: tuple[Entry, ...] = tuple(entry for entry in ALL if entry is not Entry.WEBSOCKET)
OVER_TLS: tuple[Entry, ...] = tuple(entry for entry in ALL if entry.scheme == "https")


async def test_an_origin_that_never_answers_gives_504_and_is_closed(hops: SlowWorld) -> None:
    for entry in ALL:
        entry.origin(hops).route(f"/silent/{entry}", replies.silent(Gate()))
    answers = await at_once(ALL, lambda entry: send(hops, entry, Ask(f"/silent/{entry}"), listener=HASTY))
    assert answered(answers) == dict.fromkeys(ALL, TIME_IS_UP)
    await hops.origin.wait_closed()
    await hops.plain.wait_closed()
    assert close_rules(hops, answers) == dict.fromkeys(ALL, ("refused", "total-timeout"))


async def test_an_origin_that_answers_late_but_in_time_is_not_cut(hops: SlowWorld) -> None:
    gate = Gate()
    hops.origin.route("/late", replies.silent(gate, replies.text("late")))
    entries: list[Entry] = [entry for entry in OVER_TLS if entry is not Entry.WEBSOCKET]
    asked = asyncio.create_task(
        at_once(entries, lambda entry: send(hops, entry, Ask("/late"), listener=PATIENT))
    )
    await hops.origin.wait_requests(len(entries))
    gate.open()
    answers = await asked
    assert answered(answers) == dict.fromkeys(entries, (200, None))
    assert hops.origin.accepts == len(entries)


@pytest.mark.parametrize("shape", ["a head and then nothing", "a body that never ends"])
async def test_a_body_past_the_whole_time_is_cut_so_that_the_client_sees_it(
    hops: SlowWorld, shape: str
) -> None:
    for origin in (hops.origin, hops.plain):
        origin.route("/head", replies.headers_only(Gate()))
        origin.route("/drip", drip())
    path = "/head" if shape.startswith("a head") else "/drip"
    answers = await at_once(NOT_WEBSOCKET, lambda entry: send_and_be_cut(hops, entry, path))
    assert answered(answers) == dict.fromkeys(NOT_WEBSOCKET, (200, None))
    assert not any(answer.complete for answer in answers.values())
    await hops.origin.wait_closed()
    await hops.plain.wait_closed()
    assert close_rules(hops, answers) == dict.fromkeys(NOT_WEBSOCKET, ("refused", "total-timeout"))


def send_and_be_cut(world: World, entry: Entry, path: str) -> Response:
    try:
        return send(world, entry, Ask(path), listener=HASTY)
    except StreamResetError as error:
        if entry is not Entry.CONNECT_H2 or error.response is None:
            raise
        return error.response


def drip() -> Route:
    """A chunk at a time, without end."""

    async def route(exchange: Exchange) -> None:
        await replies.start_chunked(exchange, [("content-type", "text/html")])
        while True:
            await replies.send_chunk(exchange, b".")
            await asyncio.sleep(0.01)

    return route


async def test_an_origin_that_never_finishes_its_handshake_gives_504_and_is_closed(hops: SlowWorld) -> None:
    held = hops.origin.hold_handshake = Gate()
    try:
        answers = await at_once(OVER_TLS, lambda entry: send(hops, entry, Ask(), listener=HASTY))
    finally:
        hops.origin.hold_handshake = None
        held.open()
    assert answered(answers) == dict.fromkeys(OVER_TLS, TIME_IS_UP)
    await hops.origin.wait_closed()
    assert (hops.origin.accepts, hops.origin.requests) == (len(OVER_TLS), [])


async def test_a_name_server_that_never_answers_gives_dns_failed_and_no_connect(hops: SlowWorld) -> None:
    for rtype in ("A", "AAAA"):
        hops.dns.script("a.example", rtype, Drop())
    answers = await at_once(OVER_TLS, lambda entry: send(hops, entry, Ask(), listener=LOOK))
    assert {answer.header("fetchd-rule") for answer in answers.values()} <= {"dns-failed", "upgrade"}
    waited: dict[Entry, Response] = {
        entry: answer for entry, answer in answers.items() if entry is not Entry.WEBSOCKET
    }
    assert answered(waited) == dict.fromkeys(waited, (502, "dns-failed"))
    assert contacts(hops).connects == 0


async def test_the_whole_time_bounds_a_look_up_whose_own_limit_is_longer(hops: SlowWorld) -> None:
    for rtype in ("A", "AAAA"):
        hops.dns.script("a.example", rtype, Drop())
    answers = await at_once(ALL, lambda entry: send(hops, entry, Ask(), listener=HASTY))
    assert answered(answers) == dict.fromkeys(ALL, TIME_IS_UP)
    assert contacts(hops).connects == 0


@pytest.mark.parametrize(
    ("silent", "rule", "connects"),
    [("AAAA", None, 1), ("A", "dns-failed", 0)],
    ids=["AAAA", "A, the only useful one"],
)
def test_one_record_type_that_never_answers(
    hops: SlowWorld, silent: str, rule: str | None, connects: int
) -> None:
    hops.dns.script("a.example", silent, Drop())
    answer = send(hops, Entry.ABSOLUTE_HTTPS, Ask(), listener=LOOK)
    assert (answer.header("fetchd-rule"), contacts(hops).connects) == (rule, connects)


async def test_an_address_that_never_connects_gives_connect_timeout(hops: SlowWorld) -> None:
    entries: list[Entry] = [entry for entry in OVER_TLS if entry is not Entry.WEBSOCKET]
    ask = Ask(host="hole.example", port=hops.hole.port)
    answers = await at_once(entries, lambda entry: send(hops, entry, ask, listener=DIAL))
    assert answered(answers) == dict.fromkeys(entries, (504, "connect-timeout"))
    assert {answer.json()["detail"] for answer in answers.values()} == {
        "connecting to hole.example timed out"
    }
    for answer in answers.values():
        (line,) = hops.gateway.decisions(fetch_id=answer.header("fetchd-id"))
        assert (line["verdict"], line["addresses"]["dialled"]) == ("allowed", None)
    assert close_rules(hops, answers) == dict.fromkeys(entries, ("refused", "connect-timeout"))


async def test_the_whole_time_bounds_a_connect_whose_own_limit_is_longer(hops: SlowWorld) -> None:
    ask = Ask(host="hole.example", port=hops.hole.port)
    answers = await at_once(ALL, lambda entry: send(hops, entry, ask, listener=HASTY))
    assert answered(answers) == dict.fromkeys(ALL, TIME_IS_UP)


async def test_a_request_body_that_never_ends_is_answered_and_closed(hops: SlowWorld) -> None:
    # TLS in TLS is left out: the kit's sends whole requests only, and its layer is that of connect-h1.
    entries: list[Entry] = [e for e in HTTP1 if e not in (Entry.WEBSOCKET, Entry.TLS_LISTENER_CONNECT)]
    answers = await at_once(entries, lambda entry: begin_upload(hops, entry))
    assert answered(answers) == dict.fromkeys(entries, TIME_IS_UP)
    assert {answer.header("connection") for answer in answers.values()} == {"close"}
    await hops.origin.wait_closed()
    assert hops.origin.requests == hops.plain.requests == []


def begin_upload(world: World, entry: Entry) -> Response:
    ask, fields = Ask("/upload"), [("Content-Length", "1000")]
    authority = ask.authority(world, entry)
    with world.gateway.open(HASTY) as proxy:
        if entry in ABSOLUTE:
            inside = listener_tls(world, proxy) if entry is Entry.TLS_LISTENER else proxy
            inside.request("POST", f"{entry.scheme}://{authority}/upload", authority, fields)
            inside.send(b"half")
            return inside.read_response("POST")
        with tunnel(world, proxy, entry, ask) as inside_tunnel:
            assert isinstance(inside_tunnel, RawConnection)
            inside_tunnel.request("POST", "/upload", authority, fields)
            inside_tunnel.send(b"half")
            return inside_tunnel.read_response("POST")


@pytest.mark.parametrize("scheme", ["wss", "ws"])
async def test_a_websocket_ends_with_the_whole_time_on_both_sides(hops: SlowWorld, scheme: str) -> None:
    origin = hops.origin if scheme == "wss" else hops.plain
    origin.route("/ws", replies.upgrade("websocket", [("sec-websocket-accept", ACCEPT)]))

    def use() -> tuple[int, bytes]:
        with hops.gateway.open(HASTY) as proxy:
            if scheme == "ws":
                authority = Ask().authority(hops, Entry.ABSOLUTE_HTTP)
                proxy.request("GET", f"http://{authority}/ws", authority, WEBSOCKET_FIELDS)
                return proxy.read_response().status, ended(proxy)
            with tunnel(hops, proxy, Entry.WEBSOCKET, Ask()) as inside:
                assert isinstance(inside, RawConnection)
                inside.request("GET", "/ws", Ask().authority(hops, Entry.WEBSOCKET), WEBSOCKET_FIELDS)
                return inside.read_response().status, ended(inside)

    assert await asyncio.to_thread(use) == (101, b"")
    await origin.wait_closed()
    assert origin.accepts == 1
    assert [line["rule"] for line in hops.gateway.lines("close")][-1] == "total-timeout"


ACCEPT = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="


# --- a client that is gone --------------------------------------------------------------------------------------


LEAVING = {"FIN": RawConnection.close, "RST": RawConnection.abort}


@pytest.mark.parametrize("how", LEAVING)
@pytest.mark.parametrize("moment", ["before the head", "within the body"])
async def test_a_client_that_leaves_has_its_origin_closed_at_once(
    hops: SlowWorld, moment: str, how: str
) -> None:
    """The profile's limits are long: only the client's leaving can close the origin."""
    hops.origin.route("/silent", replies.silent(Gate()))
    hops.origin.route("/endless", replies.endless())
    path = "/silent" if moment == "before the head" else "/endless"
    for open_request in (begin_absolute, begin_tunnel):
        with hops.gateway.open(PATIENT) as proxy:
            inside = await asyncio.to_thread(open_request, hops, proxy, path)
            await hops.origin.wait_requests(1)
            if path == "/endless":
                await asyncio.to_thread(inside.receive)
            LEAVING[how](inside if how == "RST" else proxy)
        await hops.origin.wait_closed()
        assert hops.origin.accepts == 1
        hops.origin.forget()


def begin_absolute(world: World, proxy: RawConnection, path: str) -> RawConnection:
    proxy.request("GET", world.url(path), world.authority())
    return proxy


def begin_tunnel(world: World, proxy: RawConnection, path: str) -> RawConnection:
    assert proxy.connect(world.authority()).status == 200
    inside = proxy.start_tls("a.example", world.gateway.ca_path)
    inside.request("GET", path, world.authority())
    return inside


async def test_a_reset_stream_closes_its_origin_and_spares_the_others(hops: SlowWorld) -> None:
    hops.origin.route("/silent", replies.silent(Gate()))

    def use() -> None:
        with hops.gateway.open(PATIENT) as proxy, tunnel(hops, proxy, Entry.CONNECT_H2, Ask()) as inside:
            assert isinstance(inside, RawConnection)
            client = H2Client(inside)
            stream = client.request(hops.authority(), "/silent")
            hops.origin._watch.wait_sync(lambda: len(hops.origin.requests) == 1, "the request")
            client.reset(stream)
            hops.origin._watch.wait_sync(lambda: hops.origin.connections[0].ending is not None, "its end")
            assert client.get(hops.authority(), "/other").status == 200

    await asyncio.to_thread(use)


async def test_a_client_that_leaves_during_the_look_up_is_not_dialled_for(hops: SlowWorld) -> None:
    gate = Gate()
    for rtype in ("A", "AAAA"):
        hops.dns.script("b.example", rtype, Delayed(gate, Addresses(ORIGIN_ADDRESS)))
    with hops.gateway.open(PATIENT) as proxy:
        proxy.request("GET", hops.url(host="b.example"), hops.authority("b.example"))
        await hops.dns.wait_queries(2, "b.example")
        proxy.abort()
    await pass_the_time(hops)
    hops.origin.forget()
    gate.open()
    assert (await asyncio.to_thread(send, hops, Entry.ABSOLUTE_HTTPS, Ask(), listener=PATIENT)).status == 200
    assert contacts(hops).connects == 1
    assert hops.origin.connections[0].requests[0].values("host") == [hops.authority()]


async def test_a_client_that_leaves_during_the_origins_handshake_closes_it(hops: SlowWorld) -> None:
    held = hops.origin.hold_handshake = Gate()
    with hops.gateway.open(PATIENT) as proxy:
        proxy.request("GET", hops.url(), hops.authority())
        await hops.origin.wait_connections(1)
        hops.origin.hold_handshake = None
        proxy.abort()
    await pass_the_time(hops)
    held.open()  # the handshake begins only now, and finds its peer gone
    await hops.origin.connections[0].wait_closed()
    assert hops.origin.connections[0].requests == []


async def pass_the_time(world: World) -> None:
    """Whatever comes later to the same worker is served after what came before."""
    for _ in range(2):
        answer = await asyncio.to_thread(send, world, Entry.ABSOLUTE_HTTPS, Ask(), listener=PATIENT)
        assert answer.status == 200
