"""N20: an origin's stream that waits is given no more window, and all others go on."""

from __future__ import annotations

import h2.config
import h2.connection
import h2.events

from proxy_addons.engine.http2 import STREAM_WINDOW, PatientH2Connection

HEAD = [(":method", "GET"), (":scheme", "https"), (":authority", "a.example"), (":path", "/")]
WAITS, GOES_ON = 1, 3


class Pair:
    """Our connection to an origin and the origin's end of it, with two requests under way."""

    def __init__(self) -> None:
        self.waiting = {WAITS}
        config = h2.config.H2Configuration(client_side=True, header_encoding=False)
        self.ours = PatientH2Connection(config, self.waiting.__contains__)
        self.origin = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))
        self.ours.initiate_connection()
        self.origin.initiate_connection()
        for stream in (WAITS, GOES_ON):
            self.ours.send_headers(stream, HEAD, end_stream=True)
        self.exchange()
        for stream in (WAITS, GOES_ON):
            self.origin.send_headers(stream, [(":status", "200")])
        self.exchange()

    def exchange(self) -> None:
        """Carry what both have to say; our side acknowledges as mitmproxy does, as soon as bytes are there."""
        while data := self.ours.data_to_send():
            self.origin.receive_data(data)
        while data := self.origin.data_to_send():
            for event in self.ours.receive_data(data):
                if isinstance(event, h2.events.DataReceived):
                    self.ours.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        while data := self.ours.data_to_send():
            self.origin.receive_data(data)

    def pour(self, stream: int, size: int) -> int:
        """Send up to `size` octets on a stream; how many the windows took."""
        sent = 0
        while sent < size:
            room = min(
                self.origin.local_flow_control_window(stream),
                self.origin.max_outbound_frame_size,
                size - sent,
            )
            if room <= 0:
                break
            self.origin.send_data(stream, bytes(room))
            sent += room
            self.exchange()
        return sent


def test_a_stream_that_waits_takes_one_window_and_no_more() -> None:
    pair = Pair()
    assert pair.pour(WAITS, 10 * STREAM_WINDOW) == STREAM_WINDOW
    assert pair.ours.owed[WAITS] == STREAM_WINDOW


def test_the_others_take_all_they_get_meanwhile() -> None:
    pair = Pair()
    pair.pour(WAITS, STREAM_WINDOW)
    assert pair.pour(GOES_ON, 10 * STREAM_WINDOW) == 10 * STREAM_WINDOW
    assert pair.ours.owed[GOES_ON] == 0


def test_what_waited_costs_the_connection_nothing() -> None:
    pair = Pair()
    before = pair.origin.outbound_flow_control_window
    pair.pour(WAITS, STREAM_WINDOW)
    assert pair.origin.outbound_flow_control_window == before


def test_given_back_the_window_is_whole_again() -> None:
    pair = Pair()
    pair.pour(WAITS, STREAM_WINDOW)
    pair.waiting.clear()
    pair.ours.increment_flow_control_window(pair.ours.owed.pop(WAITS), WAITS)
    pair.exchange()
    assert pair.pour(WAITS, 10 * STREAM_WINDOW) == 10 * STREAM_WINDOW
