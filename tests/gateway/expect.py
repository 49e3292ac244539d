"""What every attack is held to: the answer, the rule, the audit line, and whom the gateway spoke to meanwhile.

"Nobody" is a fact here and not a race: before counting, a marker connection and a marker query of the test's own
go to the same servers, and whatever the gateway sent earlier was taken in earlier.
"""

from __future__ import annotations

import itertools
import json
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import dns.message

from tests.gateway.paths import ALL, Ask, Entry, send
from tests.kit.client import NoResponseError, RawConnection, Response
from tests.kit.client_h2 import ConnectionEndedError
from tests.kit.gateway import World
from tests.kit.origin import Origin
from tests.kit.sync import PATIENCE

CLOSED = (NoResponseError, ConnectionEndedError, OSError)
"""What a client sees that is closed without an answer in HTTP (ssl.SSLError is an OSError)."""
_numbers = itertools.count()


@dataclass(frozen=True, slots=True)
class Contacts:
    """Connections to the origins, and look-ups, that the gateway made."""

    connects: int
    queries: int


NOBODY = Contacts(0, 0)


def contacts(world: World) -> Contacts:
    """Whom the gateway has contacted since the last `forget`."""
    connects = sum(_connects(origin) for origin in (world.origin, world.plain))
    return Contacts(connects, _queries(world))


def forget(world: World) -> None:
    """Start counting afresh."""
    contacts(world)
    for origin in (world.origin, world.plain):
        origin.forget()
    world.dns.forget_queries()


def _connects(origin: Origin) -> int:
    with socket.create_connection((origin.host, origin.port), PATIENCE) as marker:
        own = marker.getsockname()[:2]
        origin._watch.wait_sync(lambda: any(c.peer == own for c in origin._connections), "the marker")
        with origin._watch:
            # The marker leaves no trace: a handshake that never came must not look like one of the gateway's.
            origin._connections[:] = [c for c in origin._connections if c.peer != own]
            return len(origin._connections)


def _queries(world: World) -> int:
    marker = f"marker-{next(_numbers)}.test"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.settimeout(PATIENCE)
        client.sendto(dns.message.make_query(marker, "A").to_wire(), ("127.0.0.1", world.dns.port))
        client.recv(4096)
    return sum(not query.name.startswith("marker-") for query in world.dns.queries)


RECENT_BYTES = 64 << 10


def recent_lines(world: World, kind: str, **wanted: object) -> list[dict[str, Any]]:
    """As `GatewayProcess.lines`, of the end of each chain only: no test writes more, and a module writes far more."""
    lines: list[dict[str, Any]] = []
    for path in sorted((world.gateway.state / "audit").glob("*.jsonl")):
        with path.open("rb") as file:
            begin = max(0, path.stat().st_size - RECENT_BYTES)
            file.seek(begin)
            tail = file.read().splitlines(keepends=True)[1 if begin else 0 :]
        lines += [json.loads(line) for line in tail if line.endswith(b"}\n")]
    return [
        line
        for line in lines
        if line.get("kind") == kind and all(line.get(key) == value for key, value in wanted.items())
    ]


def try_send(world: World, entry: Entry, ask: Ask, **options: Any) -> Response | None:
    """As `send`; None when the gateway closed without an answer in HTTP."""
    try:
        return send(world, entry, ask, **options)
    except TimeoutError:
        raise  # left hanging is not closed
    except CLOSED:
        return None


def assert_refused(
    world: World,
    answer: Response | None,
    rule: str,
    status: int,
    *,
    contacted: Contacts = NOBODY,
    closes: bool = False,
) -> None:
    """The answer is a refusal by `rule`, audited as such, and only `contacted` was contacted.

    `closes` allows no answer at all: then the newest decision line tells the rule.
    """
    assert contacts(world) == contacted
    lines = recent_lines(world, "decision", verdict="refused")
    if answer is None:
        assert closes, "closed without an answer"
        assert lines and lines[-1]["rule"] == rule
        return
    assert (answer.status, answer.header("fetchd-rule")) == (status, rule), answer
    assert answer.header("fetchd-verdict") == "refused"
    mine = [line for line in lines if line["fetch_id"] == answer.header("fetchd-id")]
    assert [line["rule"] for line in mine] == [rule]


def assert_allowed(world: World, answer: Response, *, status: int = 200, connects: int = 1) -> None:
    """The answer is the origin's, audited as allowed, and cost exactly one connection."""
    assert (answer.status, answer.header("fetchd-verdict")) == (status, "allowed"), answer
    assert answer.header("fetchd-rule") is None
    assert contacts(world).connects == connects
    mine = recent_lines(world, "decision", fetch_id=answer.header("fetchd-id"))
    assert [line["verdict"] for line in mine] == ["allowed"]


def refuse_beside_twin(
    world: World,
    entry: Entry,
    attack: Ask,
    rule: str,
    status: int,
    *,
    twin: Ask | None = None,
    closes: bool = False,
) -> None:
    """`attack` is refused and nobody is contacted; its honest `twin` connects exactly once."""
    assert_refused(world, try_send(world, entry, attack), rule, status, closes=closes)
    forget(world)
    assert_allowed(world, send(world, entry, twin or Ask()))
    forget(world)


def audited(world: World, condition: Callable[[dict[str, Any]], bool], kind: str = "decision") -> bool:
    """Whether some audit line of this kind fits."""
    return any(condition(line) for line in recent_lines(world, kind))


def ended(connection: RawConnection) -> bytes:
    """Everything until the gateway closes; a reset counts as an end."""
    data, _ = connection.receive_until_closed()
    return data


__all__ = [
    "ALL",
    "CLOSED",
    "NOBODY",
    "Contacts",
    "assert_allowed",
    "assert_refused",
    "audited",
    "contacts",
    "ended",
    "forget",
    "recent_lines",
    "refuse_beside_twin",
    "try_send",
]
