"""Makes the gateway's certificate authority on the first start, and checks it on every later one.

    keys/mitmproxy-ca.pem       0600  key and certificate: the authority itself; all else is derived from it
    keys/next-ca.pem            0600  the same of the one to come, between the two steps of a rotation
    keys/mitmproxy-ca-cert.pem  0644  the certificate, where mitmproxy's users look for it
    keys/mitmproxy-dhparam.pem  0600  a public constant that mitmproxy wants to find
    keys/ca.lock                0600  held while the files are checked or made
    ca.pem                      0644  what clients trust; outside `keys/`, which is 0700

The files are read here, once, before any worker runs; workers are handed what they sign with. So all workers of a
gateway sign with one authority, the one that was checked, whatever becomes of the files while they run.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from certs.chain import PublicAuthority
from certs.errors import CertificateAuthorityError
from certs.files import hold_lock, prepare_private_directory, read_private_file, write_file
from certs.issuing import issue_authority, parse_authority
from certs.own import OwnFiles, load_own_authority

BASENAME = "mitmproxy"
"""What mitmproxy's file names in the confdir begin with."""

NEXT_FILE = "next-ca.pem"

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
    """Of what clients trust, as `openssl x509 -fingerprint -sha256` writes it: AB:CD:…"""
    created: bool
    """Whether it was made by this call: clients that trusted a former one do not trust this one yet."""
    notes: tuple[str, ...] = ()
    """Sentences for the operator: permissions that were tightened, copies restored, the end coming near."""
    signing_pem: bytes = field(default=b"", repr=False, compare=False)
    """What workers sign with: the key, its certificate, and who issued that. Secret."""


@dataclass(frozen=True, slots=True)
class KeyFiles:
    """Where an installation keeps its authority: `keys/`, and the file that clients are given."""

    keys_dir: Path
    public_path: Path

    @property
    def current(self) -> Path:
        return self.keys_dir / f"{BASENAME}-ca.pem"

    @property
    def next(self) -> Path:
        return self.keys_dir / NEXT_FILE

    @property
    def lock(self) -> Path:
        return self.keys_dir / "ca.lock"

    @property
    def certificate(self) -> Path:
        return self.keys_dir / f"{BASENAME}-ca-cert.pem"

    @property
    def dh_parameters(self) -> Path:
        return self.keys_dir / f"{BASENAME}-dhparam.pem"


def utc_now() -> datetime:
    return datetime.now(UTC)


def load_or_create_authority(
    keys_dir: Path,
    public_path: Path,
    own: OwnFiles | None = None,
    *,
    now: Callable[[], datetime] = utc_now,
) -> Authority:
    """Check the authority in `keys_dir`, or make one where there is none; keep `public_path` its copy.

    own: use this one instead; that in `keys_dir` is then left alone. Blocks on files and, for at most 10 s, on
    another process that does the same: for the start, before the event loop runs. Raises
    `CertificateAuthorityError` for an authority that is broken, expired, another user's, or cannot be written; it
    is never replaced unasked, because clients trust it.
    """
    files = KeyFiles(keys_dir, public_path)
    created, notes = False, []
    try:
        notes += prepare_private_directory(keys_dir)
        with hold_lock(files.lock):
            _write_dh_parameters(files.dh_parameters)
            if own is not None:
                public, pem = load_own_authority(own, now())
                bundle = public.root_pem
            else:
                try:
                    pem, loose = read_private_file(files.current)
                    notes += loose
                except FileNotFoundError:
                    created = True
                    pem = issue_authority(now())
                    write_file(files.current, pem, 0o600)
                public = parse_authority(pem, files.current, now())
                coming, said = read_next(files, now())
                notes += said
                bundle = public.root_pem + (coming.root_pem if coming is not None else b"")
                notes += publish(files.certificate, public.certificates_pem)
            notes += publish(public_path, bundle)
    except OSError as error:
        raise state_error(files, error) from error
    return Authority(
        certificate_path=public_path,
        expires=public.expires,
        fingerprint_sha256=public.fingerprint_sha256,
        created=created,
        notes=(*notes, *public.notes, *_note_expiry(public, own, public_path, now())),
        signing_pem=pem,
    )


def inspect_authority(
    keys_dir: Path, public_path: Path, own: OwnFiles | None = None, *, now: Callable[[], datetime] = utc_now
) -> tuple[PublicAuthority, PublicAuthority | None]:
    """The authority in use, and the one that a rotation has prepared; writes nothing.

    Raises FileNotFoundError when there is none yet, CertificateAuthorityError.
    """
    if own is not None:
        return load_own_authority(own, now())[0], None
    files = KeyFiles(keys_dir, public_path)
    try:
        pem, _ = read_private_file(files.current)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise state_error(files, error) from error
    return parse_authority(pem, files.current, now()), read_next(files, now())[0]


def read_next(files: KeyFiles, now: datetime) -> tuple[PublicAuthority | None, list[str]]:
    """The prepared authority, and what to tell the operator of one that cannot be used; a start goes on without."""
    try:
        pem, notes = read_private_file(files.next)
    except FileNotFoundError:
        return None, []
    try:
        return parse_authority(pem, files.next, now), notes
    except CertificateAuthorityError as error:
        return None, [*notes, f"no rotation is prepared any more: {error}, or: fetchd ca rotate --cancel"]


def publish(path: Path, pem: bytes) -> list[str]:
    """Make `path` a readable copy of certificates. Others than before there would mislead every client."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        found = path.read_bytes()
    except FileNotFoundError:
        found = b""
    if found == pem:
        path.chmod(0o644)
        return []
    write_file(path, pem, 0o644)
    if not found or found in pem or pem in found:  # a rotation adds the next one and takes the former away
        return []
    return [
        f"{path} held another certificate and was rewritten; clients that copied it have to copy it again"
    ]


def state_error(files: KeyFiles, error: OSError) -> CertificateAuthorityError:
    """What the operator is told of a file that cannot be read or written."""
    return CertificateAuthorityError(
        f"{error.filename or files.keys_dir}: {error.strerror or error};"
        " the state directory and keys/ in it must be directories this user can write to"
    )


def _write_dh_parameters(path: Path) -> None:
    """Without it each worker's mitmproxy would write it, in place, and another could read half of it."""
    if not path.exists():
        from mitmproxy.certs import DEFAULT_DHPARAM  # here, because it is slow to import and needed once

        write_file(path, DEFAULT_DHPARAM, 0o600)


def _note_expiry(
    public: PublicAuthority, own: OwnFiles | None, public_path: Path, now: datetime
) -> list[str]:
    left = public.expires - now
    if left > EXPIRY_NOTICE:
        return []
    which = own.certificate if own is not None else public_path
    how = "" if own is not None else ": fetchd ca rotate --prepare"
    return [f"{which} expires on {public.expires:%Y-%m-%d}, in {left.days} days; replace it before that{how}"]
