"""What holding web tools costs a call of a model: milliseconds to the first byte of a streamed answer.

The same calls, turn by turn, over tunnels that are kept: at a host that is no vendor's, and at one whose web tools
are passed, and enforced. The difference is what reading the answer and holding the body add.
`python -m benchmarks --part vendors`.
"""

import json
import socket
import ssl
import statistics
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from benchmarks.rounds import LoadFailedError
from benchmarks.stage import ADDRESS, HOST, Place, ServerProcess
from benchmarks.vendor_site import FIRST
from tests.kit.gateway import GatewayProcess

SIZES = (8 << 10, 64 << 10, 1 << 20)
CALLS = 40
"""A turn of one size and one way."""
FIRST_BYTE_BOUND_MS = 5.0
BOUND_SIZE = 64 << 10
"""Up to here the bound is expected to hold; a longer body takes its time to arrive before it can be judged."""
WAYS = ("no vendor", "pass", "enforce")


@dataclass(frozen=True, slots=True)
class VendorRow:
    """Medians for bodies of `size` bytes: milliseconds to the first byte, by way."""

    size: int
    ms: Mapping[str, float]

    @property
    def added_ms(self) -> float:
        """What enforcing adds to a call that nobody looks at."""
        return self.ms["enforce"] - self.ms["no vendor"]


def measure_vendors(place: Place, rounds: int, say: Callable[[str], None]) -> list[VendorRow]:
    """A row for each size; raises LoadFailedError."""
    with ServerProcess("benchmarks.vendor_site", ADDRESS, str(place.certificate)) as site:
        base = {
            "ports": [site.port], "methods": ["POST"], "request_body": True, "request_cap": 4 << 20,
            "exceptions": [{"host": HOST, "address": ADDRESS}],
        }  # fmt: skip
        config: dict[str, Any] = {
            "gateway": {
                "listeners": [{"address": "127.0.0.1:0", "profile": name} for name in ("passing", "held")]
            },
            "dns": {"nameservers": [f"127.0.0.1:{place.dns_port}"]},
            "tls": {"extra_ca": [str(place.origin_ca)]},
            "daemon": {"listen": "127.0.0.1:0"},
            "operator": {"listen": "127.0.0.1:0"},
            "profiles": {"passing": {**base, "web_tools": "pass"}, "held": base},
        }
        vendor = {**config, "vendors": {"anthropic": {"hosts": [HOST]}}}
        with ExitStack() as stack:
            plain = stack.enter_context(GatewayProcess(config, place.folder / "vendors-plain"))
            held = stack.enter_context(GatewayProcess(vendor, place.folder / "vendors-held"))
            callers = {
                way: stack.enter_context(Caller(gateway, listener, site.port))
                for way, gateway, listener in zip(WAYS, (plain, held, held), (1, 0, 1), strict=True)
            }
            return [_measure(callers, size, rounds, say) for size in SIZES]


def _measure(
    callers: Mapping[str, "Caller"], size: int, rounds: int, say: Callable[[str], None]
) -> VendorRow:
    say(f"calls of a model with bodies of {size >> 10} KiB")
    body = render_body(size)
    times: dict[str, list[float]] = {way: [] for way in callers}
    for turn in range(rounds + 1):
        for way, caller in callers.items():
            found = [caller.call(body) for _ in range(CALLS)]
            times[way] += found if turn else []  # the first turn warms up
    return VendorRow(size, {way: statistics.median(found) for way, found in times.items()})


def render_body(size: int) -> bytes:
    """A conversation of about `size` bytes with a web search that has to be narrowed."""
    words = "A sentence of ordinary length stands here. " * (size // 43 // 20 + 1)
    messages = [{"role": "user", "content": [{"type": "text", "text": words}]}] * 20
    tool = {"type": "web_search_20250305", "name": "web_search"}
    return json.dumps(
        {"model": "m", "max_tokens": 10, "stream": True, "messages": messages, "tools": [tool]}
    ).encode()


class Caller:
    """A tunnel that is kept, through one listener."""

    def __init__(self, gateway: GatewayProcess, listener: int, port: int) -> None:
        self._gateway, self._listener, self._authority = gateway, listener, f"{HOST}:{port}"

    def __enter__(self) -> "Caller":
        host, port, _ = self._gateway.listeners[self._listener]
        sock = socket.create_connection((host, port), 30)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.sendall(f"CONNECT {self._authority} HTTP/1.1\r\nHost: {self._authority}\r\n\r\n".encode())
        if not sock.recv(4096).startswith(b"HTTP/1.1 200"):
            raise LoadFailedError("no tunnel for a call of a model")
        context = ssl.create_default_context(cafile=str(self._gateway.ca_path))
        self._tls = context.wrap_socket(sock, server_hostname=HOST)
        return self

    def __exit__(self, *_: object) -> None:
        self._tls.close()

    def call(self, body: bytes) -> float:
        """Milliseconds from the request to the first byte of the answer's body."""
        head = (
            f"POST /v1/messages HTTP/1.1\r\nHost: {self._authority}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        begun = time.perf_counter()
        self._tls.sendall(head.encode() + body)
        got, first = b"", 0.0
        while not got.endswith(b"0\r\n\r\n"):
            more = self._tls.recv(65536)
            if not more:
                break
            got += more
            if not first and FIRST[:20] in got:
                first = time.perf_counter()
        if not first:
            raise LoadFailedError(f"a call of a model was answered {got[:200]!r}")
        return (first - begun) * 1e3
