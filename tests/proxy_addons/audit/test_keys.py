"""Keys: made once whoever starts first, closed to others, refused when they are not what they should be."""

from __future__ import annotations

import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from proxy_addons.audit import AuditKeyError, AuditKeys, load_public_key
from proxy_addons.audit.keys import DIGEST_FILE, PUBLIC_FILE, SIGNING_FILE


def test_keys_are_made_once_and_read_back(tmp_path: Path) -> None:
    first, second = AuditKeys.load_or_create(tmp_path / "keys"), AuditKeys.load_or_create(tmp_path / "keys")

    assert first.public.id == second.public.id == load_public_key(tmp_path / "keys" / PUBLIC_FILE).id
    assert first.query_digest("a=b") == second.query_digest("a=b")
    assert second.public.accepts(first.sign(b"data"), b"data")
    assert not second.public.accepts(first.sign(b"data"), b"other")


def test_private_keys_are_closed_to_others_and_nothing_else_is_left(tmp_path: Path) -> None:
    AuditKeys.load_or_create(tmp_path / "keys")

    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "keys").iterdir()}
    assert modes.pop(PUBLIC_FILE) & 0o600 == 0o600
    assert modes == {SIGNING_FILE: 0o600, DIGEST_FILE: 0o600}
    assert stat.S_IMODE((tmp_path / "keys").stat().st_mode) == 0o700


def test_processes_that_start_together_end_with_the_same_keys(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from proxy_addons.audit import AuditKeys\n"
        "print('ready', flush=True); sys.stdin.readline()\n"
        "keys = AuditKeys.load_or_create(Path(sys.argv[1])); print(keys.public.id, keys.query_digest('a'))"
    )
    starters = [
        subprocess.Popen(
            [sys.executable, "-c", program, str(tmp_path / "keys")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(4)
    ]
    for starter in starters:
        assert starter.stdout is not None and starter.stdout.readline() == "ready\n"
    results = [starter.communicate("go\n")[0] for starter in starters]

    assert len(set(results)) == 1 and results[0].strip()
    assert [starter.returncode for starter in starters] == [0] * 4


def test_who_comes_second_uses_the_first_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process makes the key between our look and our write."""
    first = AuditKeys.load_or_create(tmp_path)
    monkeypatch.setattr(Path, "exists", lambda self: False)

    second = AuditKeys.load_or_create(tmp_path)

    assert (second.public.id, second.query_digest("a")) == (first.public.id, first.query_digest("a"))
    assert len(list(tmp_path.iterdir())) == 3


def _other_kind_of_key() -> bytes:
    return ec.generate_private_key(ec.SECP256R1()).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _put_a_directory(keys: Path) -> None:
    (keys / DIGEST_FILE).unlink()
    (keys / DIGEST_FILE).mkdir()


SPOILED: dict[str, tuple[Callable[[Path], object], str]] = {
    "a signing key that others can read": (lambda d: (d / SIGNING_FILE).chmod(0o640), "chmod 600"),
    "a digest key that others can read": (lambda d: (d / DIGEST_FILE).chmod(0o604), "chmod 600"),
    "a signing key that is no key": (
        lambda d: (d / SIGNING_FILE).write_bytes(b"no"),
        "not an unencrypted private",
    ),
    "a signing key of another kind": (
        lambda d: (d / SIGNING_FILE).write_bytes(_other_kind_of_key()),
        "not an Ed25519",
    ),
    "a digest key that is no hex": (lambda d: (d / DIGEST_FILE).write_text("zz"), "not hex"),
    "a digest key that is too short": (lambda d: (d / DIGEST_FILE).write_text("00" * 31), "32 bytes"),
    "a public key that is no key": (lambda d: (d / PUBLIC_FILE).write_text("no"), "not a public key"),
    "a public key of another private key": (
        lambda d: (d / PUBLIC_FILE).write_bytes(AuditKeys.generate().public.render_pem()),
        "is not the public key of",
    ),
    "a directory in a key's place": (
        _put_a_directory,
        "cannot be",
    ),
}


@pytest.mark.parametrize("case", SPOILED)
def test_a_spoiled_key_is_refused_by_name(case: str, tmp_path: Path) -> None:
    spoil, message = SPOILED[case]
    AuditKeys.load_or_create(tmp_path)
    spoil(tmp_path)

    with pytest.raises(AuditKeyError, match=message) as raised:
        AuditKeys.load_or_create(tmp_path)

    assert str(tmp_path) in str(raised.value)


def test_a_lost_public_key_is_written_again(tmp_path: Path) -> None:
    keys = AuditKeys.load_or_create(tmp_path)
    (tmp_path / PUBLIC_FILE).unlink()

    assert AuditKeys.load_or_create(tmp_path).public.id == keys.public.id
    assert load_public_key(tmp_path / PUBLIC_FILE).id == keys.public.id


def test_a_missing_public_key_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    with pytest.raises(AuditKeyError, match=r"no public key at .*audit-signing\.pub\.pem"):
        load_public_key(tmp_path / PUBLIC_FILE)


def test_a_directory_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(AuditKeyError, match="Not a directory"):
        AuditKeys.load_or_create(tmp_path / "file" / "keys")


def test_a_query_digest_is_keyed_short_and_null_for_no_query() -> None:
    one, other = AuditKeys.generate(), AuditKeys.generate()

    digest = one.query_digest("token=abc123")
    assert (
        digest is not None and digest.startswith("hmac-sha256:") and len(digest) == len("hmac-sha256:") + 32
    )
    assert digest == one.query_digest("token=abc123")
    assert digest not in {one.query_digest("token=abc124"), other.query_digest("token=abc123")}
    assert one.query_digest("") is None
    assert one.query_digest("\ud800") is not None


def test_no_key_shows_in_a_repr(tmp_path: Path) -> None:
    keys = AuditKeys.load_or_create(tmp_path)
    secret = (tmp_path / DIGEST_FILE).read_text().strip()

    assert secret not in repr(keys) and "Ed25519PrivateKey" not in repr(keys)
