"""What stands around the engine in its unit tests: a session whose control and recorder only take note."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

from mitmproxy import http
from mitmproxy.connection import Client, ConnectionState, Server
from mitmproxy.proxy.commands import StartHook
from mitmproxy.proxy.events import Event
from mitmproxy.test import tflow

from proxy_addons.engine.hops import Entry, Hop, Origin, Session, Sessions, attach_hop
from proxy_addons.policy.config import parse_config
from proxy_addons.policy.limits import DEFAULT_PROFILE
from proxy_addons.policy.rulebook import CurrentRules, Rulebook
from proxy_addons.policy.verdicts import Verdict
from proxy_addons.policy.wire import HopContext


@dataclass
class NotedControl:
    """A `ConnectionControl`; `done` is what was asked of it."""

    done: list[str] = field(default_factory=list)

    def abort(self, why: str) -> None:
        self.done.append(f"abort: {why}")

    def end(self, name: str, why: str) -> None:
        self.done.append(f"end: {name}, {why}")

    def reset_client(self) -> None:
        self.done.append("reset client")

    def abort_origin(self, origin: Server, why: str) -> None:
        self.done.append(f"abort origin: {why}")

    def later(self, event: Event) -> None:
        self.done.append(f"later: {event}")

    def run_hook(self, hook: StartHook) -> bool:
        self.done.append(f"run hook: {hook.name}")
        return True

    def watch_resets(self, origin: Server) -> None:
        self.done.append("watch resets")

    def arm(self, seconds: float, why: str) -> None:
        self.done.append(f"arm: {why}")

    def disarm(self) -> None:
        self.done.append("disarm")


@dataclass
class NotedRecorder:
    """A `Recorder`; raises `broken` from every call when it is set."""

    events: list[tuple[str, str]] = field(default_factory=list)
    broken: Exception | None = None

    def _note(self, name: str, detail: str) -> None:
        if self.broken is not None:
            raise self.broken
        self.events.append((name, detail))

    def decided(self, hop: Hop) -> None:
        self._note("decided", hop.fetch_id)

    def closed(self, hop: Hop, error: str | None = None) -> None:
        self._note("closed", hop.fetch_id)

    def refused(self, session: Session, verdict: Verdict) -> HopContext:
        self._note("refused", verdict.message)
        return HopContext("0" * 16, 0, "policy")

    def event(self, session: Session | None, name: str, detail: str) -> None:
        self._note(name, detail)


RULES = CurrentRules(Rulebook(parse_config({}, source="test")))


class Stage:
    """One session with one hop of it, known to `sessions`."""

    def __init__(self) -> None:
        self.control, self.recorder = NotedControl(), NotedRecorder()
        self.client = Client(peername=("127.0.0.1", 1), sockname=("127.0.0.1", 2), state=ConnectionState.OPEN)
        entry = Entry("127.0.0.1", 2, RULES, 0)
        self.session = Session(self.client, entry, self.control, self.recorder)
        self.sessions = Sessions()
        self.sessions.add(self.session)
        self.hop = Hop(self.session, "0" * 16, "GET", DEFAULT_PROFILE, "agent", 0.0)
        self.origin = Origin(address=("a.example", 443))

    def flow(self, *, with_hop: bool = True) -> http.HTTPFlow:
        """A flow of this session."""
        flow = tflow.tflow(client_conn=self.client, server_conn=self.origin, resp=True)
        if with_hop:
            attach_hop(flow, self.hop)
        return flow

    def about(self, **members: Any) -> Any:
        """An object with these members, as hooks get for things that are no flow."""
        return type("HookData", (), members)()


class Clock(asyncio.SelectorEventLoop):
    """A loop whose time is set."""

    now = 0.0

    def time(self) -> float:
        return self.now

    def ring(self, seconds: float) -> None:
        """So much later; what is due then is run."""
        self.now += seconds
        self.call_soon(self.stop)
        self.run_forever()
