"""What the gateway's authority looks like: how a new one is issued, and what any one must hold to.

EC P-256, because a leaf is signed for every new host while a client waits, and mitmproxy gives each leaf the
authority's own key. The form is RFC 5280's to the letter, since clients check it strictly (Python 3.13 by
default): critical BasicConstraints and KeyUsage, subject and authority key identifiers, a random serial. Path
length 0: the authority signs leaves and no further authority. No name constraints: to exclude IP addresses
would take from the gateway the refusals it gives inside a tunnel to an address.
"""

from datetime import datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID

from certs.chain import UNREADABLE, PublicAuthority, check_chain
from certs.errors import CertificateAuthorityError

VALIDITY = timedelta(days=825)
"""A bit over two years: long enough to forget about, short enough that a forgotten machine's key dies."""

BACKDATING = timedelta(days=1)
"""Clients' clocks may be behind; the first fetch comes within seconds of the first start."""

_REMEDY = (
    "restore it, or remove it and start again (a new authority is then made, which every client has to trust)"
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

    def refuse(what: str, remedy: str = _REMEDY) -> CertificateAuthorityError:
        return _refuse(path, what, remedy)

    try:
        certificates = x509.load_pem_x509_certificates(pem)
        check_chain(certificates, key, now, refuse)
        return PublicAuthority(tuple(certificates))
    except UNREADABLE:
        raise _refuse(path, "it holds no certificate that can be read") from None


def _refuse(path: Path, what: str, remedy: str = _REMEDY) -> CertificateAuthorityError:
    return CertificateAuthorityError(f"{path}: {what}; {remedy}")
