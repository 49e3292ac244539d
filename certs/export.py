"""What clients trust, in the forms that they take: PEM, DER, and a PKCS #12 trust store for Java."""

from collections.abc import Sequence
from enum import StrEnum

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import pkcs12

from certs.chain import render_pem
from certs.errors import CertificateAuthorityError

STORE_PASSWORD = b"changeit"
"""Java's own for a trust store: it holds nothing secret, but Java opens none without a password."""


class ExportForm(StrEnum):
    """The forms."""

    PEM = "pem"
    """Any number of certificates."""
    DER = "der"
    """One certificate."""
    P12 = "p12"
    """A trust store with any number of them."""


def render_export(certificates: Sequence[x509.Certificate], form: ExportForm) -> bytes:
    """Raises CertificateAuthorityError when the form cannot hold so many."""
    match form:
        case ExportForm.PEM:
            return b"".join(map(render_pem, certificates))
        case ExportForm.DER:
            if len(certificates) != 1:
                raise CertificateAuthorityError(
                    "der holds one certificate, and a rotation is prepared, so there are two; add --only current or"
                    " --only next, or use pem"
                )
            return certificates[0].public_bytes(serialization.Encoding.DER)
        case ExportForm.P12:
            named = [
                pkcs12.PKCS12Certificate(each, f"fetchd-{number}".encode())
                for number, each in enumerate(certificates, 1)
            ]
            protection = (
                serialization.PrivateFormat.PKCS12.encryption_builder()
                .kdf_rounds(10_000)
                .key_cert_algorithm(pkcs12.PBES.PBESv2SHA256AndAES256CBC)
                .build(STORE_PASSWORD)
            )
            return pkcs12.serialize_java_truststore(named, protection)
