"""Where our layers take the place of mitmproxy's: names asserted, side doors shut."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from mitmproxy import options
from mitmproxy.proxy.layers import http as mhttp

from proxy_addons.engine import overrides


def test_the_names_we_rely_on_are_there() -> None:
    overrides.check_names()


def test_another_version_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overrides, "version", lambda name: "12.4.0")
    with pytest.raises(overrides.IncompatibleMitmproxyError, match=r"12\.4\.0 is installed"):
        overrides.check_names()


def test_a_name_that_has_moved_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    moved = (mhttp.HttpLayer, ("get_connection", "moved_away"))
    monkeypatch.setattr(overrides, "EXPECTED", (*overrides.EXPECTED, moved))
    with pytest.raises(overrides.IncompatibleMitmproxyError, match=r"no moved_away in .*HttpLayer"):
        overrides.check_names()


IN_PLACE = """
from mitmproxy.proxy.layers import http as mhttp
from mitmproxy.proxy.layers import websocket
from mitmproxy.proxy.layers.http import _http1, _http2
from proxy_addons.engine import overrides

for _ in range(2):
    overrides.install_overrides()
for module, names in (
    (mhttp, ("Http1Server", "Http1Client", "Http2Server", "Http2Client", "Server")),
    (_http1, ("make_body_reader", "make_error_response")),
    (_http2, ("BufferedH2Connection", "parse_h2_request_headers")),
    (websocket, ("WebsocketLayer",)),
):
    for name in names:
        assert getattr(module, name).__module__.startswith("proxy_addons.engine."), name
"""


def test_our_layers_are_in_place_however_often_they_are_put_there() -> None:
    """In a process of its own: other tests of this one may need mitmproxy as it is."""
    subprocess.run([sys.executable, "-c", IN_PLACE], check=True)


def test_optimized_python_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    class Flags:
        optimize = 1

    class System:
        flags = Flags

    monkeypatch.setattr(overrides, "sys", System)
    with pytest.raises(overrides.IncompatibleMitmproxyError, match="python -O"):
        overrides.install_overrides()


LISTS = ("ignore_hosts", "allow_hosts", "tcp_hosts", "udp_hosts")


def options_with(name: str, value: object) -> options.Options:
    """Options as a worker has them, this one set; added where an addon that is not loaded would define it."""
    opts = options.Options(rawtcp=False)
    kind = type(value) if isinstance(value, bool | str) else None
    if name not in opts:
        opts.add_option(name, kind or Any, value, "")
    else:
        opts.update(**{name: value})
    return opts


@pytest.mark.parametrize("name", overrides.FORBIDDEN_OPTIONS)
@pytest.mark.parametrize("on", [True, False])
def test_an_option_that_opens_a_side_door_must_be_off(name: str, on: bool) -> None:
    opts = options_with(name, on)
    if on:
        with pytest.raises(overrides.IncompatibleMitmproxyError, match=f"option {name} must be off"):
            overrides.check_options(opts)
    else:
        overrides.check_options(opts)


@pytest.mark.parametrize("name", LISTS)
def test_a_list_of_hosts_that_are_let_past_must_be_empty(name: str) -> None:
    opts = options.Options(rawtcp=False)
    if name not in opts:
        pytest.fail(f"mitmproxy has no option {name} any more")
    overrides.check_options(opts)
    opts.update(**{name: ["a.example"]})
    with pytest.raises(overrides.IncompatibleMitmproxyError, match=f"option {name} must be empty"):
        overrides.check_options(opts)
