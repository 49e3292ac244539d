"""Keys of the store: made once, private, and what they seal opens for one page of one agent only."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from fetchd.errors import StoreKeyError
from fetchd.store import StoreKeys, Validators, load_receipt_key
from fetchd.store.values import MAX_VALIDATOR


def test_keys_are_made_once_and_private(tmp_path: Path) -> None:
    first, second = (StoreKeys.load_or_create(tmp_path / "keys") for _ in range(2))

    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "keys").iterdir()}
    assert modes == {"receipt.key": 0o600, "receipt.pub": 0o644, "validators.key": 0o600}
    assert first.public.id == second.public.id
    assert load_receipt_key(tmp_path / "keys" / "receipt.pub").accepts(first.sign(b"x"), b"x")
    assert second.open_validators(first.seal_validators(Validators(b"e"), "p"), "p") == Validators(b"e")


def test_no_key_shows_in_a_repr() -> None:
    keys = StoreKeys.generate()
    assert "secret" not in repr(keys) and "signing" not in repr(keys)
    assert "etag" not in repr(Validators(b"secret"))


@pytest.mark.parametrize(
    ("name", "content", "mode", "said"),
    [
        ("receipt.key", b"junk", 0o600, "receipt.key is not an unencrypted private key in PEM"),
        ("receipt.key", None, 0o640, "receipt.key is open to other users (mode 0640); run: chmod 600"),
        ("receipt.pub", b"junk", 0o644, "receipt.pub is not a public key in PEM"),
        ("receipt.pub", "other", 0o644, "receipt.pub is not the public key of receipt.key"),
        ("validators.key", b"zz", 0o600, "validators.key is not hex"),
        ("validators.key", b"00", 0o600, "validators.key does not hold 32 bytes in hex"),
        ("validators.key", None, 0o644, "validators.key is open to other users"),
    ],
)
def test_a_key_that_cannot_be_used_is_named(
    tmp_path: Path, name: str, content: bytes | str | None, mode: int, said: str
) -> None:
    StoreKeys.load_or_create(tmp_path)
    path = tmp_path / name
    if content == "other":
        content = StoreKeys.generate().public.render_pem()
    if isinstance(content, bytes):
        path.write_bytes(content)
    path.chmod(mode)

    with pytest.raises(StoreKeyError) as caught:
        StoreKeys.load_or_create(tmp_path)
    assert said in str(caught.value) and "\n" not in str(caught.value)


def test_keys_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "keys").write_text("a file")
    with pytest.raises(StoreKeyError, match="cannot be read or made"):
        StoreKeys.load_or_create(tmp_path / "keys")
    with pytest.raises(StoreKeyError, match="no public key at"):
        load_receipt_key(tmp_path / "nowhere.pub")


@pytest.mark.parametrize(
    "validators",
    [
        Validators(b'"e"', b"Mon"),
        Validators(b'"e"'),
        Validators(None, b"Mon"),
        Validators(b"\xff" * MAX_VALIDATOR),
    ],
)
def test_validators_come_back(validators: Validators) -> None:
    keys = StoreKeys.generate()
    assert keys.open_validators(keys.seal_validators(validators, "page"), "page") == validators


def test_sealed_validators_say_nothing_to_others() -> None:
    keys = StoreKeys.generate()
    sealed = keys.seal_validators(Validators(b"canary"), "alice\nhttps://a.example/\n")

    assert b"canary" not in sealed
    assert keys.open_validators(sealed, "bob\nhttps://a.example/\n") is None
    assert StoreKeys.generate().open_validators(sealed, "alice\nhttps://a.example/\n") is None
    for damaged in (b"", sealed[:11], sealed[:-1], sealed + b"x"):
        assert keys.open_validators(damaged, "alice\nhttps://a.example/\n") is None


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (Validators(), None),
        (Validators(b"", b""), None),
        (Validators(b"e" * MAX_VALIDATOR), Validators(b"e" * MAX_VALIDATOR)),
        (Validators(b"e" * (MAX_VALIDATOR + 1)), None),
        (Validators(b"e" * (MAX_VALIDATOR + 1), b"Mon"), Validators(None, b"Mon")),
    ],
)
def test_validators_are_bounded(given: Validators, kept: Validators | None) -> None:
    assert given.bounded() == kept
