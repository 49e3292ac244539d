"""TLS on both sides: mitmproxy's `TlsConfig` without its side doors, with one context a host.

N13  any path ending in `/mitmproxy-<serial>.crl` was answered, and options sign with a published CA key: the request
     hook is gone, the options are asserted off at start.
     A context per handshake costs 1.2 ms; one a host is kept here, bounded.
N18  a ClientHello had no bound, and was parsed anew from its first record with each piece: 2 MiB of one-byte records
     stopped the whole worker for minutes.
     Server names are read by IDNA 2003, under which names of today (`xn--strae-oqa.de`, straße) are no names.
"""

import re
from collections import OrderedDict
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from mitmproxy import certs, connection, ctx, tls
from mitmproxy.addons import tlsconfig
from mitmproxy.net import tls as net_tls
from mitmproxy.proxy import layer
from mitmproxy.proxy.context import Context
from mitmproxy.proxy.layers.tls import ClientTLSLayer
from OpenSSL import SSL

from proxy_addons.engine.client_hello import GateClientHello
from proxy_addons.engine.lean_layers import LeanTlsLayer

MAX_CONTEXTS = 1000
"""Host contexts kept a worker; about 40 KiB each, the least recently used goes first."""
MAX_CLIENT_HELLO = 16 << 10
"""Bytes of records that may hold a ClientHello; today's, with post-quantum shares, take 2 KiB."""

DH_PARAMETERS = "mitmproxy-dhparam.pem"
"""A public constant in the confdir; made beside the authority."""

HTTP1 = (b"http/1.1",)
HTTP1_AND_2 = (b"h2", b"http/1.1")
"""What is spoken over TLS, by ALPN name. Stock takes any HTTP name a client offers, h3 too, and crashes on it."""

_OPENSSL: Any = SSL._lib  # type: ignore[attr-defined]
_SERVER_NAME = re.compile(rb"(?=.{1,253}\.?$)[A-Za-z0-9_-]{1,63}(\.[A-Za-z0-9_-]{1,63})*\.?")


class GateClientTlsLayer(LeanTlsLayer, ClientTLSLayer):
    """TLS with a client, its ClientHello bounded (N18)."""

    def receive_handshake_data(self, data: bytes) -> layer.CommandGenerator[tuple[bool, str | None]]:
        """As stock; a hello that grows past the bound is a broken one."""
        if not self.client_hello_parsed and len(self.recv_buffer) + len(data) > MAX_CLIENT_HELLO:
            return False, f"Cannot parse ClientHello: more than {MAX_CLIENT_HELLO} bytes"
        return (yield from super().receive_handshake_data(data))


