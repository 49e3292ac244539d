"""The byte cap on the wire (SPEC 1.8): decompressed bytes are counted on every way, in every form of body.

The client of a cut answer must be able to see the cut: HTTP/1 ends without the last chunk or short of the declared
length, HTTP/2 by a reset stream.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from proxy_addons.policy.wire import DaemonRequest, render_daemon_fields
from tests.gateway.expect import contacts, forget
from tests.gateway.lines import wait_line, wait_lines
from tests.gateway.paths import OPEN, Ask, Entry, send, tunnel
from tests.kit import replies
from tests.kit.bodies import Coding, content_encoding, encode_body
from tests.kit.client import Response
from tests.kit.client_h2 import H2Client, StreamResetError
from tests.kit.exchange import Ending, Exchange, Route
from tests.kit.gateway import SECRET, World
from tests.kit.sync import Gate

CAP = 100_000
HTML, FLAT = "text/html; charset=utf-8", "text/plain; charset=utf-8"
WAYS = (Entry.ABSOLUTE_HTTP, Entry.ABSOLUTE_HTTPS, Entry.CONNECT_H1, Entry.CONNECT_H2)


@pytest.fixture(scope="module")
def shared_world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    small = {"byte_cap": CAP}
    with World(tmp_path_factory.mktemp("cap"), profiles={"test": small, "open": small}) as world:
        yield world


@pytest.fixture(scope="module")
def shared_h2_world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """As above, with an origin that speaks HTTP/2."""
    small = {"byte_cap": CAP}
    with World(
        tmp_path_factory.mktemp("cap-h2"),
        profiles={"open": small},
        listeners=("test", "open"),
        alpn=("h2", "http/1.1"),
    ) as world:
        yield world


def page_of(size: int) -> bytes:
    """`size` bytes that pack well, no two lines alike."""
    lines = b"".join(b"line %d of a long page\n" % number for number in range(size // 15 + 1))
    return lines[:size]


def _encoded(*codings: Coding) -> Callable[[bytes], Route]:
    return lambda body: replies.encoded(body, *codings)


def _members(body: bytes) -> Route:
    parts = (body[:1000], body[1000:50_000], body[50_000:])
    return replies.body_as_is(b"".join(encode_body(part, Coding.GZIP) for part in parts), "gzip")


def _in_chunks(*codings: Coding, size: int = 7919) -> Callable[[bytes], Route]:
    def make(body: bytes) -> Route:
        packed = encode_body(body, *codings)
        fields = [("content-type", HTML)]
        if codings:
            fields.append(("content-encoding", content_encoding(*codings)))
        return replies.chunked([packed[at : at + size] for at in range(0, len(packed), size)], fields)

    return make


FORMS: dict[str, Callable[[bytes], Route]] = {
    "flat text of a declared length": lambda body: replies.answer(200, body, FLAT),
    "chunks": _in_chunks(),
    "until the connection closes": lambda body: replies.no_length(body),
    "gzip": _encoded(Coding.GZIP),
    "gzip in chunks": _in_chunks(Coding.GZIP, size=97),
    "gzip of three members": _members,
    "deflate with the zlib wrapper": _encoded(Coding.DEFLATE),
    "deflate without it": _encoded(Coding.RAW_DEFLATE),
    "br": _encoded(Coding.BR),
    "br in chunks": _in_chunks(Coding.BR, size=97),
    "zstd": _encoded(Coding.ZSTD),
    "zstd in chunks": _in_chunks(Coding.ZSTD, size=97),
    "deflate, then gzip": _encoded(Coding.DEFLATE, Coding.GZIP),
    "zstd, then br": _encoded(Coding.ZSTD, Coding.BR),
}


@dataclass(frozen=True, slots=True)
class Cut:
    """An answer that did not come whole."""

    answer: Response | None


def fetch(world: World, entry: Entry, ask: Ask, listener: int = OPEN) -> Response | Cut:
    """The whole answer, or what came of it."""
    try:
        answer = send(world, entry, ask, listener=listener)
    except StreamResetError as reset:
        return Cut(reset.response)
    return answer if answer.complete else Cut(answer)


def close_line(world: World, answer: Response | None) -> dict[str, object]:
    assert answer is not None
    return wait_line(world.gateway, "close", fetch_id=answer.header("fetchd-id"))


@pytest.mark.parametrize("entry", WAYS)
@pytest.mark.parametrize("form", FORMS)
async def test_exactly_the_cap_passes_and_one_byte_more_is_cut(world: World, form: str, entry: Entry) -> None:
    origin = entry.origin(world)
    origin.route("/exact", FORMS[form](page_of(CAP)))
    origin.route("/over", FORMS[form](page_of(CAP + 1)))

    exact = fetch(world, entry, Ask("/exact"))
    assert isinstance(exact, Response) and exact.status == 200
    line = close_line(world, exact)
    assert (line["verdict"], line["rule"], line["decoded_bytes"]) == ("allowed", None, CAP)
    assert line["wire_bytes"] == len(exact.body)

    forget(world)
    over = fetch(world, entry, Ask("/over"))
    assert isinstance(over, Cut) and over.answer is not None and over.answer.status == 200
    line = close_line(world, over.answer)
    assert (line["verdict"], line["rule"]) == ("refused", "byte-cap")
    await origin.wait_closed()
    assert contacts(world).connects == 1


@pytest.mark.parametrize("form", [form for form in FORMS if form != "until the connection closes"])
async def test_an_http2_origin_is_held_to_the_same(shared_h2_world: World, form: str) -> None:
    world, entry = shared_h2_world, Entry.CONNECT_H2
    forget(world)
    world.origin.route("/exact", FORMS[form](page_of(CAP)))
    world.origin.route("/over", FORMS[form](page_of(CAP + 1)))
    exact, over = fetch(world, entry, Ask("/exact")), fetch(world, entry, Ask("/over"))

    assert isinstance(exact, Response) and close_line(world, exact)["decoded_bytes"] == CAP
    assert isinstance(over, Cut) and close_line(world, over.answer)["rule"] == "byte-cap"
    assert {connection.alpn for connection in world.origin.connections} == {"h2"}


async def test_the_cap_of_the_built_in_profile_is_8_mib_to_the_byte(shared_h2_world: World) -> None:
    world = shared_h2_world
    for size, whole in ((8_388_608, True), (8_388_609, False)):
        world.origin.route("/8", replies.encoded(bytes(size), Coding.GZIP))
        answer = fetch(world, Entry.ABSOLUTE_HTTPS, Ask("/8"), listener=0)
        assert isinstance(answer, Response) is whole


async def test_an_endless_body_is_cut_at_the_cap_and_the_origin_let_go(world: World) -> None:
    world.origin.route("/endless", replies.endless())
    cut = fetch(world, Entry.ABSOLUTE_HTTPS, Ask("/endless"))
    assert isinstance(cut, Cut) and cut.answer is not None
    assert len(cut.answer.body) <= CAP
    await world.origin.wait_closed()
    assert world.origin.connections[0].ending in (Ending.PEER_FIN, Ending.PEER_RESET)


@pytest.mark.parametrize("entry", WAYS)
@pytest.mark.parametrize(
    "content_type", [HTML, "application/json", "image/svg+xml", "application/pdf", "nonsense", None]
)
async def test_a_declared_length_over_the_cap_is_refused_before_any_byte_of_the_body(
    world: World, entry: Entry, content_type: str | None
) -> None:
    never = Gate()
    fields = [] if content_type is None else [("content-type", content_type)]

    async def big(exchange: Exchange) -> None:
        await exchange.start(200, [*fields, ("content-length", str(CAP + 1))])
        await never.wait()

    entry.origin(world).route("/declared", big)
    answer = fetch(world, entry, Ask("/declared"))
    assert isinstance(answer, Response)
    assert (answer.status, answer.header("fetchd-rule")) == (502, "byte-cap")
    shown = answer.json()["detail"]
    assert shown.startswith("response from ") and shown.endswith(f"exceeds the {CAP}-byte size cap")
    assert close_line(world, answer)["rule"] == "byte-cap"
    await entry.origin(world).wait_closed()


@pytest.mark.parametrize("content_type", [HTML, "application/json", "application/pdf"])
def test_a_declared_length_of_exactly_the_cap_passes(world: World, content_type: str) -> None:
    world.origin.route("/declared", replies.answer(200, page_of(CAP), content_type))
    answer = fetch(world, Entry.ABSOLUTE_HTTPS, Ask("/declared"))
    assert isinstance(answer, Response) and answer.status == 200


@pytest.mark.parametrize("entry", WAYS)
def test_head_204_and_304_have_no_body_to_count(world: World, entry: Entry) -> None:
    big = ("content-length", str(10**9))

    async def route(exchange: Exchange) -> None:
        status = {"/204": 204, "/304": 304}.get(exchange.request.path, 200)
        await exchange.start(status, [("content-type", HTML), *([] if status == 204 else [big])])
        await exchange.end()

    for path in ("/head", "/204", "/304"):
        entry.origin(world).route(path, route)
    head = send(world, entry, Ask("/head", method="HEAD"))
    nothing = send(world, entry, Ask("/204"))
    unchanged = send(world, entry, Ask("/304"))

    assert (head.status, head.header("content-length"), head.body) == (200, str(10**9), b"")
    assert (nothing.status, unchanged.status) == (204, 304)
    verdicts = [answer.header("fetchd-verdict") for answer in (head, nothing, unchanged)]
    assert verdicts == ["allowed"] * 3


UNREADABLE = {
    "three codings": [("content-encoding", "gzip, deflate, gzip")],
    "three codings over two fields": [("content-encoding", "gzip, deflate"), ("content-encoding", "gzip")],
    "a coding nobody knows": [("content-encoding", "lzma")],
    "one known and one unknown coding": [("content-encoding", "gzip, dcb")],
    "a transfer coding beside chunked": [("transfer-encoding", "gzip, chunked")],
    "a transfer coding without chunked": [("transfer-encoding", "gzip")],
    "chunked twice": [("transfer-encoding", "chunked, chunked")],
}


@pytest.mark.parametrize("entry", WAYS)
@pytest.mark.parametrize("sentence", UNREADABLE)
def test_a_body_that_cannot_be_counted_is_refused(world: World, sentence: str, entry: Entry) -> None:
    async def route(exchange: Exchange) -> None:
        fields = UNREADABLE[sentence]
        framing = [] if "transfer" in fields[0][0] else [("content-length", "2")]
        await exchange.start(200, [("content-type", HTML), *fields, *framing])
        await exchange.data(b"0\r\n\r\n" if not framing else b"hi")
        await exchange.close()

    entry.origin(world).route("/odd", route)
    answer = fetch(world, entry, Ask("/odd"))
    assert isinstance(answer, Response)
    assert (answer.status, answer.header("fetchd-rule")) == (502, "upstream")


BROKEN = {
    "gzip that is none": (b"this is not gzip at all", "gzip"),
    "gzip with a wrong checksum": (encode_body(page_of(500), Coding.GZIP)[:-8] + bytes(8), "gzip"),
    "gzip cut short": (encode_body(page_of(500), Coding.GZIP)[:-9], "gzip"),
    "br with bytes after its end": (encode_body(page_of(500), Coding.BR) + b"junk", "br"),
    "br cut short": (encode_body(page_of(500), Coding.BR)[:-1], "br"),
    "zstd cut short": (encode_body(page_of(500), Coding.ZSTD)[:-1], "zstd"),
    "deflate that is none": (b"\xff\xff\xff\xff not deflate", "deflate"),
}


@pytest.mark.parametrize("entry", [Entry.ABSOLUTE_HTTPS, Entry.CONNECT_H2])
@pytest.mark.parametrize("sentence", BROKEN)
def test_a_body_that_does_not_decode_never_looks_complete(world: World, sentence: str, entry: Entry) -> None:
    body, coding = BROKEN[sentence]
    world.origin.route("/broken", replies.body_as_is(body, coding, length=False))
    answer = fetch(world, entry, Ask("/broken"))
    assert isinstance(answer, Cut)
    assert close_line(world, answer.answer)["rule"] == "upstream"


@pytest.mark.parametrize("daemon", [True, False])
def test_the_daemon_gets_the_chunk_that_crosses_and_an_agent_does_not(world: World, daemon: bool) -> None:
    gates = [Gate(), Gate()]
    listener = f"test@{world.gateway.listeners[0][1]}"
    world.origin.route("/page", replies.trickle([bytes(CAP), bytes(1000)], gates, [("content-type", FLAT)]))
    gates[0].open()
    said = DaemonRequest("agent", "test", "0123456789abcdef", 0)
    fields = [(name.decode(), value.decode()) for name, value in render_daemon_fields(SECRET, said)]
    with world.gateway.open() as proxy:
        proxy.request("GET", world.url("/page"), world.authority(), fields if daemon else [])
        received = b""
        while received.count(b"\0") < CAP:
            more = proxy.receive()
            assert more
            received += more
        gates[1].open()
        rest, _ = proxy.receive_until_closed()

    assert (received + rest).count(b"\0") == CAP + (1000 if daemon else 0)
    assert not rest.endswith(b"\r\n0\r\n\r\n")
    line = wait_lines(world.gateway, "close", rule="byte-cap", agent="agent" if daemon else listener)[-1]
    assert (line["fetch_id"] == "0123456789abcdef") is daemon


@pytest.mark.parametrize(
    ("status", "content_type", "refused"),
    [
        (200, HTML, True),
        (200, "application/json", True),
        (200, "application/pdf", False),
        (200, FLAT, False),
        (404, HTML, False),
    ],
)
def test_the_daemon_hears_of_status_and_type_before_the_length(
    world: World, status: int, content_type: str, refused: bool
) -> None:
    """SPEC 2.1: what else is wrong with an answer comes first, and the daemon can only see it in the head."""
    never = Gate()

    async def big(exchange: Exchange) -> None:
        await exchange.start(status, [("content-type", content_type), ("content-length", str(CAP + 1))])
        await never.wait()

    world.origin.route("/declared", big)
    said = DaemonRequest("agent", "test", "feedfeedfeedfeed", 0)
    fields = [(name.decode(), value.decode()) for name, value in render_daemon_fields(SECRET, said)]
    with world.gateway.open() as proxy:
        proxy.request("GET", world.url("/declared"), world.authority(), fields)
        head = proxy.receive()
    assert head.startswith(b"HTTP/1.1 502" if refused else b"HTTP/1.1 %d" % status)


async def test_after_a_cut_the_next_stream_of_an_http2_client_is_served(world: World) -> None:
    world.origin.route("/over", replies.chunked([bytes(CAP), b"x"]))
    world.origin.route("/good", replies.page("good"))
    with world.gateway.open(OPEN) as proxy, tunnel(world, proxy, Entry.CONNECT_H2, Ask()) as inside:
        assert not isinstance(inside, Response)
        client = H2Client(inside)
        with pytest.raises(StreamResetError):
            client.get(world.authority(), "/over")
        assert client.get(world.authority(), "/good").body == b"good"


async def test_after_a_refused_length_an_http1_client_stays_connected(world: World) -> None:
    world.origin.route("/declared", replies.answer(200, bytes(CAP + 1)))
    world.origin.route("/good", replies.page("good"))
    with world.gateway.open(OPEN) as proxy:
        assert proxy.get(world.url("/declared"), world.authority()).status == 502
        assert proxy.get(world.url("/good"), world.authority()).body == b"good"


@pytest.mark.parametrize("entry", WAYS)
def test_trailers_are_dropped(world: World, entry: Entry) -> None:
    async def route(exchange: Exchange) -> None:
        await replies.start_chunked(exchange, [("content-type", HTML), ("trailer", "x-late")])
        await replies.send_chunk(exchange, b"page")
        await replies.end_chunked(exchange, [("x-late", "late"), ("fetchd-verdict", "refused")])

    entry.origin(world).route("/trailers", route)
    answer = send(world, entry, Ask("/trailers"))
    assert (answer.status, answer.body, answer.complete) == (200, b"page", True)
    assert answer.header("trailer") is None
    again = send(world, entry, Ask("/trailers"))
    assert again.complete
