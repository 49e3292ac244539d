"""Free loopback ports.

A port is free at the moment it is found. Servers of the kit bind port 0 themselves and tell their port; these
helpers are for what must know a port beforehand (a config file) and for one port shared by several addresses.
"""

from __future__ import annotations

import contextlib
import socket


def family_of(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def bound_socket(host: str, port: int = 0, kind: socket.SocketKind = socket.SOCK_STREAM) -> socket.socket:
    """A bound socket that does not listen yet; IPv6 sockets take IPv6 only."""
    # asyncio sets TCP_NODELAY only where the protocol is named; without it a reply in two writes takes 40 ms.
    sock = socket.socket(family_of(host), kind, socket.IPPROTO_TCP if kind is socket.SOCK_STREAM else 0)
    try:
        if kind is socket.SOCK_STREAM:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if sock.family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.bind((host, port))
    except BaseException:
        sock.close()
        raise
    return sock


def free_port(*hosts: str) -> int:
    """A TCP port free on each of `hosts` (default 127.0.0.1)."""
    first, *others = hosts or ("127.0.0.1",)
    for _ in range(50):
        with contextlib.ExitStack() as held:
            port = int(held.enter_context(bound_socket(first)).getsockname()[1])
            try:
                for host in others:
                    held.enter_context(bound_socket(host, port))
            except OSError:
                continue
            return port
    raise OSError(f"no port is free on all of {hosts}")
