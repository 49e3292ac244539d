"""Makes the gateway's certificate authority on the first start, and checks it on every later one.

    keys/mitmproxy-ca.pem       0600  key and certificate: the authority itself; all else is derived from it
    keys/mitmproxy-ca-cert.pem  0644  the certificate, where mitmproxy's users look for it
    keys/mitmproxy-dhparam.pem  0600  a public constant that mitmproxy wants to find
    keys/ca.lock                0600  held while the files are checked or made
    ca.pem                      0644  the certificate again, for clients; outside `keys/`, which is 0700

mitmproxy reads `keys/` as its confdir. Where it finds no authority it silently makes one of its own (RSA, ten
years, any path length); so this runs before any worker does, and leaves nothing for mitmproxy to write.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from certs.errors import CertificateAuthorityError
from certs.files import hold_lock, prepare_private_directory, read_private_file, write_file
from certs.issuing import PublicAuthority, issue_authority, parse_authority

BASENAME = "mitmproxy"
"""What mitmproxy's file names in the confdir begin with."""

EXPIRY_NOTICE = timedelta(days=30)
"""From how long before the end on each start says that the authority is about to expire."""


@dataclass(frozen=True, slots=True)
class Authority:
    """The authority in use, in its public part."""

    certificate_path: Path
    """What clients have to trust."""
    expires: datetime
    """In UTC."""
    fingerprint_sha256: str
    """As `openssl x509 -fingerprint -sha256` writes it: AB:CD:…"""
    created: bool
    """Whether it was made by this call: clients that trusted a former one do not trust this one yet."""
    notes: tuple[str, ...] = ()
    """Sentences for the operator: permissions that were tightened, copies restored, the end coming near."""


def load_or_create_authority(
    keys_dir: Path, public_path: Path, *, now: Callable[[], datetime] = lambda: datetime.now(UTC)
) -> Authority:
    """Check the authority in `keys_dir`, or make one where there is none; keep `public_path` its copy.

    Blocks on files and, for at most 10 s, on another process that does the same: for the start, before the
    event loop runs. Raises `CertificateAuthorityError` for an authority that is broken, expired, another
    user's, or cannot be written; it is never replaced unasked, because clients trust it.
    """
    path = keys_dir / f"{BASENAME}-ca.pem"
    try:
        notes = prepare_private_directory(keys_dir)
        with hold_lock(keys_dir / "ca.lock"):
            created = False
            try:
                pem, loose = read_private_file(path)
                notes += loose
            except FileNotFoundError:
                created = True
                pem = issue_authority(now())
                write_file(path, pem, 0o600)
            public = parse_authority(pem, path, now())
            _write_dh_parameters(keys_dir / f"{BASENAME}-dhparam.pem")
            for copy in (keys_dir / f"{BASENAME}-ca-cert.pem", public_path):
                notes += _publish(copy, public.certificates_pem)
    except OSError as error:
        raise CertificateAuthorityError(
            f"{error.filename or keys_dir}: {error.strerror or error};"
            " the state directory and keys/ in it must be directories this user can write to"
        ) from error
    return Authority(
        certificate_path=public_path,
        expires=public.expires,
        fingerprint_sha256=public.fingerprint_sha256,
        created=created,
        notes=(*notes, *_note_expiry(public, public_path, now())),
    )


def _publish(path: Path, pem: bytes) -> list[str]:
    """Make `path` a readable copy of the certificate. A different one there would mislead every client."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        found = path.read_bytes()
    except FileNotFoundError:
        found = b""
    if found == pem:
        path.chmod(0o644)
        return []
    write_file(path, pem, 0o644)
    if not found:
        return []
    return [
        f"{path} held another certificate and was rewritten; clients that copied it have to copy it again"
    ]


def _write_dh_parameters(path: Path) -> None:
    """Without it each worker's mitmproxy would write it, in place, and another could read half of it."""
    if not path.exists():
        from mitmproxy.certs import DEFAULT_DHPARAM  # here, because it is slow to import and needed once

        write_file(path, DEFAULT_DHPARAM, 0o600)


def _note_expiry(public: PublicAuthority, public_path: Path, now: datetime) -> list[str]:
    left = public.expires - now
    if left > EXPIRY_NOTICE:
        return []
    return [
        f"{public_path} expires on {public.expires:%Y-%m-%d}, in {left.days} days; replace it before that"
    ]
