"""Law 5 on the running gateway: whatever hook of ours raises, nothing passes and the audit says so.

A rehearsal walks every way in, through success and each kind of failure, and records which hooks ran. Then each hook
is broken on each walk on which it was met, before and after the other addons, at once and after a wait. No list of
hooks is kept here: a hook that mitmproxy or we begin to use is in the next run.
"""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import pytest

from proxy_addons.engine.fail_closed import REMEDIES
from tests.gateway.boom import Fault, HookDirector, Manner, Order, Place
from tests.gateway.paths import (
    ALL,
    TLS_TUNNELS,
    WAYS,
    WEBSOCKET_FIELDS,
    Ask,
    Entry,
    listener_tls,
    send,
    tunnel,
)
from tests.kit import replies
from tests.kit.client import NoResponseError, RawConnection, Response
from tests.kit.client_h2 import ConnectionEndedError, StreamResetError
from tests.kit.exchange import Exchange
from tests.kit.gateway import ORIGIN_ADDRESS, World
from tests.kit.origin import Origin
from tests.kit.pki import Pki
from tests.kit.sync import Gate

MARK = b"only the origin knows this"
MESSAGE = b"only the agent knows this"
NOBODY_LISTENS = {"https": 443, "http": 80}

NOT_DIALLED = frozenset(
    """client_connected next_layer tls_clienthello tls_start_client tls_established_client http_connect
    http_connected requestheaders request server_connect""".split()
)
"""Broken in one of these, not one connection is made."""
NOT_ASKED = frozenset({"server_connected", "tls_start_server", "tls_established_server"})
"""Broken in one of these, the origin gets not one byte of HTTP."""
NOT_DELIVERED = frozenset({"responseheaders", "websocket_start", "websocket_message"})
"""Broken in one of these, nothing that the origin said reaches the client."""
AFTER_THE_FACT = REMEDIES.keys() - NOT_DIALLED - NOT_ASKED - NOT_DELIVERED
"""The rest: what was delivered is delivered, but the connection ends."""

SPARE = frozenset({"http_connect_error"})
"""Hooks with a remedy that nothing calls any more: a refused CONNECT is answered by our stream."""


class Story(StrEnum):
    """What happens on a walk."""

    ANSWERED = "the origin answers"
    BROKEN_OFF = "the origin closes before its answer"
    UNREACHABLE = "nobody listens"
    UNTRUSTED = "the certificate of the origin is not trusted"
    DISTRUSTFUL = "the client does not trust the gateway"


@dataclass(frozen=True)
class Walk:
    entry: Entry
    story: Story

    def __str__(self) -> str:
        return f"{self.entry}, {self.story}"


@dataclass(frozen=True)
class Outcome:
    """What the client got; `answer` is None when it got no HTTP answer, `whole` tells of a complete one."""

    answer: Response | None
    received: bytes
    whole: bool


def walks() -> Iterator[Walk]:
    for entry in ALL:
        for story in (Story.ANSWERED, Story.BROKEN_OFF, Story.UNREACHABLE):
            yield Walk(entry, story)
        if entry.scheme == "https":
            yield Walk(entry, Story.UNTRUSTED)
        if entry in TLS_TUNNELS:
            yield Walk(entry, Story.DISTRUSTFUL)


