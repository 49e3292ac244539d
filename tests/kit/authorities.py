"""Authorities as operators bring them: any key, any chain, any extension, right and wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

Key = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | ed25519.Ed25519PrivateKey
SERVERS = ExtendedKeyUsageOID.SERVER_AUTH
CLIENTS = ExtendedKeyUsageOID.CLIENT_AUTH


def make_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


@dataclass(frozen=True)
class Ca:
    """A certificate with its key; `issuer` None: it signed itself. Fields are what the certificate says.

    odd_key_id: a subject key identifier that is not SHA-1 of the key, as of RFC 7093.
    """

    name: str
    issuer: Ca | None = None
    key: Key = field(default_factory=make_key)
    ca: bool | None = True
    may_sign: bool | None = True
    path_length: int | None = None
    usage: Sequence[x509.ObjectIdentifier] = ()
    permitted: str | None = None
    begin: datetime | None = None
    end: datetime | None = None
    odd_key_id: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "certificate", self._issue())

    certificate: x509.Certificate = field(init=False)

    def _issue(self) -> x509.Certificate:
        now = datetime.now(UTC)
        public: Any = self.key.public_key()
        key_id = x509.SubjectKeyIdentifier.from_public_key(public)
        if self.odd_key_id:
            key_id = x509.SubjectKeyIdentifier(bytes(20 - len(self.name)) + self.name.encode())
        signer = self.issuer or self
        above = key_id
        if self.issuer is not None:
            above = self.issuer.certificate.extensions.get_extension_for_class(
                x509.SubjectKeyIdentifier
            ).value
        builder = (
            x509.CertificateBuilder()
            .subject_name(_name(self.name))
            .issuer_name(_name(signer.name))
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(self.begin or now - timedelta(days=1))
            .not_valid_after(self.end or now + timedelta(days=365))
            .add_extension(key_id, critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(above), critical=False
            )
        )
        if self.ca is not None:
            builder = builder.add_extension(
                x509.BasicConstraints(ca=self.ca, path_length=self.path_length if self.ca else None),
                critical=True,
            )
        if self.may_sign is not None:
            builder = builder.add_extension(
                x509.KeyUsage(True, False, False, False, False, self.may_sign, self.may_sign, False, False),
                critical=True,
            )
        if self.usage:
            builder = builder.add_extension(x509.ExtendedKeyUsage(self.usage), critical=False)
        if self.permitted is not None:
            builder = builder.add_extension(
                x509.NameConstraints([x509.DNSName(self.permitted)], None), critical=True
            )
        algorithm = None if isinstance(signer.key, ed25519.Ed25519PrivateKey) else hashes.SHA256()
        return builder.sign(signer.key, algorithm)

    @property
    def pem(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    @property
    def chain(self) -> bytes:
        """Its certificate and who issued it, up to the root."""
        return self.pem + (self.issuer.chain if self.issuer is not None else b"")

    def key_pem(self, passphrase: bytes | None = None) -> bytes:
        encryption: serialization.KeySerializationEncryption = serialization.NoEncryption()
        if passphrase is not None:
            encryption = serialization.BestAvailableEncryption(passphrase)
        return self.key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption
        )

    def write(self, folder: Path) -> tuple[Path, Path]:
        """`corp.pem` with the chain and `corp.key`, 0600."""
        certificate, key = folder / "corp.pem", folder / "corp.key"
        certificate.write_bytes(self.chain)
        key.write_bytes(self.key_pem())
        key.chmod(0o600)
        return certificate, key


def intermediate(**changes: Any) -> Ca:
    """An authority below a root, as a site gives to one of its gateways."""
    return Ca("corp gateway", **{"issuer": Ca("corp root"), "path_length": 0, **changes})


def _name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
