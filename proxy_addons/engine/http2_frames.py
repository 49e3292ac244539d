"""What HTTP/2 frames may cost, on both sides.

N21  a frame costs about 0.1 ms whatever it holds: one read of DATA frames of one octet, PINGs or SETTINGS stopped the
     worker for half a second, and an origin could go on so for as long as its hop. Frames that move little are drawn
     from a budget; a peer that spends it is told to calm down, and the connection ends.
N23  h2 bounds what a header block comes to, and reads a megabyte of it before: Huffman codes or table sizes that come
     to nothing stopped the worker for a second.
"""

import time
from typing import Any

from h2.exceptions import DenialOfServiceError
from hyperframe.frame import DataFrame, HeadersFrame
from mitmproxy.proxy.layers.http._http_h2 import BufferedH2Connection

from proxy_addons.policy.limits import MAX_HEAD_BYTES

SMALL_FRAME = 32
"""Octets of a DATA frame that still counts as moving little; an event of a token stream has more."""
FREE_FRAMES = 4096
FRAMES_A_SECOND = 256
BYTES_A_FRAME = 256
"""Octets moved either way that earn a frame: window updates and acknowledgements come with them."""


class GateH2Connection(BufferedH2Connection):
    """mitmproxy's connection with a budget for small frames."""

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self._spare = float(FREE_FRAMES)
        self._counted = time.monotonic()

    def send_data(
        self, stream_id: int, data: bytes | memoryview, end_stream: bool = False, pad_length: None = None
    ) -> None:
        """As in mitmproxy."""
        self._earn(len(data))
        super().send_data(stream_id, bytes(data), end_stream, pad_length)

    def _receive_frame(self, frame: Any) -> Any:
        if isinstance(frame, DataFrame) and frame.body_len >= SMALL_FRAME:
            self._earn(frame.body_len)
        elif not isinstance(frame, HeadersFrame):  # a message costs more, and is bounded otherwise
            self._spend()
        elif len(frame.data) > MAX_HEAD_BYTES:
            raise DenialOfServiceError("header block too long")
        return super()._receive_frame(frame)

    def _earn(self, moved: int) -> None:
        self._spare = min(FREE_FRAMES, self._spare + moved / BYTES_A_FRAME)

    def _spend(self) -> None:
        self._spare -= 1
        if self._spare < 0:
            now = time.monotonic()
            self._spare += min(FREE_FRAMES, (now - self._counted) * FRAMES_A_SECOND)
            self._counted = now
        if self._spare < 0:
            raise DenialOfServiceError("too many frames that move nothing")
