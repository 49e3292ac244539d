"""The keys of the audit log, in `<state>/keys/`.

| file | what | mode |
|---|---|---|
| `audit-signing.pem` | Ed25519 private key, PKCS #8 PEM; signs checkpoints | 0600 |
| `audit-signing.pub.pem` | its public key, PEM; enough to verify | 0644 |
| `audit-digest.key` | 32 random bytes in hex; HMAC key of query digests | 0600 |

Made on first use. Several processes may start at once: a key is written aside in full and then linked into
place, which only one of them can win; all then read the winner's.
"""

import hmac
import os
import secrets
import stat
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Self

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from proxy_addons.audit.errors import AuditKeyError

SIGNING_FILE = "audit-signing.pem"
PUBLIC_FILE = "audit-signing.pub.pem"
DIGEST_FILE = "audit-digest.key"
_DIGEST_BYTES = 32


@dataclass(frozen=True, slots=True)
class PublicKey:
    """What checkpoints are verified with. `id` is the first 16 hex digits of SHA-256 over the raw 32-byte
    key."""

    id: str
    _key: Ed25519PublicKey = field(repr=False)

    @classmethod
    def of(cls, key: Ed25519PublicKey) -> Self:
        return cls(sha256(key.public_bytes_raw()).hexdigest()[:16], key)

    def accepts(self, signature: bytes, data: bytes) -> bool:
        """Is `signature` this key's over `data`?"""
        try:
            self._key.verify(signature, data)
        except InvalidSignature:
            return False
        return True

    def render_pem(self) -> bytes:
        """The key as SubjectPublicKeyInfo PEM (RFC 8410)."""
        return self._key.public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )


@dataclass(frozen=True, slots=True)
class AuditKeys:
    """Signing key and digest key of one installation, shared by all its writing processes."""

    public: PublicKey
    _signing: Ed25519PrivateKey = field(repr=False)
    _digest: bytes = field(repr=False)
    _keyed: hmac.HMAC = field(init=False, repr=False, compare=False)
    """The digest with its key taken in: a copy goes on from there, for half the cost."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "_keyed", hmac.new(self._digest, digestmod="sha256"))

    @classmethod
    def generate(cls) -> Self:
        """Fresh keys that live in memory only."""
        signing = Ed25519PrivateKey.generate()
        return cls(PublicKey.of(signing.public_key()), signing, secrets.token_bytes(_DIGEST_BYTES))

    @classmethod
    def load_or_create(cls, directory: Path) -> Self:
        """The keys in `directory`, made there first if need be.

        Raises AuditKeyError: a file cannot be read or written, is not a key, is open to others, or the public
        key is not the private key's.
        """
        fresh = cls.generate()
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            create_key_file(directory / SIGNING_FILE, fresh._render_signing(), 0o600)
            create_key_file(directory / DIGEST_FILE, fresh._digest.hex().encode() + b"\n", 0o600)
            signing = parse_signing_key(directory / SIGNING_FILE, read_private_file(directory / SIGNING_FILE))
            digest = _parse_digest(directory / DIGEST_FILE, read_private_file(directory / DIGEST_FILE))
            public = PublicKey.of(signing.public_key())
            create_key_file(directory / PUBLIC_FILE, public.render_pem(), 0o644)
        except OSError as error:
            raise AuditKeyError(
                f"audit keys in {directory} cannot be read or made: {error.strerror or error}"
            ) from error
        if load_public_key(directory / PUBLIC_FILE).id != public.id:
            raise AuditKeyError(
                f"{directory / PUBLIC_FILE} is not the public key of {SIGNING_FILE}; "
                "if the private key is the right one, move the public file away and start again"
            )
        return cls(public, signing, digest)

    def sign(self, data: bytes) -> bytes:
        """Ed25519 signature, 64 bytes."""
        return self._signing.sign(data)

    def query_digest(self, query: str) -> str | None:
        """``hmac-sha256:`` and the first 32 hex digits of the keyed digest; None for no or an empty query."""
        if not query:
            return None
        keyed = self._keyed.copy()
        keyed.update(query.encode("utf-8", "surrogatepass"))
        return f"hmac-sha256:{keyed.hexdigest()[:32]}"

    def _render_signing(self) -> bytes:
        return self._signing.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )


def load_public_key(path: Path) -> PublicKey:
    """An Ed25519 public key in PEM. Raises AuditKeyError naming the file."""
    try:
        key = serialization.load_pem_public_key(path.read_bytes())
    except OSError as error:
        raise AuditKeyError(f"no public key at {path}: {error.strerror or error}") from error
    except (ValueError, UnsupportedAlgorithm) as error:
        raise AuditKeyError(f"{path} is not a public key in PEM") from error
    if not isinstance(key, Ed25519PublicKey):
        raise AuditKeyError(f"{path} is not an Ed25519 public key")
    return PublicKey.of(key)


def create_key_file(path: Path, content: bytes, mode: int) -> None:
    """Puts `content` at `path` unless a file is there; whoever looks sees nothing or all of it. Raises OSError."""
    if path.exists():
        return
    aside = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    fd = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(fd)
        try:
            os.link(aside, path)
        except FileExistsError:
            return  # another process was first; its key is the key
        sync_directory(path.parent)
    finally:
        aside.unlink()


def sync_directory(directory: Path) -> None:
    """Makes names made or replaced in `directory` outlive a power cut. Raises OSError."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def read_private_file(path: Path) -> bytes:
    """At most 64 KiB of a file that nobody else can read. Raises AuditKeyError when somebody can; OSError."""
    with path.open("rb") as file:
        mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
        if mode & 0o077:
            raise AuditKeyError(f"{path} is open to other users (mode {mode:04o}); run: chmod 600 {path}")
        return file.read(1 << 16)


def parse_signing_key(path: Path, content: bytes) -> Ed25519PrivateKey:
    """The private key in a file's `content`, PKCS #8 PEM. Raises AuditKeyError naming `path`."""
    try:
        key = serialization.load_pem_private_key(content, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise AuditKeyError(
            f"{path} is not an unencrypted private key in PEM; restore it from a copy"
        ) from error
    if not isinstance(key, Ed25519PrivateKey):
        raise AuditKeyError(f"{path} is not an Ed25519 private key; restore it from a copy")
    return key


def _parse_digest(path: Path, content: bytes) -> bytes:
    try:
        key = bytes.fromhex(content.decode("ascii").strip())
    except ValueError as error:
        raise AuditKeyError(f"{path} is not hex; restore it from a copy") from error
    if len(key) != _DIGEST_BYTES:
        raise AuditKeyError(f"{path} does not hold {_DIGEST_BYTES} bytes in hex; restore it from a copy")
    return key