class Stage:
    """The world with the faulty gateway in it."""

    def __init__(self, world: World, director: HookDirector, untrusted: Origin) -> None:
        self.world, self.director, self.untrusted = world, director, untrusted
        self._read: dict[Path, int] = {}

    @property
    def origins(self) -> tuple[Origin, ...]:
        return self.world.origin, self.world.plain, self.untrusted

    def walk(self, walk: Walk) -> Outcome:
        """Go, and come back when the gateway has let go of the connection."""
        for origin in self.origins:
            origin.forget()
        outcome = self._go(walk)
        self.director.wait_over()
        return outcome

    def _go(self, walk: Walk) -> Outcome:
        entry, story = walk.entry, walk.story
        ask = Ask(
            path="/broken" if story is Story.BROKEN_OFF else "/page",
            port={
                Story.UNREACHABLE: NOBODY_LISTENS[entry.scheme],
                Story.UNTRUSTED: self.untrusted.port,
            }.get(story),
        )
        try:
            if story is Story.DISTRUSTFUL:
                return self._distrust(entry, ask)
            if entry is Entry.WEBSOCKET:
                return self._talk(ask)
            answer = send(self.world, entry, ask)
        except TimeoutError:
            raise
        except NoResponseError as error:
            return Outcome(None, error.received, False)
        except StreamResetError as error:
            return Outcome(error.response, error.response.body if error.response else b"", False)
        except (ConnectionEndedError, ssl.SSLError, ConnectionError):
            return Outcome(None, b"", False)
        return Outcome(answer, answer.body, answer.complete)

    def _talk(self, ask: Ask) -> Outcome:
        with (
            self.world.gateway.open(1) as proxy,
            tunnel(self.world, proxy, Entry.WEBSOCKET, ask) as inside,
        ):
            if isinstance(inside, Response):
                return Outcome(inside, inside.body, True)
            named = ask.named(self.world, Entry.WEBSOCKET)
            inside.request("GET", ask.path, named, WEBSOCKET_FIELDS)
            answer = inside.read_response()
            if answer.status != 101:
                return Outcome(answer, answer.body, answer.complete)
            inside.send(text_frame(MESSAGE, mask=True))
            received, _ = inside.receive_until_closed()
            return Outcome(answer, received, MARK in received)

    def _distrust(self, entry: Entry, ask: Ask) -> Outcome:
        with self.world.gateway.open(1) as proxy:
            outer = self._outer(entry, proxy)
            answer = outer.connect(ask.authority(self.world, entry))
            if answer.status == 200 and outer is proxy:
                proxy.start_tls("a.example", self.world.pki.ca_path)
            elif answer.status == 200:
                outer.send(b"\x16\x03\x01\x00\x02\x01\x00")  # a hello that breaks off
                outer.finish_sending()
                received, _ = outer.receive_until_closed()
                return Outcome(answer, received, False)
            return Outcome(answer, answer.body, True)

    def _outer(self, entry: Entry, proxy: RawConnection) -> RawConnection:
        return listener_tls(self.world, proxy) if entry is Entry.TLS_LISTENER_CONNECT else proxy

    def new_lines(self) -> list[dict[str, Any]]:
        """Audit lines since the last call."""
        lines: list[dict[str, Any]] = []
        for path in sorted((self.world.gateway.state / "audit").glob("*.jsonl")):
            with path.open("rb") as log:
                log.seek(self._read.get(path, 0))
                text = log.read()
            whole = text[: text.rfind(b"\n") + 1]
            self._read[path] = self._read.get(path, 0) + len(whole)
            lines += [json.loads(line) for line in whole.splitlines()]
        return lines


def text_frame(text: bytes, *, mask: bool) -> bytes:
    """A WebSocket text frame (RFC 6455, 5.2); the mask is zero."""
    return bytes([0x81, len(text) | (0x80 if mask else 0)]) + (bytes(4) if mask else b"") + text


def unmask(frame: bytes) -> bytes:
    """The payload of a short masked frame."""
    mask, payload = frame[2:6], frame[6:]
    return bytes(byte ^ mask[at % 4] for at, byte in enumerate(payload))


async def socket_route(exchange: Exchange) -> None:
    """A WebSocket origin: says MARK, hears one message, closes."""
    if not exchange.request.values("upgrade"):
        await replies.chunked([MARK])(exchange)
        return
    await exchange.start(101, [("connection", "upgrade"), ("upgrade", "websocket")])
    await exchange.raw(text_frame(MARK, mask=False))
    frame = b""
    while len(frame) < 6 + len(MESSAGE):
        data = await exchange.read()
        if not data:
            return
        frame += data
    with exchange.connection.watch:
        exchange.connection.notes.append(unmask(frame).decode())
    await exchange.raw(b"\x88\x00")
    await exchange.close()


