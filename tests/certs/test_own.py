"""An authority of one's own: each way it can be wrong and the line that says so; left as it is, and used."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from certs.authority import inspect_authority, load_or_create_authority
from certs.chain import fingerprint
from certs.errors import CertificateAuthorityError, OwnAuthorityError
from certs.files import MAX_FILE_BYTES
from certs.own import OwnFiles, check_private_file, load_own_authority
from tests.kit.authorities import CLIENTS, SERVERS, Ca, intermediate

NOW = datetime.now(UTC)
DAY = timedelta(days=1)


def load(folder: Path) -> tuple[x509.Certificate, ...]:
    return load_own_authority(OwnFiles(folder / "corp.pem", folder / "corp.key"), datetime.now(UTC))[0].chain


GOOD: dict[str, Callable[[], Ca]] = {
    "a root": lambda: Ca("corp root"),
    "a root that may sign leaves alone": lambda: Ca("corp root", path_length=0),
    "an intermediate that may sign leaves alone": intermediate,
    "an intermediate below a root that may have one": lambda: intermediate(
        issuer=Ca("corp root", path_length=1)
    ),
    "two intermediates": lambda: Ca(
        "low", issuer=Ca("high", issuer=Ca("corp root", path_length=2), path_length=1)
    ),
    "an old root without KeyUsage": lambda: intermediate(issuer=Ca("corp root", may_sign=None)),
    "one for servers": lambda: intermediate(usage=(SERVERS, CLIENTS)),
    "an RSA key": lambda: Ca("corp root", key=rsa.generate_private_key(65537, 2048)),
    "a P-384 key": lambda: Ca("corp root", key=ec.generate_private_key(ec.SECP384R1())),
    "a key identifier that is no SHA-1": lambda: intermediate(odd_key_id=True),
}


@pytest.mark.parametrize("case", GOOD)
def test_what_clients_take_is_taken(tmp_path: Path, case: str) -> None:
    own = GOOD[case]()
    own.write(tmp_path)
    chain = load(tmp_path)

    assert chain[0] == own.certificate and chain[-1].subject == chain[-1].issuer


BAD: dict[str, tuple[Callable[[], Ca], str]] = {
    "a leaf": (lambda: Ca("x", ca=False, may_sign=False), "may not sign others"),
    "no word of being an authority": (lambda: Ca("x", ca=None), "may not sign others"),
    "no KeyUsage, which strict clients want of the signer": (lambda: Ca("x", may_sign=None), "may not sign others"),
    "an issuer that is no authority": (
        lambda: intermediate(issuer=Ca("corp root", ca=False, may_sign=False)), "corp root in its chain may not sign",
    ),
    "an issuer that may not sign": (
        lambda: intermediate(issuer=Ca("corp root", may_sign=False)), "corp root in its chain may not sign",
    ),
    "a root that may have no authority below it": (
        lambda: intermediate(issuer=Ca("corp root", path_length=0)), "may not have 1 authorities below it",
    ),
    "one too many": (
        lambda: Ca("low", issuer=Ca("high", issuer=Ca("corp root", path_length=1))),
        "may not have 2 authorities below it (path length 1)",
    ),
    "for clients alone": (lambda: intermediate(usage=(CLIENTS,)), "may not vouch for servers"),
    "expired": (lambda: Ca("x", begin=NOW - 2 * DAY, end=NOW - DAY), "it expired on"),
    "a root that expired": (
        lambda: intermediate(issuer=Ca("corp root", begin=NOW - 2 * DAY, end=NOW - DAY)), "CN=corp root expired on",
    ),
    "not valid yet": (lambda: Ca("x", begin=NOW + DAY), "set the clock right"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_a_certificate_that_clients_would_refuse(tmp_path: Path, case: str) -> None:
    make, words = BAD[case]
    make().write(tmp_path)

    with pytest.raises(OwnAuthorityError) as caught:
        load(tmp_path)
    assert caught.value.which == "certificate" and words in str(caught.value)
    assert str(caught.value).startswith(f"{tmp_path / 'corp.pem'}: ") and "\n" not in str(caught.value)


def change_key(pem: bytes) -> Callable[[Path], object]:
    return lambda folder: (folder / "corp.key").write_bytes(pem)


def put_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path, 0o600)


SHORT = rsa.generate_private_key(65537, 1024)  # noqa: S505 (what is to be refused)

FILES: dict[str, tuple[Callable[[Path], object], str, str]] = {
    "no key file": (lambda d: (d / "corp.key").unlink(), "key", "it cannot be read: No such file or directory"),
    "no certificate file": (lambda d: (d / "corp.pem").unlink(), "certificate", "it cannot be read: No such file"),
    "a pipe": (
        lambda d: put_pipe(d / "corp.key"), "key", "it is not a regular file",
    ),
    "too much": (
        lambda d: (d / "corp.pem").write_bytes(b"#" * (MAX_FILE_BYTES + 1)), "certificate", "it is larger than",
    ),
    "a passphrase": (change_key(Ca("x").key_pem(b"secret")), "key", "it is encrypted; store the key without"),
    "no key in it": (change_key(b"hello"), "key", "it holds no private key that can be read"),
    "a certificate in the key's place": (change_key(Ca("x").pem), "key", "it holds no private key"),
    "another key": (change_key(Ca("x").key_pem()), "certificate", "its first certificate is not that of"),
    "a short RSA key": (
        change_key(Ca("x", key=SHORT).key_pem()), "key", "it has 1024 bits",
    ),
    "an Ed25519 key": (
        change_key(Ca("x", key=ed25519.Ed25519PrivateKey.generate()).key_pem()), "key", "it is neither RSA nor EC",
    ),
    "a curve of its own": (
        change_key(Ca("x", key=ec.generate_private_key(ec.SECP256K1())).key_pem()), "key", "neither RSA nor EC on",
    ),
    "no certificate in it": (lambda d: (d / "corp.pem").write_bytes(b"hello"), "certificate", "it holds no certif"),
    "a certificate cut short": (
        lambda d: (d / "corp.pem").write_bytes((d / "corp.pem").read_bytes()[:-60]), "certificate", "it holds no",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", FILES)
def test_files_that_cannot_be_used(tmp_path: Path, case: str) -> None:
    change, which, words = FILES[case]
    Ca("corp root").write(tmp_path)
    change(tmp_path)

    with pytest.raises(OwnAuthorityError) as caught:
        load(tmp_path)
    assert caught.value.which == which and words in str(caught.value), str(caught.value)
    assert "PRIVATE" not in str(caught.value)


@pytest.mark.parametrize("order", ["without its root", "root first", "with a stranger behind it"])
def test_the_certificates_lead_from_the_key_to_the_root(tmp_path: Path, order: str) -> None:
    own = intermediate()
    certificate, _ = own.write(tmp_path)
    assert own.issuer is not None
    certificate.write_bytes(
        {
            "without its root": own.pem,
            "root first": own.issuer.pem + own.pem,
            "with a stranger behind it": own.pem + Ca("corp root").pem,
        }[order]
    )

    with pytest.raises(OwnAuthorityError, match=r"its first certificate is not|append the issuers"):
        load(tmp_path)


@pytest.mark.parametrize(
    ("mode", "good"),
    [
        (0o600, True),
        (0o400, True),
        (0o640, False),
        (0o604, False),
        (0o620, False),
        (0o644, False),
        (0o610, False),
    ],
    ids=lambda value: f"{value:04o}" if isinstance(value, int) and not isinstance(value, bool) else "",
)
def test_a_key_of_ours_is_for_us_alone(tmp_path: Path, mode: int, good: bool) -> None:
    _, key = Ca("corp root").write(tmp_path)
    key.chmod(mode)

    if good:
        load(tmp_path)
    else:
        with pytest.raises(
            OwnAuthorityError, match=rf"other users may read or change it \(mode {mode:04o}\); chmod 600"
        ):
            load(tmp_path)
    assert stat.S_IMODE(key.stat().st_mode) == mode, "the file is its owner's to change"


@pytest.mark.parametrize(
    ("uid", "mode", "good"),
    [
        pytest.param(1000, 0o600, True, id="ours, for us"),
        pytest.param(1000, 0o640, False, id="ours, and our group reads it"),
        pytest.param(0, 0o600, True, id="root's"),
        pytest.param(0, 0o640, True, id="root's, and our group reads it"),
        pytest.param(0, 0o660, False, id="root's, and our group changes it"),
        pytest.param(0, 0o644, False, id="root's, and all read it"),
        pytest.param(1001, 0o600, False, id="another user's, who can open it again"),
    ],
)
def test_whose_a_key_may_be(monkeypatch: pytest.MonkeyPatch, uid: int, mode: int, good: bool) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    status = os.stat_result((stat.S_IFREG | mode, 1, 1, 1, uid, 0, 0, 0, 0, 0))

    if good:
        check_private_file(Path("corp.key"), status)
    else:
        with pytest.raises(OwnAuthorityError):
            check_private_file(Path("corp.key"), status)


def test_links_are_followed_and_one_file_may_hold_both(tmp_path: Path) -> None:
    """Secrets are mounted into containers as links."""
    own = intermediate()
    both = tmp_path / "data.pem"
    both.write_bytes(own.key_pem() + own.chain)
    both.chmod(0o600)
    for name in ("corp.pem", "corp.key"):
        (tmp_path / name).symlink_to(both)

    assert load(tmp_path)[0] == own.certificate


def test_name_constraints_are_a_note_and_no_error(tmp_path: Path) -> None:
    own = intermediate(permitted="example.com")
    files = OwnFiles(*own.write(tmp_path))
    public, _ = load_own_authority(files, datetime.now(UTC))

    (note,) = public.notes
    assert note.startswith("CN=corp gateway has name constraints: clients will refuse hosts outside of them")


@given(position=st.integers(0, 2000), byte=st.integers(0, 255))
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_one_changed_byte_is_the_same_authority_or_the_named_error(
    tmp_path: Path, position: int, byte: int
) -> None:
    files = OwnFiles(*PLAIN.write(tmp_path))
    content = bytearray(files.certificate.read_bytes())
    content[position % len(content)] = byte
    files.certificate.write_bytes(content)
    try:
        chain = load(tmp_path)
    except OwnAuthorityError:
        return
    assert chain[0] == PLAIN.certificate


PLAIN = intermediate()


class TestStart:
    """What a start makes of it, in a state directory that may have an authority already."""

    def start(self, state: Path, own: OwnFiles | None) -> bytes:
        authority = load_or_create_authority(state / "keys", state / "ca.pem", own)
        assert authority.created == (own is None)
        return authority.signing_pem

    def test_clients_get_the_root_and_workers_the_chain(self, tmp_path: Path) -> None:
        own = intermediate()
        files = OwnFiles(*own.write(tmp_path))
        state = tmp_path / "state"
        authority = load_or_create_authority(state / "keys", state / "ca.pem", files)

        assert own.issuer is not None
        assert (state / "ca.pem").read_bytes() == own.issuer.pem
        assert authority.fingerprint_sha256 == fingerprint(own.issuer.certificate)
        assert authority.signing_pem.endswith(own.chain)
        assert b"PRIVATE" not in repr(authority).encode()
        assert {path.name for path in (state / "keys").iterdir()} == {"ca.lock", "mitmproxy-dhparam.pem"}

    def test_the_installation_s_own_is_left_for_the_day_it_is_wanted_again(self, tmp_path: Path) -> None:
        state, files = tmp_path / "state", OwnFiles(*intermediate().write(tmp_path))
        made = self.start(state, None)
        ca_pem = (state / "ca.pem").read_bytes()
        authority = load_or_create_authority(state / "keys", state / "ca.pem", files)
        assert any("held another certificate and was rewritten" in note for note in authority.notes)
        again = load_or_create_authority(state / "keys", state / "ca.pem")

        assert (again.signing_pem, again.created) == (made, False)
        assert (state / "ca.pem").read_bytes() == ca_pem

    def test_the_end_is_announced_with_the_file_to_replace(self, tmp_path: Path) -> None:
        files = OwnFiles(*Ca("corp root", end=datetime.now(UTC) + 10 * DAY).write(tmp_path))
        authority = load_or_create_authority(tmp_path / "keys", tmp_path / "ca.pem", files)

        assert any(
            f"{files.certificate} expires on" in note and "rotate" not in note for note in authority.notes
        )

    def test_nothing_is_made_when_it_cannot_be_used(self, tmp_path: Path) -> None:
        files = OwnFiles(*Ca("x", ca=False).write(tmp_path))

        with pytest.raises(CertificateAuthorityError):
            load_or_create_authority(tmp_path / "keys", tmp_path / "ca.pem", files)
        assert not (tmp_path / "ca.pem").exists()
        with pytest.raises(CertificateAuthorityError):
            inspect_authority(tmp_path / "keys", tmp_path / "ca.pem", files)
