"""Where the nameservers come from: written forms, resolv.conf, and errors that say what to write."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy_addons.resolve.nameservers import (
    Nameserver,
    NameserverError,
    load_system_nameservers,
    parse_nameserver,
    parse_nameservers,
)


@pytest.mark.parametrize(
    ("text", "expected", "shown"),
    [
        ("192.0.2.53", Nameserver("192.0.2.53"), "192.0.2.53:53"),
        ("192.0.2.53:5353", Nameserver("192.0.2.53", 5353), "192.0.2.53:5353"),
        ("2001:db8::53", Nameserver("2001:db8::53"), "[2001:db8::53]:53"),
        ("[2001:db8::53]", Nameserver("2001:db8::53"), "[2001:db8::53]:53"),
        ("[2001:db8::53]:65535", Nameserver("2001:db8::53", 65535), "[2001:db8::53]:65535"),
        ("fe80::1%eth0", Nameserver("fe80::1%eth0"), "[fe80::1%eth0]:53"),
        ("[fe80::1%2]:1", Nameserver("fe80::1%2", 1), "[fe80::1%2]:1"),
    ],
)
def test_written_forms(text: str, expected: Nameserver, shown: str) -> None:
    assert parse_nameserver(text) == expected
    assert str(expected) == shown


@pytest.mark.parametrize(
    "text",
    [
        "",
        "dns.example",
        "dns.example:53",
        "192.0.2",
        "192.0.2.53:0",
        "192.0.2.53:65536",
        "192.0.2.53:",
        "192.0.2.53 ",
        "[192.0.2.53]:53",
        "[2001:db8::53]:0",
        "[2001:db8::53",
        "2001:db8::53%",
        "192.0.2.53%eth0",
        "udp://192.0.2.53",
        "1.2.3.4:5:6",
        "\u0661.2.3.4",
    ],
)
def test_anything_else_is_an_error_that_says_what_to_write(text: str) -> None:
    with pytest.raises(NameserverError, match=r"write 192\.0\.2\.53, 192\.0\.2\.53:5353") as error:
        parse_nameserver(text)
    assert repr(text) in str(error.value)


@given(st.text(max_size=30))
def test_any_text_is_a_nameserver_or_the_named_error(text: str) -> None:
    try:
        server = parse_nameserver(text)
    except NameserverError:
        return
    assert parse_nameserver(str(server)) == server


@pytest.mark.parametrize("number", [0, 4])
def test_a_list_holds_one_to_three(number: int) -> None:
    with pytest.raises(NameserverError, match=f"{number} nameservers; write 1 to 3"):
        parse_nameservers(["192.0.2.53"] * number)
    assert len(parse_nameservers(["192.0.2.53", "::1", "192.0.2.54"])) == 3


def test_resolv_conf_gives_its_first_three_nameservers_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "resolv.conf"
    path.write_bytes(
        b"# nameserver 192.0.2.1\nsearch corp.example\noptions ndots:5\n"
        b"nameserver 192.0.2.2\nnameserver\nnameserver not-an-address\n nameserver fe80::1%lo extra\n\xff\n"
        b"nameserver ::1\nnameserver 192.0.2.3\n"
    )
    assert load_system_nameservers(path) == (
        Nameserver("192.0.2.2"),
        Nameserver("fe80::1%lo"),
        Nameserver("::1"),
    )


def test_no_nameserver_anywhere_says_what_to_set(tmp_path: Path) -> None:
    with pytest.raises(NameserverError, match=r"cannot read .*; set nameservers in \[dns\]"):
        load_system_nameservers(tmp_path / "missing")
    (tmp_path / "empty").write_text("search corp.example\n")
    with pytest.raises(NameserverError, match=r"names no nameserver; set nameservers in \[dns\]"):
        load_system_nameservers(tmp_path / "empty")


def test_socket_addresses() -> None:
    assert Nameserver("192.0.2.53", 5).socket_address() == ("192.0.2.53", 5)
    assert Nameserver("fe80::1%7", 5).socket_address() == ("fe80::1", 5, 0, 7)
    loopback = socket.if_nameindex()[0][1]
    assert Nameserver(f"fe80::1%{loopback}").socket_address()[3:] == (socket.if_nametoindex(loopback),)
    with pytest.raises(OSError, match="interface"):
        Nameserver("fe80::1%no-such-interface").socket_address()
