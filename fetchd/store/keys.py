"""The store's keys, in `<state>/keys/`, made on first use; see `proxy_addons.audit.keys` for how.

| file | what | mode |
|---|---|---|
| `receipt.key` | Ed25519 private key, PKCS #8 PEM; signs receipts | 0600 |
| `receipt.pub` | its public key, PEM; enough to verify | 0644 |
| `validators.key` | 32 random bytes in hex; AES-256-GCM key of ETag and Last-Modified in the records | 0600 |

Validators are values that a server chose, like cookies, so they are kept encrypted, bound to agent and page.
"""

import secrets
import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from fetchd.errors import StoreKeyError
from proxy_addons.audit import AuditKeyError, PublicKey, load_public_key
from proxy_addons.audit.keys import create_key_file, parse_signing_key, read_private_file

from .values import Validators

SIGNING_FILE: Final = "receipt.key"
PUBLIC_FILE: Final = "receipt.pub"
VALIDATORS_FILE: Final = "validators.key"
_SECRET_BYTES: Final = 32
_NONCE_BYTES: Final = 12
_LENGTH: Final = struct.Struct(">H")


@dataclass(frozen=True, slots=True)
class StoreKeys:
    """The keys of one installation."""

    public: PublicKey
    _signing: Ed25519PrivateKey = field(repr=False)
    _secret: bytes = field(repr=False)

    @classmethod
    def generate(cls) -> Self:
        """Fresh keys that live in memory only."""
        signing = Ed25519PrivateKey.generate()
        return cls(PublicKey.of(signing.public_key()), signing, secrets.token_bytes(_SECRET_BYTES))

    @classmethod
    def load_or_create(cls, directory: Path) -> Self:
        """The keys in `directory`, made there first if need be. Blocks. Raises StoreKeyError."""
        fresh = cls.generate()
        signing_path, public_path = directory / SIGNING_FILE, directory / PUBLIC_FILE
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            create_key_file(signing_path, fresh._render_signing(), 0o600)
            create_key_file(directory / VALIDATORS_FILE, fresh._secret.hex().encode() + b"\n", 0o600)
            signing = parse_signing_key(signing_path, read_private_file(signing_path))
            secret = _parse_secret(directory / VALIDATORS_FILE)
            public = PublicKey.of(signing.public_key())
            create_key_file(public_path, public.render_pem(), 0o644)
            if load_public_key(public_path).id != public.id:
                raise StoreKeyError(
                    f"{public_path} is not the public key of {SIGNING_FILE}; if the private key is the right one, "
                    "move the public file away and start again"
                )
        except OSError as error:
            raise StoreKeyError(
                f"receipt keys in {directory} cannot be read or made: {error.strerror}"
            ) from error
        except AuditKeyError as error:
            raise StoreKeyError(str(error)) from error
        return cls(public, signing, secret)

    def sign(self, data: bytes) -> bytes:
        """Ed25519 signature, 64 bytes."""
        return self._signing.sign(data)

    def seal_validators(self, validators: Validators, page: str) -> bytes:
        """Encrypted; readable for the same `page` only. Each value is at most 64 KiB."""
        etag, date = validators.etag or b"", validators.last_modified or b""
        nonce = secrets.token_bytes(_NONCE_BYTES)
        return nonce + AESGCM(self._secret).encrypt(
            nonce, _LENGTH.pack(len(etag)) + etag + date, page.encode()
        )

    def open_validators(self, sealed: bytes, page: str) -> Validators | None:
        """None for what this key did not seal for this `page`: then there is nothing to reuse."""
        try:
            plain = AESGCM(self._secret).decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], page.encode())
        except (InvalidTag, ValueError):
            return None
        (length,) = _LENGTH.unpack_from(plain)
        etag, date = plain[_LENGTH.size : _LENGTH.size + length], plain[_LENGTH.size + length :]
        return Validators(etag or None, date or None)

    def _render_signing(self) -> bytes:
        return self._signing.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )


def load_receipt_key(path: Path) -> PublicKey:
    """A public key that receipts are verified with. Blocks. Raises StoreKeyError naming the file."""
    try:
        return load_public_key(path)
    except AuditKeyError as error:
        raise StoreKeyError(str(error)) from error


def _parse_secret(path: Path) -> bytes:
    try:
        secret = bytes.fromhex(read_private_file(path).decode("ascii").strip())
    except ValueError as error:
        raise StoreKeyError(f"{path} is not hex; move it away and start again") from error
    if len(secret) != _SECRET_BYTES:
        raise StoreKeyError(
            f"{path} does not hold {_SECRET_BYTES} bytes in hex; move it away and start again"
        )
    return secret
