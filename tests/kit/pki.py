"""A private CA and server contexts for tests. Full names only: OpenSSL refuses `*.example`."""

from __future__ import annotations

import datetime
import ssl
from collections.abc import Sequence
from pathlib import Path

import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

H1 = ("http/1.1",)
H2 = ("h2", "http/1.1")


class Pki:
    """One CA in `folder`; `ca_path` is the PEM that a gateway takes as `extra_ca`."""

    def __init__(self, folder: Path) -> None:
        self._ca = trustme.CA(key_type=trustme.KeyType.ECDSA)
        self._folder = folder
        self.ca_path = folder / "test-ca.pem"
        self._ca.cert_pem.write_to_path(str(self.ca_path))

    def server_context(self, *names: str, alpn: Sequence[str] = H1) -> ssl.SSLContext:
        """A valid certificate for `names` (host names or IP addresses)."""
        return self._context(self._ca.issue_cert(*names, key_type=trustme.KeyType.ECDSA), alpn)

    def expired_context(self, *names: str, alpn: Sequence[str] = H1) -> ssl.SSLContext:
        """A certificate of this CA that ended a day ago."""
        now = datetime.datetime.now(datetime.UTC)
        leaf = self._ca.issue_cert(
            *names,
            key_type=trustme.KeyType.ECDSA,
            not_before=now - datetime.timedelta(days=30),
            not_after=now - datetime.timedelta(days=1),
        )
        return self._context(leaf, alpn)

    def wrong_name_context(self, alpn: Sequence[str] = H1) -> ssl.SSLContext:
        """A certificate of this CA for a name no test asks for."""
        return self.server_context("somebody-else.example", alpn=alpn)

    def unknown_ca_context(self, *names: str, alpn: Sequence[str] = H1) -> ssl.SSLContext:
        """A certificate of a CA that nobody trusts."""
        leaf = trustme.CA(key_type=trustme.KeyType.ECDSA).issue_cert(*names, key_type=trustme.KeyType.ECDSA)
        return self._context(leaf, alpn)

    def self_signed_context(self, name: str, alpn: Sequence[str] = H1) -> ssl.SSLContext:
        """A certificate that signed itself."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        now = datetime.datetime.now(datetime.UTC)
        certificate = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
            .sign(key, hashes.SHA256())
        )
        path = self._folder / f"self-signed-{certificate.serial_number:x}.pem"
        path.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
            + certificate.public_bytes(serialization.Encoding.PEM)
        )
        context = _bare_context(alpn)
        context.load_cert_chain(path)
        return context

    def client_context(self) -> ssl.SSLContext:
        """A client that trusts this CA alone."""
        return ssl.create_default_context(cafile=str(self.ca_path))

    def _context(self, leaf: trustme.LeafCert, alpn: Sequence[str]) -> ssl.SSLContext:
        context = _bare_context(alpn)
        leaf.configure_cert(context)
        return context


def _bare_context(alpn: Sequence[str]) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    if alpn:
        context.set_alpn_protocols(list(alpn))
    return context
