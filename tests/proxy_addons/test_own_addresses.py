"""Own addresses and listeners, asked of the real kernel (SPEC 1.2; case 34)."""

from __future__ import annotations

import errno
import socket

import pytest

from proxy_addons import own_addresses
from proxy_addons.own_addresses import Listener, OwnAddresses


@pytest.mark.parametrize(
    ("address", "own"),
    [
        pytest.param("127.0.0.1", True, id="loopback"),
        pytest.param("127.255.255.254", True, id="the far end of loopback"),
        pytest.param("::1", True, id="IPv6 loopback"),
        pytest.param("0:0:0:0:0:0:0:1", True, id="IPv6 loopback at length"),
        pytest.param("::ffff:127.0.0.1", True, id="mapped loopback"),
        pytest.param("0.0.0.0", True, id="the unspecified address reaches this machine"),
        pytest.param("::", True, id="and so does its IPv6 twin"),
        pytest.param("8.8.8.8", False, id="somebody else's"),
        pytest.param("2606:4700:4700::1111", False, id="somebody else's IPv6"),
        pytest.param("::ffff:8.8.8.8", False, id="mapped, somebody else's"),
        pytest.param("fe80::dead:beef", False, id="link-local without a zone"),
        pytest.param("not an address", False, id="no address"),
        pytest.param("", False, id="nothing"),
    ],
)
def test_is_own(address: str, own: bool) -> None:
    assert OwnAddresses().is_own(address) is own


@pytest.mark.parametrize(
    ("address", "own"),
    [("127.0.0.1", True), ("::1", True), ("0.0.0.0", True), ("8.8.8.8", False), ("fe80::dead:beef", False)],
)
def test_where_everybody_may_bind_anything_the_route_tells(
    address: str, own: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_addresses, "_can_bind", lambda family, text: True)  # ip_nonlocal_bind
    assert OwnAddresses().is_own(address) is own


@pytest.mark.parametrize(
    ("listener", "address", "port", "hit"),
    [
        pytest.param(("127.0.0.1", 3128), "127.0.0.1", 3128, True, id="the very listener"),
        pytest.param(("127.0.0.1", 3128), "127.0.0.1", 3129, False, id="another port"),
        pytest.param(("127.0.0.1", 3128), "127.0.0.2", 3128, False, id="another loopback address"),
        pytest.param(("127.0.0.1", 3128), "::ffff:127.0.0.1", 3128, True, id="the listener, mapped"),
        pytest.param(("127.0.0.1", 3128), "0.0.0.0", 3128, True, id="the unspecified address reaches it"),
        pytest.param(("::1", 3128), "0:0::1", 3128, True, id="another spelling"),
        pytest.param(("0.0.0.0", 3128), "127.0.0.9", 3128, True, id="a wildcard listens on own addresses"),
        pytest.param(("::", 3128), "::1", 3128, True, id="an IPv6 wildcard too"),
        pytest.param(("::", 3128), "127.0.0.1", 3128, True, id="which may take IPv4 as well"),
        pytest.param(("0.0.0.0", 3128), "8.8.8.8", 3128, False, id="a wildcard is not everybody"),
        pytest.param(("127.0.0.1", 3128), "nonsense", 3128, False, id="no address"),
    ],
)
def test_is_listener(listener: tuple[str, int], address: str, port: int, hit: bool) -> None:
    assert OwnAddresses([Listener(*listener)]).is_listener(address, port) is hit


def test_a_listener_is_given_by_number() -> None:
    with pytest.raises(ValueError, match="listener localhost:3128 is not at a numeric address"):
        OwnAddresses([Listener("localhost", 3128)])


def test_when_the_system_cannot_say_it_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    own = OwnAddresses()

    def exhausted(*args: object) -> None:
        raise OSError(errno.EMFILE, "too many open files")

    monkeypatch.setattr(socket, "socket", exhausted)
    with pytest.raises(OSError, match="too many open files"):
        own.is_own("8.8.8.8")
