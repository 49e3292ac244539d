"""The forms of configuration values that hold addresses: where to listen, whom to ask, what to block.

Addresses are written plainly (`127.0.0.1`, `[::1]`): what one library reads and another refuses (`127.1`,
`0x7f.1`, `fe80::1%eth0`) is an error.
"""

import re
from typing import NamedTuple

from netaddr import INET_PTON, AddrFormatError, IPAddress, IPNetwork

from .addresses import AddressException, BlockedRange
from .config_forms import (
    Form,
    FormError,
    Json,
    read_agent_name,
    read_flag,
    read_host,
    read_list,
    read_port,
    read_profile_name,
    read_table,
)
from .hosts import HostPattern

_PLAIN_ADDRESS = re.compile(r"[0-9A-Fa-f:.]{2,45}")
_MAPPED = IPNetwork("::ffff:0:0/96")
MAX_NAMESERVERS = 3
"""As resolv.conf(5) MAXNS: more would only lengthen a failure."""

_BY_PROFILE = "blocked by the profile"


class Endpoint(NamedTuple):
    """An IP address in its plain form and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Listener(NamedTuple):
    """Where to listen, and who comes in there. Port 0: any free one.

    profile: judges whoever has no name of its own. agent: whose listener it is, "" for nobody's. anonymous: whether
    requests without a name are served, None for the usual (see `config.admits_anonymous`). tls: nothing but TLS.
    """

    host: str
    port: int
    profile: str
    agent: str = ""
    anonymous: bool | None = None
    tls: bool = False

    @property
    def endpoint(self) -> Endpoint:
        """Address and port alone."""
        return Endpoint(self.host, self.port)

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it."""
        return is_loopback(self.host)


def parse_plain_address(text: str) -> IPAddress | None:
    """An address in dotted or IPv6 notation; None for short, octal, hex, zoned and all other forms."""
    if _PLAIN_ADDRESS.fullmatch(text) is None:
        return None
    try:
        return IPAddress(text, flags=INET_PTON)
    except (AddrFormatError, ValueError):
        return None


def is_loopback(host: str) -> bool:
    """Whether a plain address is one of 127.0.0.0/8 or ::1."""
    ip = IPAddress(host)
    return ip in IPNetwork("127.0.0.0/8") or ip == IPAddress("::1")


def _read_network(value: object, *, bare: bool) -> IPNetwork:
    """A range; `bare`: an address alone is one too."""
    text = value if isinstance(value, str) else ""
    address, slash, length = text.partition("/")
    ip = parse_plain_address(address)
    example = '"10.0.0.7" or "10.0.0.0/24"' if bare else '"168.63.129.16/32"'
    if ip is None or (slash and re.fullmatch(r"0|[1-9][0-9]{0,2}", length) is None):
        raise FormError(f"write {'an address or range' if bare else 'a range'} such as {example}")
    width = 32 if ip.version == 4 else 128
    if not slash:
        if not bare:
            raise FormError(f'write "{ip}/{width}"')
        length = str(width)
    if int(length) > width:
        raise FormError(f"write a prefix length of at most {width}")
    network = IPNetwork(f"{ip}/{length}").cidr
    canonical = str(network) if slash else str(ip)
    if canonical != text:
        raise FormError(f'write "{canonical}"')
    return network


def _read_source(value: object) -> IPNetwork:
    """A range that peers come from. They are looked for by their IPv4 address where they have one, so a range of
    IPv4 addresses as IPv6 writes them would be nobody's."""
    network = _read_network(value, bare=True)
    if network in _MAPPED:
        address, _, length = str(network).partition("/")
        plain = IPNetwork(f"{IPAddress(address).ipv4()}/{int(length) - _MAPPED.prefixlen}")
        raise FormError(f'write "{plain}"')
    return network


def _read_endpoint(value: object, example: str, *, default_port: int | None, least_port: int) -> Endpoint:
    text = value if isinstance(value, str) else ""
    if text.startswith("["):
        host, _, tail = text[1:].partition("]")
    else:
        host, colon, port = text.partition(":")
        tail = colon + port
        if (address := parse_plain_address(text)) is not None and address.version == 6:
            raise FormError(f'write the address in brackets: "[{address}]:{default_port or 3128}"')
    ip = parse_plain_address(host)
    bracketed = text.startswith("[")
    if ip is None or bracketed != (ip.version == 6):
        raise FormError(f"write an IP address and a port, such as {example}")
    if not tail and default_port is not None:
        found = Endpoint(str(ip), default_port)
    elif re.fullmatch(r":(0|[1-9][0-9]{0,4})", tail) and least_port <= int(tail[1:]) <= 65535:
        found = Endpoint(str(ip), int(tail[1:]))
    else:
        raise FormError(f"write a port from {least_port} to 65535 after the address, such as {example}")
    if host != found.host:
        raise FormError(f'write "{found}"')
    return found


