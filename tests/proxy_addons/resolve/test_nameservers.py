"""Where the nameservers come from: resolv.conf, and errors that say what to set."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from proxy_addons.resolve.nameservers import Nameserver, NameserverError, load_system_nameservers


def test_an_address_of_ipv6_stands_in_brackets() -> None:
    assert str(Nameserver("192.0.2.53")) == "192.0.2.53:53"
    assert str(Nameserver("fe80::1%eth0", 5353)) == "[fe80::1%eth0]:5353"


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
