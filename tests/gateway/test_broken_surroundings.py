"""Law 5 beyond hooks: a full disk, a lost ledger, a faulty dialer. What stands on them is refused, and comes back."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.gateway.boom import Fault, Manner, Order, Place
from tests.gateway.paths import ALL, WAYS, Ask, Entry
from tests.gateway.walks import MARK, Stage, Story, Walk, faulty_stage
from tests.kit import replies
from tests.kit.sync import Gate


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with faulty_stage(tmp_path_factory.mktemp("boom")) as stage:
        yield stage


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

    assert head.startswith(b"HTTP/1.1 200") and not (head + rest).endswith(b"\r\n0\r\n\r\n")


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