class _World(World):
    """The usual world with one port more and the faulty gateway."""

    def __init__(self, folder: Path, port: int, director: HookDirector) -> None:
        super().__init__(folder, python=("-m", "tests.gateway.boom", str(director.path)))
        self._port = port

    def config(self) -> dict[str, Any]:
        config = super().config()
        for profile in config["profiles"].values():
            profile["ports"] = [*profile["ports"], self._port]
        return config


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    folder = tmp_path_factory.mktemp("boom")
    foreign = Pki(tmp_path_factory.mktemp("foreign"))
    with (
        HookDirector(folder) as director,
        Origin(ORIGIN_ADDRESS, tls=foreign.server_context("a.example")) as untrusted,
        _World(folder, untrusted.port, director) as world,
    ):
        for origin in (world.origin, world.plain):
            origin.route("/page", socket_route)
            origin.route("/broken", replies.wire(b""))
        yield Stage(world, director, untrusted)


@pytest.fixture(scope="module")
def rehearsal(stage: Stage) -> Mapping[Walk, list[str]]:
    """Which hooks each walk meets when nothing is broken."""
    met = {}
    for walk in walks():
        stage.director.arm(None)
        stage.walk(walk)
        met[walk] = stage.director.seen
    stage.new_lines()
    return met


def test_every_hook_that_runs_has_a_remedy(rehearsal: Mapping[Walk, list[str]]) -> None:
    met = {hook for hooks in rehearsal.values() for hook in hooks}
    assert met == REMEDIES.keys() - SPARE


@pytest.mark.parametrize("entry", ALL)
def test_unbroken_every_way_in_brings_the_page_home(stage: Stage, entry: Entry) -> None:
    stage.director.arm(None)
    outcome = stage.walk(Walk(entry, Story.ANSWERED))
    assert MARK in outcome.received and outcome.whole
    assert sum(origin.accepts for origin in stage.origins) == 1
    assert not any(line.get("event") == "internal" for line in stage.new_lines())


@pytest.mark.parametrize("manner", [Manner.RAISE, Manner.RAISE_LATER])
@pytest.mark.parametrize("place", Place)
@pytest.mark.parametrize("hook", sorted(REMEDIES.keys() - SPARE))
def test_a_broken_hook_lets_nothing_pass(
    stage: Stage, rehearsal: Mapping[Walk, list[str]], hook: str, place: Place, manner: Manner
) -> None:
    met_on = [walk for walk, hooks in rehearsal.items() if hook in hooks]
    assert met_on
    for walk in met_on:
        stage.director.arm(Order(hook, place, manner))
        outcome = stage.walk(walk)
        said = f"{walk}: {outcome}"

        assert stage.director.fired, said
        if hook in NOT_DIALLED:
            assert [origin.accepts for origin in stage.origins] == [0, 0, 0], said
        if hook in NOT_DIALLED | NOT_ASKED:
            assert [origin.requests for origin in stage.origins] == [[], [], []], said
        if hook in NOT_DIALLED | NOT_ASKED | NOT_DELIVERED:
            assert MARK not in outcome.received, said
        if hook == "websocket_message":
            assert [link.notes for link in stage.world.origin.connections] == [[]], said
        if hook == "response" and walk.story is Story.ANSWERED:
            assert not outcome.whole, said
        answer = outcome.answer
        if answer is not None and answer.header("fetchd-verdict") == "refused":
            assert hook in AFTER_THE_FACT or answer.header("fetchd-rule") == "internal", said
            assert b"Broken" not in answer.body and b"purpose" not in answer.body, said
        events = [line for line in stage.new_lines() if line.get("event") == "internal"]
        assert f"hook {hook} failed: Broken" in [line["detail"] for line in events], said


BROKEN_AND_MENDED = {
    "the ledger of redirects is gone": (Fault.LEDGER_GONE, Fault.LEDGER_BACK, "internal"),
    "the dialer raises what is no OSError": (Fault.DIALER_BROKEN, Fault.DIALER_WHOLE, "internal"),
    "the disk of the audit log is full": (Fault.DISK_FULL, Fault.DISK_FREE, "audit-unavailable"),
}


