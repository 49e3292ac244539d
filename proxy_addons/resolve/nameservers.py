"""Which nameservers are asked: those of the configuration, else the system's resolv.conf.

Of resolv.conf only `nameserver` lines are read: search domains, ndots and the rest have no effect (SPEC 1.2).
"""

import socket
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from proxy_addons.policy.config_addresses import MAX_NAMESERVERS, Endpoint

RESOLV_CONF = Path("/etc/resolv.conf")
DNS_PORT = 53


class NameserverError(ValueError):
    """No nameserver is known; the text says what to do."""


@dataclass(frozen=True, slots=True)
class Nameserver:
    """A numeric address (an IPv6 one possibly with %zone) and a port."""

    address: str
    port: int = DNS_PORT

    @property
    def family(self) -> socket.AddressFamily:
        """AF_INET or AF_INET6."""
        return socket.AF_INET6 if ":" in self.address else socket.AF_INET

    def socket_address(self) -> tuple[str, int] | tuple[str, int, int, int]:
        """What socket.connect takes. Raises OSError when the zone names no interface."""
        address, _, zone = self.address.partition("%")
        if not zone:
            return (address, self.port)
        return (address, self.port, 0, int(zone) if zone.isdigit() else socket.if_nametoindex(zone))

    def __str__(self) -> str:
        return f"[{self.address}]:{self.port}" if ":" in self.address else f"{self.address}:{self.port}"


def find_nameservers(configured: Iterable[Endpoint]) -> tuple[Nameserver, ...]:
    """Those of the configuration, else those of the system. Raises NameserverError when there is none."""
    servers = tuple(Nameserver(end.host, end.port) for end in configured)
    return servers or load_system_nameservers()


def load_system_nameservers(path: Path = RESOLV_CONF) -> tuple[Nameserver, ...]:
    """The first three of the system's nameservers. Raises NameserverError when there is none to be read.

    A line whose address cannot be read is passed over, as the C library does.
    """
    try:
        lines = path.read_text("utf-8", "replace").splitlines()
    except OSError as error:
        raise NameserverError(f"cannot read {path} ({error.strerror}); set nameservers in [dns]") from error
    words = (line.split() for line in lines)
    found = (Nameserver(line[1]) for line in words if len(line) > 1 and line[0] == "nameserver")
    servers = tuple(server for server in found if _is_numeric(server))
    if not servers:
        raise NameserverError(f"{path} names no nameserver; set nameservers in [dns]")
    return servers[:MAX_NAMESERVERS]


def _is_numeric(server: Nameserver) -> bool:
    address, percent, zone = server.address.partition("%")
    if percent and (not zone or server.family is socket.AF_INET):
        return False
    try:
        socket.inet_pton(server.family, address)
    except (OSError, ValueError, UnicodeEncodeError):
        return False
    return True
