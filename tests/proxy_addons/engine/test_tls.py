"""TLS towards origins: the connection that stock would make, made from one context."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from mitmproxy import connection, ctx, tls
from mitmproxy.addons import tlsconfig
from mitmproxy.net import tls as net_tls
from mitmproxy.proxy import context
from OpenSSL import SSL

from proxy_addons.engine.client_hello import parse_client_hello
from proxy_addons.engine.lean_layers import has_output
from proxy_addons.engine.tls import HTTP1, HTTP1_AND_2, GateTls

AUTHORITY = trustme.CA(key_type=trustme.KeyType.ECDSA)


@pytest.fixture
def made_with(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[dict[str, Any]]:
    """mitmproxy's options as ours are; what contexts towards origins were made with."""
    roots = tmp_path / "roots.pem"
    AUTHORITY.cert_pem.write_to_path(str(roots))
    told = SimpleNamespace(
        ssl_insecure=False, ciphers_server=None, tls_version_server_min="TLS1_2", client_certs=None, http2=True,
        tls_version_server_max="UNBOUNDED", tls_ecdh_curve_server=None, ssl_verify_upstream_trusted_confdir=None,
        ssl_verify_upstream_trusted_ca=str(roots),
    )  # fmt: skip
    monkeypatch.setattr(ctx, "options", told, raising=False)
    made: list[dict[str, Any]] = []

    def make(**arguments: Any) -> SSL.Context:
        made.append(arguments)
        found: SSL.Context = net_tls.create_proxy_server_context.__wrapped__(**arguments)
        return found

    make.__wrapped__ = net_tls.create_proxy_server_context.__wrapped__  # type: ignore[attr-defined]
    monkeypatch.setattr(net_tls, "create_proxy_server_context", make)
    return made


def start(addon: tlsconfig.TlsConfig, name: str | None, offers: tuple[bytes, ...]) -> SSL.Connection:
    client = connection.Client(peername=("127.0.0.1", 1), sockname=("127.0.0.1", 2), timestamp_start=0.0)
    origin = connection.Server(address=("a.example", 443), sni=name)
    origin.alpn_offers = offers
    data = tls.TlsData(origin, context.Context(client, ctx.options))
    addon.tls_start_server(data)
    assert data.ssl_conn is not None
    return data.ssl_conn


def gate() -> GateTls:
    made = GateTls.__new__(GateTls)
    made._towards_origins = None
    return made


@pytest.mark.parametrize("name", ["a.example", "a_b.example", "xn--bcher-kva.example", "127.0.0.1", "a.1"])
@pytest.mark.parametrize("offers", [HTTP1, HTTP1_AND_2])
def test_an_origin_is_greeted_as_by_stock(
    made_with: list[dict[str, Any]], name: str, offers: tuple[bytes, ...]
) -> None:
    said = []
    for addon in (gate(), tlsconfig.TlsConfig()):
        secured = start(addon, name, offers)
        with pytest.raises(SSL.WantReadError):
            secured.do_handshake()
        hello = parse_client_hello(secured.bio_read(1 << 16))
        assert hello is not None
        kinds = sorted(kind for kind, _ in hello.extensions)
        said.append((hello.host_name, hello.alpn_protocols, hello.cipher_suites, kinds))
    assert said[0] == said[1]
    assert made_with[0] == made_with[1]


def test_one_context_serves_every_origin(made_with: list[dict[str, Any]]) -> None:
    addon = gate()
    contexts = {id(start(addon, name, HTTP1).get_context()) for name in ("a.example", "b.example")}
    assert (len(contexts), len(made_with)) == (1, 1)


@pytest.mark.parametrize(
    ("name", "verified"),
    [("a.example", True), ("A.example", True), ("b.example", False), ("sub.a.example", False)],
    ids=["the name of the leaf", "in capitals", "another name", "a name below it"],
)
def test_the_leaf_must_carry_the_name(made_with: list[dict[str, Any]], name: str, verified: bool) -> None:
    leaf = AUTHORITY.issue_cert("a.example", key_type=trustme.KeyType.ECDSA)
    serving = SSL.Context(SSL.TLS_SERVER_METHOD)
    serving.use_certificate(x509.load_pem_x509_certificate(leaf.cert_chain_pems[0].bytes()))
    key: Any = load_pem_private_key(leaf.private_key_pem.bytes(), None)
    serving.use_privatekey(key)
    server, client = SSL.Connection(serving), start(gate(), name, HTTP1)
    server.set_accept_state()
    assert shake_hands(client, server) is verified


def shake_hands(client: SSL.Connection, server: SSL.Connection) -> bool:
    """Whether the client is content."""
    for _ in range(4):
        for one, other in ((client, server), (server, client)):
            try:
                one.do_handshake()
                if one is client:
                    return True
            except SSL.WantReadError:
                pass
            except SSL.Error as error:
                if "certificate verify failed" not in str(error):
                    raise
                return False
            while has_output(one):
                other.bio_write(one.bio_read(1 << 16))
    raise AssertionError("neither agreed nor refused")


def test_without_a_name_there_is_no_connection(made_with: list[dict[str, Any]]) -> None:
    with pytest.raises((UnicodeError, ValueError, AssertionError)):
        start(gate(), "", HTTP1)
