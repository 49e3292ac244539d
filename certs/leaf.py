"""A certificate for one of our own listeners, signed by the gateway's authority: what its clients trust already."""

import ipaddress  # noqa: TID251 (the form in which cryptography takes addresses; nothing is judged by it)
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from certs.errors import CertificateAuthorityError
from certs.issuing import BACKDATING

VALIDITY = timedelta(days=90)
RENEWAL = timedelta(days=30)
"""How long before its end a certificate is replaced."""

_KEY_USAGE = x509.KeyUsage(
    digital_signature=True,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    key_cert_sign=False,
    crl_sign=False,
    encipher_only=False,
    decipher_only=False,
)


@dataclass(frozen=True, slots=True)
class Leaf:
    """pem: the key, then the certificate, then those that lead to the root. expires: in UTC."""

    pem: bytes = field(repr=False)
    expires: datetime


def issue_leaf(authority_pem: bytes, names: Iterable[str], addresses: Iterable[str], now: datetime) -> Leaf:
    """A certificate of the authority whose key and certificates are in `authority_pem` (checked by load_or_create).

    names: host names; addresses: IP addresses. Raises CertificateAuthorityError.
    """
    try:
        signer = serialization.load_pem_private_key(authority_pem, password=None)
        chain = x509.load_pem_x509_certificates(authority_pem)
    except (ValueError, TypeError) as error:
        raise CertificateAuthorityError(f"the authority cannot be read: {error}") from error
    if not isinstance(signer, ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey):
        raise CertificateAuthorityError("the authority's key is neither EC nor RSA")
    issuer, key, hosts = chain[0], ec.generate_private_key(ec.SECP256R1()), list(names)
    begin, end = now.replace(microsecond=0) - BACKDATING, min(now + VALIDITY, issuer.not_valid_after_utc)
    subject = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, "fetchd")]
    subject += [x509.NameAttribute(NameOID.COMMON_NAME, name) for name in hosts[:1] if len(name) <= 64]
    alternatives = [
        *(x509.DNSName(name) for name in hosts),
        *(x509.IPAddress(ipaddress.ip_address(address)) for address in addresses),
    ]
    certificate = (
        x509.CertificateBuilder()
        .subject_name(x509.Name(subject))
        .issuer_name(issuer.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(max(begin, issuer.not_valid_before_utc))
        .not_valid_after(end)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_KEY_USAGE, critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(_identify_issuer(issuer), critical=False)
        .sign(signer, hashes.SHA256())
    )
    key_pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    shown = [certificate, *(one for one in chain if one.subject != one.issuer)]
    return Leaf(key_pem + b"".join(one.public_bytes(serialization.Encoding.PEM) for one in shown), end)


def _identify_issuer(issuer: x509.Certificate) -> x509.AuthorityKeyIdentifier:
    try:
        found = issuer.extensions.get_extension_for_class(x509.SubjectKeyIdentifier)
    except x509.ExtensionNotFound:
        return x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer.public_key())  # type: ignore[arg-type]
    return x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(found.value)