class GateTls(tlsconfig.TlsConfig):
    """The `tls_*` hooks. mitmproxy knows the addon by its name."""

    name = "tlsconfig"
    request = None  # type: ignore[assignment]  # the hook that answers CRL paths is taken out

    def __init__(self, authority: str, certificate: str | None = None, key: str | None = None) -> None:
        """authority: PEM, the key that leaves are signed with, its certificate and who issued that, up to the root.
        certificate, key: PEM files to show at the listeners themselves, in place of leaves of our CA.
        """
        self._authority = authority.encode("ascii")
        self._issuers: tuple[certs.Cert, ...] = ()
        self._certificate, self._key = certificate, key
        self._contexts: OrderedDict[tuple[str | None, str | None], SSL.Context] = OrderedDict()
        self._towards_origins: SSL.Context | None = None

    def configure(self, updated: set[str]) -> None:
        """Sign with what we were handed. Stock reads its confdir, and makes an authority where it finds none."""
        if self.certstore is not None:
            return
        key = serialization.load_pem_private_key(self._authority, None)
        assert isinstance(key, ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey)
        chain = x509.load_pem_x509_certificates(self._authority)
        # Clients have the root; what lies between it and the leaf they have to be shown (RFC 8446, 4.4.2).
        self._issuers = tuple(map(certs.Cert, chain[:-1]))
        parameters = certs.CertStore.load_dhparam(Path(ctx.options.confdir) / DH_PARAMETERS)
        self.certstore = certs.CertStore(key, certs.Cert(chain[0]), None, b"", parameters)

    def tls_clienthello(self, hello: tls.ClientHelloData) -> None:
        """Take the server name as it is on the wire: it need only be one name that DNS can carry."""
        hello.context.client.sni = read_server_name(hello.client_hello)

    def tls_start_client(self, tls_start: tls.TlsData) -> None:
        """Offer the client a leaf of our CA for the name it asked for."""
        where = tls_start.context
        name = where.server.address[0] if where.server.address else None
        over_listener = len(where.layers) == 2
        key = (where.client.sni, name)
        context = self._contexts.get(key)
        if context is None:
            context = self._contexts[key] = self._make_context(where, over_listener)
            if len(self._contexts) > MAX_CONTEXTS:
                self._contexts.popitem(last=False)
        else:
            self._contexts.move_to_end(key)
        secured = tls_start.ssl_conn = SSL.Connection(context)
        # HTTP/2 is not spoken to the proxy itself, only inside a tunnel.
        secured.set_app_data(HTTP1 if over_listener else HTTP1_AND_2)
        secured.set_accept_state()

    def tls_start_server(self, tls_start: tls.TlsData) -> None:
        """As stock, which reads a dozen options and looks its one context up by all of them for each connection."""
        origin = tls_start.conn
        assert isinstance(origin, connection.Server)
        name = origin.sni
        if not name or not _SERVER_NAME.fullmatch(name.encode()) or name[-1].isdigit():
            super().tls_start_server(tls_start)  # no name that DNS can carry; an address, maybe
            return
        if self._towards_origins is None:
            self._towards_origins = _make_origin_context()
        secured = SSL.Connection(self._towards_origins)
        host = name.encode("ascii")
        parameters = _OPENSSL.SSL_get0_param(secured._ssl)
        _OPENSSL.X509_VERIFY_PARAM_set_hostflags(parameters, tlsconfig.DEFAULT_HOSTFLAGS)
        if _OPENSSL.X509_VERIFY_PARAM_set1_host(parameters, host, len(host)) != 1:
            raise RuntimeError("the name to verify an origin by could not be set")
        secured.set_tlsext_host_name(host)
        if origin.alpn_offers:
            secured.set_alpn_protos(list(origin.alpn_offers))
        secured.set_connect_state()
        tls_start.ssl_conn = secured

    def _make_context(self, where: Context, over_listener: bool) -> SSL.Context:
        files = None
        if over_listener and self._certificate is not None and self._key is not None:
            files = self._certificate, self._key
        minimum = net_tls.Version[ctx.options.tls_version_client_min]
        # The undecorated function: stock shares one context between hosts and sets the leaf on each connection.
        context: SSL.Context = net_tls.create_client_proxy_context.__wrapped__(
            method=net_tls.Method.TLS_SERVER_METHOD,
            min_version=minimum,
            max_version=net_tls.Version[ctx.options.tls_version_client_max],
            cipher_list=tuple(tlsconfig._default_ciphers(minimum)),
            ecdh_curve=None,
            chain_file=None,
            request_client_cert=False,
            alpn_select_callback=choose_protocol,
            extra_chain_certs=() if files is not None else self._issuers,
            dhparams=self.certstore.dhparams,
        )
        if files is not None:
            context.use_certificate_chain_file(files[0])
            context.use_privatekey_file(files[1])
            return context
        entry = self.get_cert(where)
        context.use_certificate(entry.cert.to_cryptography())
        context.use_privatekey(entry.privatekey)
        return context


def _make_origin_context() -> SSL.Context:
    """The context of stock's `tls_start_server`: origins are verified, we show no certificate."""
    minimum = net_tls.Version[ctx.options.tls_version_server_min]
    made: SSL.Context = net_tls.create_proxy_server_context(
        method=net_tls.Method.TLS_CLIENT_METHOD,
        min_version=minimum,
        max_version=net_tls.Version[ctx.options.tls_version_server_max],
        cipher_list=tuple(tlsconfig._default_ciphers(minimum)),
        ecdh_curve=None,
        verify=net_tls.Verify.VERIFY_PEER,
        ca_path=ctx.options.ssl_verify_upstream_trusted_confdir,
        ca_pemfile=ctx.options.ssl_verify_upstream_trusted_ca,
        client_cert=None,
        legacy_server_connect=False,
    )
    return made


def choose_protocol(connection: SSL.Connection, offered: list[bytes]) -> Any:
    """The first protocol a client offers that is spoken on this connection (RFC 7301)."""
    spoken = connection.get_app_data()
    return next((name for name in offered if name in spoken), SSL.NO_OVERLAPPING_PROTOCOLS)


def read_server_name(hello: tls.ClientHello) -> str | None:
    """The only server name (RFC 6066, 3), or None when there is none, several, or no DNS name."""
    assert isinstance(hello, GateClientHello)
    name = hello.host_name
    return name.decode("ascii") if name is not None and _SERVER_NAME.fullmatch(name) else None
