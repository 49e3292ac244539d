"""Sockets to listen on: the supervisor holds the ports, each worker binds them beside it."""

import socket


def bind_listening_socket(host: str, port: int, *, shared: bool) -> socket.socket:
    """A bound TCP socket; raises OSError (EADDRINUSE) as the system says.

    `proto` is given so that asyncio sets TCP_NODELAY on what it accepts (42 ms a reply without).
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        bound.bind((host, port))
        bound.setblocking(False)
    except OSError:
        bound.close()
        raise
    return bound
