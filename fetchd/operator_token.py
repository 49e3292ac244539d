"""The operator's token: made by `fetchd operator token`, shown once, kept as a digest.

    fetchd-operator.{43 characters}      a token; the characters are 32 random bytes in base64url

| file | what | mode |
|---|---|---|
| `keys/operator-token.sha256` | SHA-256 of the token, hex | 0600 |

The file is read at each use, so that another token is in force at once and needs no running fetchd to be made.
"""

import re
import secrets
from pathlib import Path
from typing import Final

from certs.files import write_file
from fetchd.running.run_state import SecretError
from proxy_addons.policy.agents import digest_token

TOKEN_FILE: Final = "operator-token.sha256"  # noqa: S105 (a file name)
_TOKEN_BYTES: Final = 32
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")


def has_token(state_dir: Path) -> bool:
    """Whether a token was made before."""
    return (state_dir / "keys" / TOKEN_FILE).exists()


def make_token(state_dir: Path) -> str:
    """Another token in place of the one before, which ends. Raises OSError."""
    keys = state_dir / "keys"
    keys.mkdir(mode=0o700, parents=True, exist_ok=True)
    token = f"fetchd-operator.{secrets.token_urlsafe(_TOKEN_BYTES)}"
    write_file(keys / TOKEN_FILE, digest_token(token).encode() + b"\n", 0o600)
    return token


def read_digest(state_dir: Path) -> str | None:
    """The digest that is kept; None before the first token. Blocks. Raises SecretError, OSError."""
    path = state_dir / "keys" / TOKEN_FILE
    try:
        with path.open("rb") as file:
            text = file.read(256).decode("latin-1").strip()
    except FileNotFoundError:
        return None
    if _DIGEST.fullmatch(text) is None:
        raise SecretError(f"{path} holds no digest; make another token: fetchd operator token")
    return text
