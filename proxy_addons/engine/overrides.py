"""Where our layers take the place of mitmproxy's: the names are asserted, then set, once, by the composition root.

mitmproxy makes its HTTP readers, connections and error pages from module globals. The version is pinned exactly; if a
name has moved all the same, the worker does not start.
"""

import inspect
import sys
from importlib.metadata import version

from mitmproxy import addonmanager, http, options, optmanager
from mitmproxy.addons import tlsconfig
from mitmproxy.net import tls as net_tls
from mitmproxy.proxy import mode_servers, server
from mitmproxy.proxy.layers import http as mhttp
from mitmproxy.proxy.layers import tls as mtls
from mitmproxy.proxy.layers import websocket
from mitmproxy.proxy.layers.http import _http1, _http2, _http_h2

from proxy_addons.engine import lean
from proxy_addons.engine.client_hello import parse_client_hello
from proxy_addons.engine.hops import Origin
from proxy_addons.engine.http1 import GateHttp1Client, GateHttp1Server, make_body_reader, make_error_response
from proxy_addons.engine.http2 import GateHttp2Client, GateHttp2Server, parse_request_headers
from proxy_addons.engine.http2_frames import GateH2Connection
from proxy_addons.engine.lean_layers import GateHttpClient, GateServerTlsLayer
from proxy_addons.engine.websocket import GateWebsocketLayer

PINNED = "12.3.1"

EXPECTED: tuple[tuple[object, tuple[str, ...]], ...] = (
    (mhttp, ("Http1Server", "Http1Client", "Http2Server", "Http2Client", "Server", "HttpStream", "validate_headers")),
    (mhttp.HttpStream, ("check_killed", "check_invalid", "make_server_connection", "handle_protocol_error",
                        "state_stream_request_body", "state_stream_response_body", "start_response_stream",
                        "send_response", "passthrough")),
    (mhttp.HttpLayer, ("make_stream", "get_connection", "event_to_child")),
    (mhttp, ("HttpClient", "tls")),
    (mhttp.HttpStream, ("_handle_event", "state_wait_for_request_headers", "state_consume_request_body")),
    (mtls, ("ServerTLSLayer", "parse_client_hello", "get_client_hello")),
    (mtls.TLSLayer, ("handle_event", "event_to_child", "tls_interact", "receive_data", "send_data")),
    (websocket, ("WebsocketLayer",)),
    (_http1, ("make_body_reader", "make_error_response", "ChunkedReader", "Http10Reader", "ContentLengthReader")),
    (_http1.Http1Server, ("read_headers", "read_body", "mark_done")),
    (_http1.Http1Client, ("send", "read_headers", "read_body", "mark_done")),
    (_http2, ("parse_h2_request_headers", "BufferedH2Connection")),
    (_http2.BufferedH2Connection, ("send_data", "_receive_frame")),
    (_http2.Http2Server, ("handle_h2_event", "protocol_error")),
    (_http_h2.BufferedH2Connection, ("acknowledge_received_data", "increment_flow_control_window")),
    (websocket.WebsocketLayer, ("handle_event",)),
    (server.ConnectionHandler, ("server_event", "drain_writers", "handle_hook", "open_connection", "wakeup")),
    (server.ConnectionHandler, ("handle_client", "handle_connection")),
    (server.LiveConnectionHandler, ("__init__",)),
    (mode_servers.ProxyConnectionHandler, ("handle_hook",)),
    (addonmanager.AddonManager, ("handle_lifecycle", "trigger_event", "trigger", "invoke_addon_sync")),
    (tlsconfig.TlsConfig, ("tls_start_client", "tls_start_server", "get_cert", "request")),
    (tlsconfig, ("_default_ciphers", "DEFAULT_HOSTFLAGS")),
    (net_tls, ("create_proxy_server_context", "log_master_secret")),
    (net_tls.create_client_proxy_context, ("__wrapped__",)),
    (http.MessageData, ("__post_init__",)),
    (optmanager._Option, ("value", "_default")),
    *((holder, (name,)) for holder, name, _ in lean.REPLACED),
)  # fmt: skip
"""Every name of mitmproxy that something here overrides or reaches for."""

_MOVED = object()

FORBIDDEN_OPTIONS = (
    "emudhra", "emudhra_old", "ssl_insecure", "rawtcp", "request_client_cert", "store_streamed_bodies",
)  # fmt: skip
"""Options that open a side door (N13, raw tunnels, unverified origins, bodies kept whole); each must be off."""


class IncompatibleMitmproxyError(RuntimeError):
    """mitmproxy is not the version this wall was built on; names what differs."""


def install_overrides() -> None:
    """Put our layers in place; raises IncompatibleMitmproxyError. Idempotent."""
    if sys.flags.optimize:
        raise IncompatibleMitmproxyError("python -O removes the guards of mitmproxy's layers; run without it")
    check_names()
    _http1.make_body_reader = make_body_reader
    _http1.make_error_response = make_error_response
    mhttp.Http1Server = GateHttp1Server  # type: ignore[misc]
    mhttp.Http1Client = GateHttp1Client  # type: ignore[misc]
    mhttp.Http2Server = GateHttp2Server  # type: ignore[misc]
    mhttp.Http2Client = GateHttp2Client  # type: ignore[misc]
    _http2.BufferedH2Connection = GateH2Connection  # type: ignore[misc]
    _http2.parse_h2_request_headers = parse_request_headers
    mhttp.HttpClient = GateHttpClient  # type: ignore[misc]
    mtls.ServerTLSLayer = GateServerTlsLayer  # type: ignore[misc]
    mtls.parse_client_hello = parse_client_hello
    mhttp.Server = Origin  # type: ignore[misc]
    websocket.WebsocketLayer = GateWebsocketLayer  # type: ignore[misc]
    # Stock checks the type of every field of every message it makes: a fifth of a hop's cost.
    http.MessageData.__post_init__ = lambda self: None  # type: ignore[method-assign]
    net_tls.log_master_secret = None  # N13: SSLKEYLOGFILE was read when mitmproxy was imported
    lean.install_lean_helpers()


def check_names() -> None:
    """The pinned version, and every name we rely on."""
    found = version("mitmproxy")
    if found != PINNED:
        raise IncompatibleMitmproxyError(f"mitmproxy {found} is installed; this gateway is built on {PINNED}")
    for holder, names in EXPECTED:
        for name in names:
            if inspect.getattr_static(holder, name, _MOVED) is _MOVED:
                raise IncompatibleMitmproxyError(f"mitmproxy {found} has no {name} in {holder!r}")


def check_options(opts: options.Options) -> None:
    """No option may open a side door; raises IncompatibleMitmproxyError naming it."""
    for name in FORBIDDEN_OPTIONS:
        if name in opts and getattr(opts, name):
            raise IncompatibleMitmproxyError(f"mitmproxy option {name} must be off")
    for name in ("ignore_hosts", "allow_hosts", "tcp_hosts", "udp_hosts"):
        if name in opts and getattr(opts, name):
            raise IncompatibleMitmproxyError(f"mitmproxy option {name} must be empty")
