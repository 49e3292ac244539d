"""Hook dispatch: the order of the chain, what waits, and what a failure does."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

import pytest
from mitmproxy import hooks, master, options
from mitmproxy.proxy.layers.http import HttpRequestHeadersHook, HttpResponseHeadersHook
from mitmproxy.proxy.layers.http._hooks import HttpErrorHook
from mitmproxy.proxy.server_hooks import ServerConnectHook, ServerConnectionHookData

from proxy_addons.audit import AuditUnavailableError
from proxy_addons.engine.dispatcher import Dispatcher
from proxy_addons.engine.refusals import INTERNAL
from tests.proxy_addons.engine.fakes import Stage


@pytest.fixture
async def stage() -> Stage:
    return Stage()


class Chain:
    """A dispatcher over addons that note when they run."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.ran: list[str] = []
        host = master.Master(options.Options())
        self.dispatcher = Dispatcher(host, stage.sessions, stage.recorder)

    def add(self, name: str, behaviour: str = "sync", hook: str = "requestheaders") -> None:
        """An addon: sync, waits, raises, or raises after waiting."""

        def run(data: Any) -> Awaitable[None] | None:
            if behaviour in ("waits", "raises later"):
                return later()
            self.ran.append(name)
            if behaviour == "raises":
                raise ValueError(name)
            return None

        async def later() -> None:
            await asyncio.sleep(0)
            self.ran.append(name)
            if behaviour == "raises later":
                raise ValueError(name)

        self.dispatcher.add(type("Addon", (), {"name": name, hook: staticmethod(run)})())


async def test_sync_functions_run_at_once_in_the_order_of_the_chain(stage: Stage) -> None:
    chain = Chain(stage)
    for name in "abc":
        chain.add(name)
    assert chain.dispatcher.run(HttpRequestHeadersHook(stage.flow())) is None
    assert chain.ran == ["a", "b", "c"]
    assert not stage.hop.refused and stage.recorder.events == []


async def test_what_follows_a_function_that_waits_waits_with_it(stage: Stage) -> None:
    chain = Chain(stage)
    for name, behaviour in (("a", "sync"), ("b", "waits"), ("c", "sync"), ("d", "waits"), ("e", "sync")):
        chain.add(name, behaviour)
    waiting = chain.dispatcher.run(HttpRequestHeadersHook(stage.flow()))
    assert chain.ran == ["a"] and waiting is not None
    await waiting
    assert chain.ran == ["a", "b", "c", "d", "e"]


@pytest.mark.parametrize("behaviour", ["raises", "raises later"])
@pytest.mark.parametrize("before", [(), ("sync",), ("waits",), ("sync", "waits")])
async def test_after_a_failure_nothing_runs_and_the_hop_is_refused(
    stage: Stage, before: tuple[str, ...], behaviour: str
) -> None:
    chain = Chain(stage)
    for number, earlier in enumerate(before):
        chain.add(f"before-{number}", earlier)
    chain.add("broken", behaviour)
    chain.add("after")
    waiting = chain.dispatcher.run(HttpRequestHeadersHook(stage.flow()))
    if waiting is not None:
        await waiting
    assert chain.ran[-1] == "broken"
    assert stage.hop.refusal is INTERNAL
    assert stage.recorder.events == [("internal", "hook requestheaders failed: ValueError")]


@pytest.mark.parametrize("error", [AuditUnavailableError("full"), RuntimeError("anything")])
async def test_a_refusal_stands_when_it_cannot_be_recorded(stage: Stage, error: Exception) -> None:
    stage.recorder.broken = error
    chain = Chain(stage)
    chain.add("broken", "raises")
    chain.dispatcher.run(HttpRequestHeadersHook(stage.flow()))
    assert stage.hop.refusal is INTERNAL


async def test_a_failure_tells_its_kind_and_not_its_text(stage: Stage) -> None:
    chain = Chain(stage)
    chain.add("the-secret", "raises")
    chain.dispatcher.run(HttpRequestHeadersHook(stage.flow()))
    assert "the-secret" not in str(stage.recorder.events)


async def test_a_failure_of_a_session_that_is_gone_refuses_all_the_same(stage: Stage) -> None:
    flow = stage.flow()
    stage.sessions.drop(stage.client)
    chain = Chain(stage)
    chain.add("broken", "raises")
    chain.dispatcher.run(HttpRequestHeadersHook(flow))
    assert stage.hop.refusal is INTERNAL


async def test_an_addon_without_the_hook_is_not_asked_and_one_added_later_is(stage: Stage) -> None:
    chain = Chain(stage)
    chain.add("other", hook="responseheaders")
    chain.add("one")
    chain.dispatcher.run(HttpRequestHeadersHook(stage.flow()))
    chain.add("late")
    chain.dispatcher.run(HttpRequestHeadersHook(stage.flow()))
    chain.dispatcher.run(HttpResponseHeadersHook(stage.flow()))
    assert chain.ran == ["one", "one", "late", "other"]


class TestPoisoned:
    """A client on which a hook failed gets nothing new."""

    @pytest.mark.parametrize("gone", [True, False])
    async def test_no_connection_is_made_for_it(self, stage: Stage, gone: bool) -> None:
        chain = Chain(stage)
        chain.add("connecting", hook="server_connect")
        if gone:
            stage.sessions.drop(stage.client)
        else:
            stage.client.error = "a hook failed"
        data = ServerConnectionHookData(server=stage.origin, client=stage.client)
        assert chain.dispatcher.run(ServerConnectHook(data)) is None
        assert chain.ran == []
        assert stage.origin.error == INTERNAL.message and stage.origin.failure is INTERNAL

    async def test_a_sound_client_gets_its_connection(self, stage: Stage) -> None:
        chain = Chain(stage)
        chain.add("connecting", hook="server_connect")
        data = ServerConnectionHookData(server=stage.origin, client=stage.client)
        chain.dispatcher.run(ServerConnectHook(data))
        assert chain.ran == ["connecting"] and stage.origin.error is None

    async def test_what_only_takes_note_still_runs(self, stage: Stage) -> None:
        chain = Chain(stage)
        chain.add("audit", hook="error")
        stage.client.error = "a hook failed"
        chain.dispatcher.run(HttpErrorHook(stage.flow()))
        assert chain.ran == ["audit"]


async def test_mitmproxys_own_entry_waits_to_the_end(stage: Stage) -> None:
    chain = Chain(stage)
    chain.add("a", "waits")
    chain.add("b")
    await chain.dispatcher.handle_lifecycle(HttpRequestHeadersHook(stage.flow()))
    assert chain.ran == ["a", "b"]


@pytest.mark.parametrize("behaviour", ["raises", "raises later"])
async def test_a_failure_at_the_start_of_the_process_is_fatal(stage: Stage, behaviour: str) -> None:
    chain = Chain(stage)

    class Running:
        name = "running"

        def running(self) -> Awaitable[None] | None:
            if behaviour == "raises later":
                return self._later()
            raise ValueError

        async def _later(self) -> None:
            raise ValueError

    chain.dispatcher.add(Running())
    with pytest.raises(ValueError):  # noqa: PT011 (the addon's own)
        await chain.dispatcher.trigger_event(hooks.RunningHook())