def _read_listen(value: object) -> Endpoint:
    return _read_endpoint(value, '"127.0.0.1:3128"', default_port=None, least_port=0)


def _read_nameserver(value: object) -> Endpoint:
    return _read_endpoint(value, '"127.0.0.1:5353", "[::1]:53" or "9.9.9.9"', default_port=53, least_port=1)


LISTEN: Form[Endpoint] = Form("an address and a port (0: any free port)", _read_listen, str)
NAMESERVERS: Form[tuple[Endpoint, ...]] = Form(
    f"a list of at most {MAX_NAMESERVERS} IP addresses, each with optional :port (53)",
    lambda value: read_list(value, _read_nameserver, most=MAX_NAMESERVERS),
    lambda servers: [str(server) for server in servers],
)


def _read_listener(value: object) -> Listener:
    example = '{ address = "127.0.0.1:3128", profile = "default" }'
    found = read_table(
        value,
        example,
        address=_read_listen,
        profile_optional=read_profile_name,
        agent_optional=read_agent_name,
        anonymous_optional=read_flag,
        tls_optional=read_flag,
    )
    endpoint: Endpoint = found["address"]
    if "agent" in found and "profile" in found:
        raise FormError("an agent has its own profile; remove this key, or agent", ".profile")
    if "agent" in found and "anonymous" in found:
        raise FormError("whoever comes in here is the agent; remove this key, or agent", ".anonymous")
    return Listener(
        endpoint.host,
        endpoint.port,
        found.get("profile", ""),
        found.get("agent", ""),
        found.get("anonymous"),
        found.get("tls", False),
    )


def _dump_listener(listener: Listener) -> Json:
    row: dict[str, Json] = {"address": str(listener.endpoint)}
    if listener.agent:
        row["agent"] = listener.agent
    else:
        row["profile"] = listener.profile
    if listener.anonymous is not None:
        row["anonymous"] = listener.anonymous
    if listener.tls:
        row["tls"] = True
    return row


SOURCES: Form[tuple[IPNetwork, ...]] = Form(
    "a list of addresses and ranges",
    lambda value: read_list(value, _read_source),
    lambda networks: [str(one.ip if one.first == one.last else one) for one in networks],
)


def _read_label(value: object) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= 60 or not value.isprintable():
        raise FormError('write 1 to 60 printable characters, such as "cloud platform endpoint"')
    return value


def _read_range(value: object) -> BlockedRange:
    if isinstance(value, dict):
        found = read_table(
            value,
            '{ cidr = "168.63.129.16/32", label = "cloud platform endpoint" }',
            cidr=lambda cidr: _read_network(cidr, bare=False),
            label_optional=_read_label,
        )
        return BlockedRange(str(found["cidr"]), found.get("label", _BY_PROFILE))
    return BlockedRange(str(_read_network(value, bare=False)), _BY_PROFILE)


def _read_exception_host(value: object) -> HostPattern:
    pattern = read_host(value)
    if pattern.port is not None:
        raise FormError("write the host alone and the port as a key of its own: port = 8443")
    if not pattern.suffix:
        raise FormError(
            "write a host name or *.name: an exception for every host would let any name lead to this address"
        )
    return pattern


def _read_exception(value: object) -> AddressException:
    found = read_table(
        value,
        '{ host = "wiki.internal.example", address = "10.0.0.7", port = 443 }',
        host=_read_exception_host,
        address=lambda address: _read_network(address, bare=True),
        port_optional=read_port,
    )
    return AddressException(found["host"], found["address"], found.get("port"))


def _dump_exception(hole: AddressException) -> Json:
    network = hole.network
    alone = network.first == network.last
    row: dict[str, Json] = {"host": str(hole.host), "address": str(network.ip if alone else network)}
    if hole.port is not None:
        row["port"] = hole.port
    return row


LISTENERS: Form[tuple[Listener, ...]] = Form(
    "a list of one or more tables with address and, optional, profile or agent, anonymous, tls",
    lambda value: read_list(value, _read_listener, least=1),
    lambda found: [_dump_listener(one) for one in found],
)
RANGES: Form[tuple[BlockedRange, ...]] = Form(
    "a list of ranges, each as a string or as a table with cidr and label",
    lambda value: read_list(value, _read_range),
    lambda rows: [{"cidr": row.cidr, "label": row.label} for row in rows],
)
EXCEPTIONS: Form[tuple[AddressException, ...]] = Form(
    "a list of tables with host, address and, optional, port",
    lambda value: read_list(value, _read_exception),
    lambda holes: [_dump_exception(hole) for hole in holes],
)