@pytest.mark.parametrize("entry", ALL)
@pytest.mark.parametrize("sentence", BROKEN_AND_MENDED)
def test_broken_surroundings_refuse_every_hop_until_they_are_mended(
    stage: Stage, sentence: str, entry: Entry
) -> None:
    broken, mended, rule = BROKEN_AND_MENDED[sentence]
    walk = Walk(entry, Story.ANSWERED)
    stage.director.arm(None)
    stage.director.cause(broken)
    refused = stage.walk(walk).answer
    asked = [origin.accepts for origin in stage.origins]
    stage.director.arm(None)
    stage.director.cause(mended)
    allowed = stage.walk(walk)

    assert refused is not None
    assert (refused.status, refused.header("fetchd-rule"), asked) == (503, rule, [0, 0, 0])
    assert MARK in allowed.received and allowed.whole
    assert sum(origin.accepts for origin in stage.origins) == 1


def test_a_full_disk_stops_the_second_request_of_a_connection(stage: Stage) -> None:
    stage.director.arm(None)
    stage.world.plain.forget()
    with stage.world.gateway.open(1) as proxy:
        url, host = stage.world.plain_url("/page"), f"a.example:{stage.world.plain.port}"
        first = proxy.get(url, host)
        stage.director.cause(Fault.DISK_FULL)
        second = proxy.get(url, host)
        stage.director.cause(Fault.DISK_FREE)
        third = proxy.get(url, host)

    assert [answer.status for answer in (first, second, third)] == [200, 503, 200]
    assert second.header("fetchd-rule") == "audit-unavailable"
    assert len(stage.world.plain.requests) == 2


def test_a_disk_that_fills_during_the_body_cuts_it(stage: Stage) -> None:
    """The close line cannot be written, so the answer must not look complete."""
    gate = Gate()
    stage.director.arm(None)
    stage.world.plain.route("/slow", replies.trickle([MARK], [gate]))
    with stage.world.gateway.open(1) as proxy:
        proxy.request("GET", stage.world.plain_url("/slow"), f"a.example:{stage.world.plain.port}")
        head = proxy.receive()
        stage.director.cause(Fault.DISK_FULL)
        gate.open()
        rest, _ = proxy.receive_until_closed()
    stage.director.cause(Fault.DISK_FREE)
    stage.walk(Walk(Entry.ABSOLUTE_HTTP, Story.ANSWERED))

    assert head.startswith(b"HTTP/1.1 200") and not (head + rest).endswith(b"0\r\n\r\n")


@pytest.mark.parametrize("entry", [Entry.ABSOLUTE_HTTP, Entry.CONNECT_H2])
def test_an_upload_whose_last_hook_breaks_never_ends_at_the_origin(stage: Stage, entry: Entry) -> None:
    """`request` runs when a streamed body is through: what is left to withhold is its end."""
    fields = [] if entry is Entry.CONNECT_H2 else [("Transfer-Encoding", "chunked")]
    body = b"up" if entry is Entry.CONNECT_H2 else b""
    for origin in stage.origins:
        origin.forget()
    stage.director.arm(Order("request", Place.FIRST, Manner.RAISE))
    with stage.world.gateway.open(1) as proxy:
        ask = Ask("/page", method="POST", headers=fields, body=body)
        if entry is Entry.CONNECT_H2:
            answer = WAYS[entry](stage.world, proxy, ask)
        else:
            url = stage.world.plain_url("/page")
            proxy.request("POST", url, f"a.example:{stage.world.plain.port}", fields)
            proxy.send(b"2\r\nup\r\n0\r\n\r\n")
            answer = proxy.read_response("POST")
    stage.director.wait_over()

    assert (answer.status, answer.header("fetchd-rule")) == (503, "internal")
    assert entry.origin(stage.world).requests == []
