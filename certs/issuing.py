"""What the gateway's authority looks like: how a new one is issued, and what any one must hold to.

EC P-256, because a leaf is signed for every new host while a client waits, and mitmproxy gives each leaf the
authority's own key. The form is RFC 5280's to the letter, since clients check it strictly (Python 3.13 by
default): critical BasicConstraints and KeyUsage, subject and authority key identifiers, a random serial. Path
length 0: the authority signs leaves and no further authority. No name constraints: to exclude IP addresses
would take from the gateway the refusals it gives inside a tunnel to an address.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.types import (
    CertificateIssuerPrivateKeyTypes,
    CertificatePublicKeyTypes,
)
from cryptography.x509.oid import NameOID

from certs.errors import CertificateAuthorityError

VALIDITY = timedelta(days=825)
"""A bit over two years: long enough to forget about, short enough that a forgotten machine's key dies."""

BACKDATING = timedelta(days=1)
"""Clients' clocks may be behind; the first fetch comes within seconds of the first start."""

_REMEDY = (
    "restore it, or remove it and start again (a new authority is then made, which every client has to trust)"
)

# What the parser raises, some of it only when a field is looked at.
_UNREADABLE = (
    ValueError,
    TypeError,
    UnsupportedAlgorithm,
    x509.DuplicateExtension,
    x509.InvalidVersion,
    x509.UnsupportedGeneralNameType,
)

_KEY_USAGE = x509.KeyUsage(
    digital_signature=False,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    key_cert_sign=True,
    crl_sign=True,
    encipher_only=False,
    decipher_only=False,
)


@dataclass(frozen=True, slots=True)
class PublicAuthority:
    """The part of an authority that everybody may see."""

    certificates_pem: bytes
    """The authority's certificate; behind it those it was issued by, if it is no root."""
    expires: datetime
    fingerprint_sha256: str
    """Over the DER form, as `openssl x509 -fingerprint -sha256` writes it: AB:CD:…"""


def issue_authority(now: datetime) -> bytes:
    """A new authority as PEM: its key (PKCS #8, not encrypted), then its certificate."""
    key = ec.generate_private_key(ec.SECP256R1())
    key_id = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    # The id tells the authorities of several machines apart and says nothing about the machine.
    name = x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "fetchd"),
            x509.NameAttribute(NameOID.COMMON_NAME, f"fetchd egress CA ({key_id.digest.hex()[:8]})"),
        ]
    )
    begin = now.replace(microsecond=0) - BACKDATING
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(begin + VALIDITY)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_KEY_USAGE, critical=True)
        .add_extension(key_id, critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(key_id), critical=False)
        .sign(key, hashes.SHA256())
    )
    key_pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return key_pem + certificate.public_bytes(serialization.Encoding.PEM)


def parse_authority(pem: bytes, path: Path, now: datetime) -> PublicAuthority:
    """Check the authority in `pem`, read from `path`, and return its public part.

    Any authority that mitmproxy can sign with will do, so that one's own may be used. In this order:

    1. a private key, not encrypted   2. EC or RSA   3. a certificate   4. which belongs to the key
    5. and may sign certificates   6. and leads, certificate by certificate, to one that signed itself,
    since that is what clients can trust   7. and is valid now

    Raises `CertificateAuthorityError` for the first that does not hold.
    """
    try:
        key = serialization.load_pem_private_key(pem, password=None)
    except TypeError:
        raise _refuse(path, "its private key is encrypted", "store the key without a passphrase") from None
    except (ValueError, UnsupportedAlgorithm):
        raise _refuse(path, "it holds no private key that can be read") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey):
        raise _refuse(path, "its key is neither EC nor RSA", "use an EC P-256 key")
    try:
        certificates = x509.load_pem_x509_certificates(pem)
        _check_certificates(certificates, key, path, now)
        return PublicAuthority(
            certificates_pem=b"".join(each.public_bytes(serialization.Encoding.PEM) for each in certificates),
            expires=certificates[0].not_valid_after_utc,
            fingerprint_sha256=certificates[0].fingerprint(hashes.SHA256()).hex(":").upper(),
        )
    except _UNREADABLE:
        raise _refuse(path, "it holds no certificate that can be read") from None


def _check_certificates(
    certificates: Sequence[x509.Certificate], key: CertificateIssuerPrivateKeyTypes, path: Path, now: datetime
) -> None:
    certificate = certificates[0]
    if _spki(certificate.public_key()) != _spki(key.public_key()):
        raise _refuse(path, "its certificate does not belong to its key")
    if not _may_sign(certificate):
        raise _refuse(path, "its certificate may not sign others (BasicConstraints CA, KeyUsage keyCertSign)")
    for issued, issuer in zip(certificates, [*certificates[1:], certificates[-1]], strict=True):
        try:
            issued.verify_directly_issued_by(issuer)
        except (InvalidSignature, ValueError):
            raise _refuse(
                path, "its certificates do not lead from its key's to one that signed itself"
            ) from None
    begin, expires = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    if now < begin:
        raise _refuse(path, f"it is not valid before {begin:%Y-%m-%d %H:%M} UTC", "set the clock right")
    if now >= expires:
        remedy = "remove it and start again; then have every client trust the new authority"
        raise _refuse(path, f"it expired on {expires:%Y-%m-%d %H:%M} UTC", remedy)


def _may_sign(certificate: x509.Certificate) -> bool:
    try:
        if not certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca:
            return False
        # Without a KeyUsage extension every use is allowed (RFC 5280, 4.2.1.3), but strict clients want one.
        return certificate.extensions.get_extension_for_class(x509.KeyUsage).value.key_cert_sign
    except x509.ExtensionNotFound:
        return False


def _spki(key: CertificatePublicKeyTypes) -> bytes:
    """The public key in the one form in which equal keys are equal bytes."""
    return key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)


def _refuse(path: Path, what: str, remedy: str = _REMEDY) -> CertificateAuthorityError:
    return CertificateAuthorityError(f"{path}: {what}; {remedy}")
