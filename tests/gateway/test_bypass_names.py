"""Bypasses 9 to 13 of docs/bypasses.md: names that differ, and checks that one way in has and another has not."""

from __future__ import annotations

import itertools
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.gateway.expect import (
    NOBODY,
    assert_allowed,
    assert_refused,
    contacts,
    refuse_beside_twin,
    try_send,
)
from tests.gateway.paths import (
    ABSOLUTE,
    ALL,
    TLS_TUNNELS,
    TUNNELS,
    WAYS,
    Ask,
    Entry,
    open_way,
    send,
)
from tests.kit.client import RawConnection, open_connection
from tests.kit.gateway import World

# -- 9, 10: CONNECT, SNI and Host are one name

PATTERNS = {
    f"{connect} {sni} {host}": (connect, sni, host)
    for connect, sni, host in itertools.product("ab", "abc", "abc")
    if (connect, sni, host) != (connect, connect, connect)
}


@pytest.mark.parametrize("names", PATTERNS)
@pytest.mark.parametrize("entry", TLS_TUNNELS)
def test_case_09_names_must_agree(world: World, entry: Entry, names: str) -> None:
    """Stock sends CONNECT a, SNI b, Host c to the origin as they are."""
    connect, sni, host = (f"{letter}.example" for letter in PATTERNS[names])
    attack = Ask(host=connect, server_name=sni, host_field=Ask(host=host).authority(world, entry))
    assert_refused(world, try_send(world, entry, attack), "authority-mismatch", 421)


@pytest.mark.parametrize("name", ["a.example", "b.example"])
@pytest.mark.parametrize("entry", TLS_TUNNELS)
def test_case_09_one_name_reaches_the_origin(world: World, entry: Entry, name: str) -> None:
    assert_allowed(world, send(world, entry, Ask(host=name)))
    (connection,) = world.origin.connections
    assert connection.sni == name
    assert connection.requests[0].values("host") == [world.authority(name)]


@pytest.mark.parametrize("entry", [*ABSOLUTE, Entry.CONNECT_PLAIN])
def test_case_09_url_and_host_must_agree(world: World, entry: Entry) -> None:
    attack = Ask(host_field=Ask(host="b.example").authority(world, entry))
    refuse_beside_twin(world, entry, attack, "authority-mismatch", 421)


@pytest.mark.parametrize("entry", ALL)
def test_case_09_ports_must_agree(world: World, entry: Entry) -> None:
    """The same name on another port is another place."""
    refuse_beside_twin(world, entry, Ask(host_field="a.example:8443"), "authority-mismatch", 421)


@pytest.mark.parametrize("entry", TUNNELS)
def test_case_09_connect_with_another_host_field(world: World, entry: Entry) -> None:
    attack = Ask(connect_host=Ask(host="b.example").authority(world, entry))
    refuse_beside_twin(world, entry, attack, "authority-mismatch", 421)


@pytest.mark.parametrize("entry", ALL)
def test_case_10_a_denied_name_behind_an_allowed_host_field(world: World, entry: Entry) -> None:
    """Policy keyed on what the client writes into Host."""
    attack = Ask(host="denied.example", host_field=Ask().authority(world, entry))
    refuse_beside_twin(world, entry, attack, "host", 403)


@pytest.mark.parametrize("entry", ALL)
def test_case_10_a_denied_host_field_behind_an_allowed_name(world: World, entry: Entry) -> None:
    attack = Ask(host_field=Ask(host="denied.example").authority(world, entry))
    refuse_beside_twin(world, entry, attack, "authority-mismatch", 421)


# -- 11: a whole URL inside a tunnel


@pytest.mark.parametrize("name", ["b.example", "denied.example", "a.example"])
@pytest.mark.parametrize("entry", [entry for entry in TUNNELS if entry is not Entry.CONNECT_H2])
def test_case_11_absolute_form_in_a_tunnel(world: World, entry: Entry, name: str) -> None:
    url = f"{entry.scheme}://{Ask(host=name).authority(world, entry)}/x"
    refuse_beside_twin(world, entry, Ask(path=url), "authority-mismatch", 421)


@pytest.mark.parametrize("name", ["b.example", "a.example"])
def test_case_11_absolute_form_as_h2_path(world: World, name: str) -> None:
    attack = Ask(path=f"https://{world.authority(name)}/x")
    refuse_beside_twin(world, Entry.CONNECT_H2, attack, "not-http", 400, closes=True)


# -- 12: the same ladder by every way

LADDER = {
    "userinfo": (Ask(userinfo="user:pass"), "userinfo"),
    "port": (Ask(port=22), "port"),
    "ip literal": (Ask(host="127.0.0.10", server_name="a.example"), "ip-literal"),
    "method": (Ask(method="DELETE"), "method"),
    "host": (Ask(host="denied.example"), "host"),
}


