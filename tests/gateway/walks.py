"""Walks through a gateway with a fault on command (`boom`): every way in, by every story a request can have."""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from tests.gateway.boom import HookDirector
from tests.gateway.paths import (
    ALL,
    TLS_TUNNELS,
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

MARK = b"only the origin knows this"
MESSAGE = b"only the agent knows this"
NOBODY_LISTENS = {"https": 443, "http": 80}


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


@contextmanager
def faulty_stage(folder: Path) -> Iterator[Stage]:
    """The faulty gateway between its clients and origins."""
    (folder / "foreign").mkdir()
    foreign = Pki(folder / "foreign")
    with (
        HookDirector(folder) as director,
        Origin(ORIGIN_ADDRESS, tls=foreign.server_context("a.example")) as untrusted,
        _World(folder, untrusted.port, director) as world,
    ):
        for origin in (world.origin, world.plain):
            origin.route("/page", socket_route)
            origin.route("/broken", replies.wire(b""))
        yield Stage(world, director, untrusted)
