"""An authority of the operator's own: two files named in the configuration, checked, and left as they are.

    certificate   PEM: the authority's, then who issued it, and so on up to a root
    key           PEM, without passphrase; the same file may hold both

Nothing is copied and no permission is changed: the files belong to whoever brought them. They may be symbolic links,
as secrets are mounted into containers.
"""

import os
import stat
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from certs.chain import SET_THE_CLOCK, UNREADABLE, PublicAuthority, check_chain, render_name, render_pem
from certs.errors import OwnAuthorityError
from certs.files import MAX_FILE_BYTES

MIN_RSA_BITS = 2048
"""What OpenSSL takes at its usual security level 2."""
CURVES = frozenset({"secp256r1", "secp384r1", "secp521r1"})
"""The curves of TLS certificates (CA/Browser Forum baseline requirements, 6.1.5)."""

_CERTIFICATE, _KEY = "certificate", "key"


@dataclass(frozen=True, slots=True)
class OwnFiles:
    """The paths, as the configuration names them."""

    certificate: Path
    key: Path


def load_own_authority(own: OwnFiles, now: datetime) -> tuple[PublicAuthority, bytes]:
    """The authority, and what workers sign with: key, then certificates, as PEM; secret.

    Raises OwnAuthorityError for the first that does not hold: the key's file, the key, the certificates' file, then
    `chain.check_chain`.
    """
    key_pem = _read(own.key, _KEY, private=True)
    key = _parse_key(key_pem, own.key)
    certificates_pem = _read(own.certificate, _CERTIFICATE, private=False)

    def refuse(what: str, remedy: str = "") -> OwnAuthorityError:
        shown = remedy if remedy == SET_THE_CLOCK else "put another in its place, or leave out ca_certificate"
        if what.startswith("its certificate does not"):
            what, shown = (
                f"its first certificate is not that of {own.key}",
                "put the two that belong together",
            )
        elif what.startswith("its certificates do not lead"):
            what = "its certificates do not lead, each issued by the next, to one that signed itself"
            shown = "append the issuers, up to the root that clients trust"
        return OwnAuthorityError(_CERTIFICATE, own.certificate, what, shown)

    try:
        certificates = x509.load_pem_x509_certificates(certificates_pem)
        check_chain(certificates, key, now, refuse)
        for each in certificates[:-1]:
            if isinstance(each.signature_hash_algorithm, hashes.SHA1 | hashes.MD5):
                raise refuse(f"{render_name(each)} is signed with SHA-1 or MD5, which clients refuse")
    except UNREADABLE:
        raise OwnAuthorityError(
            _CERTIFICATE, own.certificate, "it holds no certificate that can be read", "write it as PEM"
        ) from None
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return PublicAuthority(tuple(certificates)), private + b"".join(map(render_pem, certificates))


def _parse_key(pem: bytes, path: Path) -> ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey:
    try:
        key = serialization.load_pem_private_key(pem, password=None)
    except TypeError:
        raise OwnAuthorityError(
            _KEY, path, "it is encrypted", "store the key without a passphrase, readable by this user alone"
        ) from None
    except (ValueError, UnsupportedAlgorithm):
        raise OwnAuthorityError(
            _KEY, path, "it holds no private key that can be read", "write it as PEM"
        ) from None
    if isinstance(key, rsa.RSAPrivateKey):
        if key.key_size < MIN_RSA_BITS:
            raise OwnAuthorityError(
                _KEY, path, f"it has {key.key_size} bits, which clients refuse", "use an EC P-256 key"
            )
        return key
    if not isinstance(key, ec.EllipticCurvePrivateKey) or key.curve.name not in CURVES:
        raise OwnAuthorityError(
            _KEY, path, "it is neither RSA nor EC on P-256, P-384 or P-521", "use an EC P-256 key"
        )
    return key


def _read(path: Path, which: str, *, private: bool) -> bytes:
    try:
        # Not blocking, so that a FIFO in its place does not hang the start.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise OwnAuthorityError(
            which, path, f"it cannot be read: {error.strerror}", "name another file"
        ) from None
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OwnAuthorityError(which, path, "it is not a regular file", "name another file")
        if private:
            check_private_file(path, status)
        content = file.read(MAX_FILE_BYTES + 1)
    if len(content) > MAX_FILE_BYTES:
        raise OwnAuthorityError(which, path, f"it is larger than {MAX_FILE_BYTES} bytes", "name another file")
    return content


def check_private_file(path: Path, status: os.stat_result) -> None:
    """The rule of PostgreSQL's ssl_key_file: ours and 0600, or root's and 0640, or less."""
    user, mode = os.geteuid(), stat.S_IMODE(status.st_mode)
    if status.st_uid not in (user, 0):
        raise OwnAuthorityError(
            _KEY,
            path,
            f"it belongs to user {status.st_uid}, who can always read it",
            f"give it to user {user}",
        )
    if mode & (0o077 if status.st_uid == user else 0o037):
        raise OwnAuthorityError(
            _KEY, path, f"other users may read or change it (mode {mode:04o})", f"chmod 600 {path}"
        )
