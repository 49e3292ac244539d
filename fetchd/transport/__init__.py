"""The daemon's way out: one hop asked of the gateway, its answer streamed as it came off the wire.

`Transport` is the interface; `proxied` is the real one and the only file that knows the HTTP client; `fake`
is the scripted one. Both pass tests/fetchd/transport/test_conformance.py.
"""

from .interface import HopAnswer, HopRequest, Transport

__all__ = ["HopAnswer", "HopRequest", "Transport"]