NO_SUCH_STEP = {
    *((entry, "userinfo") for entry in TUNNELS),  # a CONNECT has none: case 26
    (Entry.WEBSOCKET, "method"),  # a handshake is a GET
}


@pytest.mark.parametrize(
    ("entry", "step"), [pair for pair in itertools.product(ALL, LADDER) if pair not in NO_SUCH_STEP]
)
def test_case_12_one_ladder_for_every_way(world: World, entry: Entry, step: str) -> None:
    """Plain-HTTP forwarding skipped what the CONNECT path checked."""
    attack, rule = LADDER[step]
    refuse_beside_twin(world, entry, attack, rule, 403)


@pytest.mark.parametrize("entry", ALL)
def test_case_12_blocked_addresses_by_every_way(world: World, entry: Entry) -> None:
    world.dns.host_addresses("inward.example", "127.0.0.1", "::1")
    answer = send(world, entry, Ask(host="inward.example"))
    assert (answer.status, answer.header("fetchd-rule")) == (403, "no-allowed-address")
    assert contacts(world).connects == 0


@pytest.mark.parametrize("entry", [Entry.ABSOLUTE_HTTP, Entry.CONNECT_PLAIN])
def test_case_12_https_only_looks_inside_the_tunnel(world: World, entry: Entry) -> None:
    """CONNECT to port 443 and then plain HTTP is scheme http."""
    answer = send(world, entry, Ask(), listener=0)
    assert_refused(world, answer, "scheme", 403)
    assert_allowed(world, send(world, Entry.CONNECT_H1, Ask(), listener=0))


@pytest.mark.parametrize("entry", ABSOLUTE)
def test_case_12_origin_form_outside_a_tunnel(world: World, entry: Entry) -> None:
    """`GET /` with a Host field, as a server would get it."""
    with world.gateway.open(1) as proxy:
        answer = open_way(world, proxy, entry).get("/", Ask().authority(world, entry))
    assert_refused(world, answer, "parse", 403)
    assert_allowed(world, send(world, entry, Ask()))


# -- 13: a relay in between


@contextmanager
def relay(world: World, extra: bytes) -> Iterator[RawConnection]:
    """A dumb proxy of the client's own: adds fields to the first head, then copies bytes both ways."""
    host, port, _ = world.gateway.listeners[1]
    with socket.create_server(("127.0.0.1", 0)) as server:
        client = open_connection("127.0.0.1", server.getsockname()[1])
        near, _ = server.accept()
    with client, near, socket.create_connection((host, port)) as far:
        threads = [
            threading.Thread(target=copy, args=arguments)
            for arguments in ((near, far, extra), (far, near, b""))
        ]
        for thread in threads:
            thread.start()
        yield client
        client.close()
        for thread in threads:
            thread.join(10)


def copy(source: socket.socket, sink: socket.socket, extra: bytes) -> None:
    """Bytes until the end; `extra` goes before the end of the first head."""
    try:
        while data := source.recv(65536):
            if extra:
                data, extra = data.replace(b"\r\n\r\n", b"\r\n" + extra + b"\r\n", 1), b""
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        sink.close()


RELAYED = [
    Entry.ABSOLUTE_HTTP,
    Entry.ABSOLUTE_HTTPS,
    *(e for e in TUNNELS if e is not Entry.TLS_LISTENER_CONNECT),
]
RELAY_FIELDS = (
    b"Via: 1.1 relay\r\nX-Forwarded-Host: denied.example\r\n"
    b"Forwarded: host=denied.example\r\nProxy-Connection: keep-alive\r\n"
)


@pytest.mark.parametrize("host", ["denied.example", "127.0.0.10"])
@pytest.mark.parametrize("entry", RELAYED)
def test_case_13_the_verdict_is_the_same_through_a_relay(world: World, entry: Entry, host: str) -> None:
    attack = Ask(host=host, server_name="a.example")
    direct = try_send(world, entry, attack)
    with relay(world, RELAY_FIELDS) as proxy:
        relayed = WAYS[entry](world, proxy, attack)

    assert direct is not None
    assert (relayed.status, relayed.header("fetchd-rule")) == (direct.status, direct.header("fetchd-rule"))
    assert relayed.header("fetchd-verdict") == "refused"
    assert contacts(world) == NOBODY


@pytest.mark.parametrize("entry", RELAYED)
def test_case_13_an_allowed_request_through_a_relay(world: World, entry: Entry) -> None:
    with relay(world, RELAY_FIELDS) as proxy:
        assert_allowed(world, WAYS[entry](world, proxy, Ask()))
    (request,) = entry.origin(world).requests
    assert request.values("proxy-authorization") == request.values("proxy-connection") == []
