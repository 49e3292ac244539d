"""Which nameservers are asked: those of the configuration, else the system's resolv.conf.

Written form: `192.0.2.53`, `192.0.2.53:5353`, `2001:db8::53`, `[2001:db8::53]:5353`, `fe80::1%eth0`.
Of resolv.conf only `nameserver` lines are read: search domains, ndots and the rest have no effect (SPEC 1.2).
"""

import re
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

RESOLV_CONF = Path("/etc/resolv.conf")
DNS_PORT = 53
MAX_NAMESERVERS = 3
"""As resolv.conf(5) MAXNS: more would only lengthen a failure."""

_WRITTEN = re.compile(
    r"(?:\[(?P<v6>[^\]]*:[^\]]*)\]|(?P<v4>[0-9.]+))(?::(?P<port>[0-9]{1,5}))?|(?P<bare>.*:.*)"
)


class NameserverError(ValueError):
    """A nameserver is not written as it must be, or none is known; the text says what to write."""


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


def parse_nameserver(text: str) -> Nameserver:
    """Read one nameserver; raises NameserverError."""
    match = _WRITTEN.fullmatch(text)
    if match is not None:
        server = Nameserver(match["v6"] or match["v4"] or match["bare"], int(match["port"] or DNS_PORT))
        if _is_numeric(server) and 0 < server.port < 65536:
            return server
    raise NameserverError(
        f"nameserver {text!r} is not an address with an optional port; write 192.0.2.53, 192.0.2.53:5353,"
        " 2001:db8::53 or [2001:db8::53]:5353"
    )


def parse_nameservers(texts: Iterable[str]) -> tuple[Nameserver, ...]:
    """Read a configured list, in order; raises NameserverError, also for a list of none or too many."""
    servers = tuple(parse_nameserver(text) for text in texts)
    if not 0 < len(servers) <= MAX_NAMESERVERS:
        raise NameserverError(f"{len(servers)} nameservers; write 1 to {MAX_NAMESERVERS}")
    return servers


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
