"""Which addresses are this machine's own, and which are the gateway's own listeners (SPEC 1.2).

An address is own when a socket can be bound to it: the kernel decides, secondary addresses and whole local
ranges included, and nothing is sent. It is asked each time, because interfaces come and go. An address that
reaches this machine by way of another box (its public address behind NAT) cannot be known here; the operator
blocks it with an extra range.
"""

import errno
import socket
from collections.abc import Iterable
from dataclasses import dataclass

_FOREIGN = {socket.AF_INET: "240.0.0.1", socket.AF_INET6: "100::1"}
"""Addresses no machine has: reserved, and discard-only."""
_NOT_HERE = frozenset({errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT, errno.EINVAL})
"""What bind says of an address that is not ours, of a family the machine does not speak, of a link-local
address without a zone."""

_UNSPECIFIED = (bytes(4), bytes(16))
_MAPPED = bytes(10) + b"\xff\xff"


@dataclass(frozen=True, slots=True)
class Listener:
    """A numeric address and port the gateway or its daemon listens on; `0.0.0.0`, `::`: every one."""

    address: str
    port: int


class OwnAddresses:
    """Answers for one process. Raises ValueError for a listener whose address is not numeric."""

    def __init__(self, listeners: Iterable[Listener] = ()) -> None:
        self._listeners: dict[int, set[bytes]] = {}
        for listener in listeners:
            packed = _pack(listener.address)
            if packed is None:
                raise ValueError(f"listener {listener.address}:{listener.port} is not at a numeric address")
            self._listeners.setdefault(listener.port, set()).add(packed)
        # Where the system lets anybody bind any address (ip_nonlocal_bind), binding tells nothing.
        self._bind_tells = {family: not _can_bind(family, address) for family, address in _FOREIGN.items()}

    def is_own(self, address: str) -> bool:
        """Whether `address` is this machine's. The unspecified address is: connecting to it stays here.

        Raises OSError when the system cannot say (no file descriptors).
        """
        packed = _pack(address)
        if packed is None:
            return False
        if packed in _UNSPECIFIED:
            return True
        family = socket.AF_INET if len(packed) == 4 else socket.AF_INET6
        text = socket.inet_ntop(family, packed)
        return _can_bind(family, text) if self._bind_tells[family] else _routes_to_itself(family, text)

    def is_listener(self, address: str, port: int) -> bool:
        """Whether connecting to `address` and `port` would reach a listener of ours."""
        listening = self._listeners.get(port)
        packed = _pack(address)
        if listening is None or packed is None:
            return False
        if packed in listening or packed in _UNSPECIFIED:
            return True
        return any(wildcard in listening for wildcard in _UNSPECIFIED) and self.is_own(address)


def _pack(address: str) -> bytes | None:
    """Network octets; an IPv4-mapped address as the IPv4 one it stands for; None when it is no address."""
    try:
        packed = socket.inet_pton(socket.AF_INET6 if ":" in address else socket.AF_INET, address)
    except (OSError, ValueError):
        return None
    return packed[12:] if packed.startswith(_MAPPED) and len(packed) == 16 else packed


def _can_bind(family: socket.AddressFamily, address: str) -> bool:
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as sock:
            sock.bind((address, 0))
    except OSError as error:
        if error.errno in _NOT_HERE:
            return False
        raise
    return True


def _routes_to_itself(family: socket.AddressFamily, address: str) -> bool:
    """Whether packets to `address` would leave with it as their source; misses secondary addresses."""
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as sock:
            sock.connect((address, 9))  # UDP: fixes a route, sends nothing
            return bool(sock.getsockname()[0] == address)
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
            raise
        return False
