"""An authority's certificates: its own first, then who issued each, up to one that signed itself.

Whatever authority signs here, made by us or brought, has to hold to the same (`check_chain`), because strict clients
check it in every handshake: what is let in here and refused there would be a TLS error far from its cause.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric.types import (
    CertificateIssuerPrivateKeyTypes,
    CertificatePublicKeyTypes,
)
from cryptography.x509.oid import ExtendedKeyUsageOID

from certs.errors import CertificateAuthorityError

UNREADABLE = (
    ValueError,
    TypeError,
    UnsupportedAlgorithm,
    x509.DuplicateExtension,
    x509.InvalidVersion,
    x509.UnsupportedGeneralNameType,
)
"""What the parser raises, some of it only when a field is looked at."""

SET_THE_CLOCK = "set the clock right"
REMOVE = "remove it and start again; then have every client trust the new authority"


class Refuse(Protocol):
    """Makes the error for something that does not hold; without a remedy the caller's usual one."""

    def __call__(self, what: str, remedy: str = ...) -> CertificateAuthorityError: ...


@dataclass(frozen=True, slots=True)
class PublicAuthority:
    """The part of an authority that everybody may see: its certificate, and behind it those that lead to its root."""

    chain: tuple[x509.Certificate, ...]

    @property
    def certificate(self) -> x509.Certificate:
        """The authority's own."""
        return self.chain[0]

    @property
    def root(self) -> x509.Certificate:
        """What clients have to trust."""
        return self.chain[-1]

    @property
    def certificates_pem(self) -> bytes:
        """All of the chain."""
        return b"".join(map(render_pem, self.chain))

    @property
    def root_pem(self) -> bytes:
        return render_pem(self.root)

    @property
    def expires(self) -> datetime:
        """When the first of the chain ends, in UTC."""
        return min(each.not_valid_after_utc for each in self.chain)

    @property
    def fingerprint_sha256(self) -> str:
        """Of the root, as `openssl x509 -fingerprint -sha256` writes it: AB:CD:…"""
        return fingerprint(self.root)

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences for the operator on what will not work for every host."""
        limited = [each for each in self.chain if _extension(each, x509.NameConstraints) is not None]
        return tuple(
            f"{render_name(each)} has name constraints: clients will refuse hosts outside of them, and"
            " the gateway's own answers for such hosts"
            for each in limited
        )


def render_pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def render_name(certificate: x509.Certificate) -> str:
    """Its subject as RFC 4514 writes it, in printable ASCII: others' certificates may hold any character."""
    text = certificate.subject.rfc4514_string()
    return "".join(c if " " <= c <= "~" else ascii(c)[1:-1] for c in text)


def fingerprint(certificate: x509.Certificate) -> str:
    """SHA-256 over the DER form, as openssl writes it."""
    return certificate.fingerprint(hashes.SHA256()).hex(":").upper()


def check_chain(
    certificates: Sequence[x509.Certificate],
    key: CertificateIssuerPrivateKeyTypes,
    now: datetime,
    refuse: Refuse,
) -> None:
    """Raises what `refuse` makes of the first that does not hold, and one of UNREADABLE. In this order:

    1. the first certificate belongs to the key   2. and may sign others   3. each was issued by the next, the last
    by itself   4. whoever issued one may sign others, over so many   5. all may vouch for servers   6. all are valid
    """
    certificate = certificates[0]
    if _spki(certificate.public_key()) != _spki(key.public_key()):
        raise refuse("its certificate does not belong to its key")
    if not _may_sign(certificate, strict=True):
        raise refuse("its certificate may not sign others (BasicConstraints CA, KeyUsage keyCertSign)")
    for issued, issuer in zip(certificates, [*certificates[1:], certificates[-1]], strict=True):
        try:
            issued.verify_directly_issued_by(issuer)
        except (InvalidSignature, ValueError):
            raise refuse("its certificates do not lead from its key's to one that signed itself") from None
    for below, issuer in enumerate(certificates):
        name = render_name(issuer)
        if not _may_sign(issuer, strict=False):
            raise refuse(f"{name} in its chain may not sign others")
        basic = _extension(issuer, x509.BasicConstraints)
        if basic is not None and basic.path_length is not None and basic.path_length < below:
            raise refuse(
                f"{name} may not have {below} authorities below it (path length {basic.path_length})"
            )
        usage = _extension(issuer, x509.ExtendedKeyUsage)
        if usage is not None and not {
            ExtendedKeyUsageOID.SERVER_AUTH,
            ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE,
        } & set(usage):
            raise refuse(f"{name} may not vouch for servers (ExtendedKeyUsage)")
    for each in certificates:
        whose = "it" if len(certificates) == 1 else render_name(each)
        if now < each.not_valid_before_utc:
            raise refuse(
                f"{whose} is not valid before {each.not_valid_before_utc:%Y-%m-%d %H:%M} UTC", SET_THE_CLOCK
            )
        if now >= each.not_valid_after_utc:
            raise refuse(f"{whose} expired on {each.not_valid_after_utc:%Y-%m-%d %H:%M} UTC", REMOVE)


def _may_sign(certificate: x509.Certificate, *, strict: bool) -> bool:
    """strict: with the KeyUsage that strict clients want; without one every use is allowed (RFC 5280, 4.2.1.3)."""
    basic = _extension(certificate, x509.BasicConstraints)
    if basic is None or not basic.ca:
        return False
    usage = _extension(certificate, x509.KeyUsage)
    return usage.key_cert_sign if usage is not None else not strict


def _extension[T: x509.ExtensionType](certificate: x509.Certificate, kind: type[T]) -> T | None:
    try:
        return certificate.extensions.get_extension_for_class(kind).value
    except x509.ExtensionNotFound:
        return None


def _spki(key: CertificatePublicKeyTypes) -> bytes:
    """The public key in the one form in which equal keys are equal bytes."""
    return key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
