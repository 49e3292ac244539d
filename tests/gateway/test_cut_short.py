"""Ends that must show: an answer cut short is never taken for a whole one, and every hop let through is closed."""

from __future__ import annotations

from tests.gateway.lines import wait_line
from tests.kit import replies
from tests.kit.client import Closing
from tests.kit.gateway import World
from tests.kit.sync import Gate


def test_an_http_1_0_client_sees_a_cut_as_a_reset(world: World) -> None:
    """It reads until the close, so a close would look like the end of the page."""
    world.origin.route("/endless-1.0", replies.endless())
    world.origin.route("/whole-1.0", replies.no_length(b"whole"))

    with world.gateway.open() as client:
        client.send(f"GET {world.url('/endless-1.0')} HTTP/1.0\r\n\r\n".encode())
        _, cut = client.receive_until_closed()
    with world.gateway.open() as client:
        client.send(f"GET {world.url('/whole-1.0')} HTTP/1.0\r\n\r\n".encode())
        whole, end = client.receive_until_closed()

    assert (cut, end) == (Closing.RESET, Closing.FIN)
    assert whole.endswith(b"whole")


async def test_a_hop_whose_client_leaves_is_closed_in_the_log(world: World) -> None:
    """One decision line, one close line, also while the gateway still waits for the origin's handshake."""
    held = world.origin.hold_handshake = Gate()
    try:
        with world.gateway.open() as client:
            client.request("GET", world.url("/left"), world.authority())
            await world.origin.wait_connections(1)
            client.abort()

        decision = wait_line(world.gateway, "decision", url=world.url("/left"))
        close = wait_line(world.gateway, "close", fetch_id=decision["fetch_id"])
    finally:
        world.origin.hold_handshake = None
        held.open()

    assert (close["verdict"], close["rule"]) == ("allowed", None)
