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


def test_a_tunnel_of_an_http_1_0_client_ends_in_order(world: World) -> None:
    """The end of a tunnel is no answer cut short: what was sent arrives, and the connection is closed."""
    world.origin.route("/last-1.0", replies.text("x" * 50_000))
    for _ in range(5):
        with world.gateway.open() as client:
            client.send(f"CONNECT {world.authority()} HTTP/1.0\r\n\r\n".encode())
            assert client.read_response("CONNECT").status == 200
            inside = client.start_tls("a.example", world.gateway.ca_path)
            answer = inside.get("/last-1.0", world.authority(), [("Connection", "close")])
            _, end = inside.receive_until_closed()

            assert (len(answer.body), answer.complete, end) == (50_000, True, Closing.FIN)
