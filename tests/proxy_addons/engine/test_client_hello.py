"""The strict reader of ClientHellos against stock's: what it takes, both read alike."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mitmproxy import tls
from OpenSSL import SSL

from proxy_addons.engine.client_hello import GateClientHello, parse_client_hello
from proxy_addons.engine.tls import read_server_name

ORDINARY = (b"\x03\x03", bytes(32), b"", b"\x13\x01", b"\x00")


def vector(data: bytes, width: int) -> bytes:
    return len(data).to_bytes(width) + data


def extension(kind: int, body: bytes) -> bytes:
    return kind.to_bytes(2) + vector(body, 2)


def server_names(*names: tuple[int, bytes]) -> bytes:
    return extension(0, vector(b"".join(bytes([kind]) + vector(name, 2) for kind, name in names), 2))


def protocols(*names: bytes) -> bytes:
    return extension(16, vector(b"".join(vector(name, 1) for name in names), 2))


def hello(*extensions: bytes) -> bytes:
    version, random, session, suites, compression = ORDINARY
    head = version + random + vector(session, 1) + vector(suites, 2) + vector(compression, 1)
    return head + vector(b"".join(extensions), 2)


def in_records(message: bytes, size: int, kind: int = 1) -> bytes:
    body = bytes([kind]) + vector(message, 3)
    pieces = [body[at : at + size] for at in range(0, len(body), size)]
    return b"".join(b"\x16\x03\x01" + vector(piece, 2) for piece in pieces)


NAME = server_names((0, b"a.example"))
NAMES = {
    "one name": ([NAME], "a.example"),
    "a name with an underscore": ([server_names((0, b"a_b.example"))], "a_b.example"),
    "a last dot": ([server_names((0, b"a.example."))], "a.example."),
    "no extension": ([], None),
    "two names": ([server_names((0, b"a.example"), (0, b"b.example"))], None),
    "two extensions of one name": ([NAME, NAME], None),
    "an empty list": ([server_names()], None),
    "a name of another type": ([server_names((1, b"a.example"))], None),
    "a name that is not ASCII": ([server_names((0, "bücher.example".encode()))], None),
    "a name with a NUL": ([server_names((0, b"a.example\x00"))], None),
    "an empty name": ([server_names((0, b""))], None),
    "a label of 64 octets": ([server_names((0, b"a" * 64 + b".example"))], None),
}


@pytest.mark.parametrize("case", NAMES)
def test_the_server_name_is_the_only_one_that_dns_can_carry(case: str) -> None:
    extensions, name = NAMES[case]
    assert read_server_name(GateClientHello(hello(*extensions))) == name


def test_a_hello_without_extensions_names_nothing() -> None:
    read = GateClientHello(hello()[:-2])
    assert (read_server_name(read), read.alpn_protocols) == (None, [])


def framed(session: bytes = b"", suites: bytes = b"\x13\x01", compression: bytes = b"\x00") -> bytes:
    return (
        b"\x03\x03"
        + bytes(32)
        + vector(session, 1)
        + vector(suites, 2)
        + vector(compression, 1)
        + vector(NAME, 2)
    )


@pytest.mark.parametrize(
    ("message", "taken"),
    [
        (framed(), True),
        (framed(session=bytes(32)), True),
        (framed(session=bytes(33)), False),
        (framed(suites=b""), False),
        (framed(suites=bytes(3)), False),
        (framed(compression=b""), False),
    ],
    ids=["ordinary", "a session id of 32", "one of 33", "no suites", "half a suite", "no compression method"],
)
def test_the_first_vectors_have_a_length_they_may_have(message: bytes, taken: bool) -> None:
    try:
        assert GateClientHello(message).sni == "a.example" and taken
    except ValueError:
        assert not taken


MALFORMED = {
    "cut in the random": hello()[:30],
    "cut in the cipher suites": hello()[:37],
    "extensions longer than the message": hello(NAME)[:-1],
    "octets after the extensions": hello(NAME) + b"\x00",
    "an extension longer than the extensions": hello(NAME[:-1]),
    "half a length of extensions": hello()[:-1],
    "a list of names shorter than its extension": hello(extension(0, vector(b"", 2) + b"\x00")),
    "a list of names longer than its extension": hello(extension(0, b"\x00\x09")),
    "a name longer than its list": hello(extension(0, vector(b"\x00\x00\x09a", 2))),
    "an empty extension of server names": hello(extension(0, b"")),
    "a protocol longer than its list": hello(extension(16, vector(b"\x09h2", 2))),
    "a second list of protocols that is longer": hello(protocols(b"h2"), extension(16, vector(b"\x09h2", 2))),
    "an empty extension of protocols": hello(extension(16, b"")),
}


@pytest.mark.parametrize("case", MALFORMED)
def test_lengths_that_do_not_fit_are_an_error(case: str) -> None:
    with pytest.raises(ValueError, match=r"cut short|longer|octets after"):
        parse_client_hello(in_records(MALFORMED[case], 100))


@pytest.mark.parametrize("size", [1, 7, 1000], ids=["one octet a record", "seven", "one record"])
def test_a_hello_is_read_when_its_last_octet_has_come(size: int) -> None:
    records = in_records(hello(NAME, protocols(b"h2", b"http/1.1")), size)
    found = parse_client_hello(bytearray(records))  # type: ignore[arg-type]  # as mitmproxy keeps them
    assert found is not None
    assert (found.sni, found.alpn_protocols) == ("a.example", [b"h2", b"http/1.1"])
    assert parse_client_hello(records[:-1]) is None


def test_another_handshake_message_is_no_hello() -> None:
    with pytest.raises(ValueError, match="not a ClientHello"):
        parse_client_hello(in_records(hello(NAME), 100, kind=2))


def test_what_openssl_says_is_read_as_stock_reads_it() -> None:
    for name, offers in ((b"a.example", [b"h2"]), (None, [b"http/1.1"]), (b"xn--bcher-kva.example", [])):
        connection = SSL.Connection(SSL.Context(SSL.TLS_CLIENT_METHOD))
        if name is not None:
            connection.set_tlsext_host_name(name)
        if offers:
            connection.set_alpn_protos(offers)
        connection.set_connect_state()
        with pytest.raises(SSL.WantReadError):
            connection.do_handshake()
        found = parse_client_hello(connection.bio_read(1 << 16))
        assert found is not None
        agree_with_stock(found)
        assert found.cipher_suites and found.extensions, "what else stock tells of a hello it tells still"


def agree_with_stock(found: GateClientHello) -> None:
    stock = tls.ClientHello(found.raw_bytes(False))
    listed = getattr(stock._client_hello, "extensions", None)
    names = [
        [(one.name_type, one.host_name) for one in x.body.server_names]
        for x in (listed.extensions if listed is not None else ())
        if x.type == 0
    ]
    assert found.names == names
    assert found.alpn_protocols == stock.alpn_protocols
    if len(names) < 2:  # of several extensions stock takes the first that it likes; here they name nothing
        assert stock.sni in (None, found.sni), "stock knows fewer names"


EXTENSIONS = st.lists(
    st.one_of(
        st.builds(
            lambda names: server_names(*names),
            st.lists(st.tuples(st.integers(0, 2), st.binary(max_size=9)), max_size=3),
        ),
        st.builds(lambda names: protocols(*names), st.lists(st.binary(max_size=5), max_size=3)),
        st.builds(extension, st.integers(0, 60), st.binary(max_size=8)),
    ),
    max_size=4,
)


@given(EXTENSIONS, st.lists(st.tuples(st.integers(0, 120), st.integers(0, 255)), max_size=2))
def test_what_is_taken_is_read_as_stock_reads_it(
    extensions: list[bytes], changes: list[tuple[int, int]]
) -> None:
    message = bytearray(hello(*extensions))
    for at, octet in changes:
        message[at % len(message)] = octet
    try:
        found = GateClientHello(bytes(message))
    except ValueError:
        return
    agree_with_stock(found)
