"""Law 5 on the running gateway: whatever hook of ours raises, nothing passes and the audit says so.

A rehearsal walks every way in, through success and each kind of failure, and records which hooks ran. Then each hook
is broken on each walk on which it was met, before and after the other addons, at once and after a wait. No list of
hooks is kept here: a hook that mitmproxy or we begin to use is in the next run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from proxy_addons.engine.fail_closed import REMEDIES
from tests.gateway.boom import Manner, Order, Place
from tests.gateway.paths import ALL, Entry
from tests.gateway.walks import MARK, Stage, Story, Walk, faulty_stage, walks

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


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with faulty_stage(tmp_path_factory.mktemp("boom")) as stage:
        yield stage


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
