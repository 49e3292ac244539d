"""The gateway's authority: made once, kept tight, refused when it is not whole, good to strict clients."""

import os
import shutil
import ssl
import stat
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from mitmproxy.certs import CertStore

from certs.authority import Authority, load_or_create_authority
from certs.errors import CertificateAuthorityError

ROOT = Path(__file__).parents[2]
NOW = datetime(2026, 3, 1, 12, 0, 0, 500_000, tzinfo=UTC)


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


def load(state: Path, now: datetime | None = None) -> Authority:
    """What a start does with the state directory `state`."""
    if now is None:
        return load_or_create_authority(state / "keys", state / "ca.pem")
    return load_or_create_authority(state / "keys", state / "ca.pem", now=lambda: now)


def key_file(state: Path) -> Path:
    return state / "keys" / "mitmproxy-ca.pem"


def read_tree(state: Path) -> dict[str, bytes]:
    return {str(path.relative_to(state)): path.read_bytes() for path in state.rglob("*") if path.is_file()}


def read_modes(state: Path) -> dict[str, int]:
    return {str(path.relative_to(state)): stat.S_IMODE(path.stat().st_mode) for path in state.rglob("*")}


MODES = {
    "ca.pem": 0o644,
    "keys": 0o700,
    "keys/ca.lock": 0o600,
    "keys/mitmproxy-ca-cert.pem": 0o644,
    "keys/mitmproxy-ca.pem": 0o600,
    "keys/mitmproxy-dhparam.pem": 0o600,
}


class TestFirstStart:
    @pytest.mark.parametrize("umask", [0o000, 0o022, 0o077], ids=lambda umask: f"umask {umask:03o}")
    def test_files_and_modes_are_the_same_under_any_umask(self, state: Path, umask: int) -> None:
        before = os.umask(umask)
        try:
            load(state)
        finally:
            os.umask(before)

        assert read_modes(state) == MODES

    def test_the_answer_describes_the_certificate_clients_get(self, state: Path) -> None:
        authority = load(state, NOW)
        certificate = x509.load_pem_x509_certificate((state / "ca.pem").read_bytes())

        assert authority == Authority(
            certificate_path=state / "ca.pem",
            expires=datetime(2028, 6, 2, 12, 0, 0, tzinfo=UTC),
            fingerprint_sha256=authority.fingerprint_sha256,
            created=True,
        )
        assert authority.expires == certificate.not_valid_after_utc

    def test_the_fingerprint_is_what_openssl_shows(self, state: Path, openssl: str) -> None:
        authority = load(state)
        shown = run(openssl, "x509", "-in", state / "ca.pem", "-noout", "-fingerprint", "-sha256").stdout

        assert shown.strip().partition("=")[2] == authority.fingerprint_sha256

    def test_the_key_is_in_one_file_alone(self, state: Path) -> None:
        load(state)

        assert [name for name, content in read_tree(state).items() if b"PRIVATE KEY" in content] == [
            "keys/mitmproxy-ca.pem"
        ]
        assert b"-----BEGIN PRIVATE KEY-----" in key_file(state).read_bytes()  # PKCS #8

    def test_two_machines_have_nothing_in_common(self, tmp_path: Path) -> None:
        first, second = load(tmp_path / "one"), load(tmp_path / "two")
        certificates = [
            x509.load_pem_x509_certificate(authority.certificate_path.read_bytes())
            for authority in (first, second)
        ]

        assert first.fingerprint_sha256 != second.fingerprint_sha256
        assert certificates[0].serial_number != certificates[1].serial_number
        assert certificates[0].subject != certificates[1].subject
        assert certificates[0].public_key() != certificates[1].public_key()

    def test_what_a_crash_left_behind_is_cleared_away(self, state: Path) -> None:
        (state / "keys").mkdir(parents=True)
        (state / "keys" / ".mitmproxy-ca.pem.new").write_bytes(b"-----BEGIN PRIV")
        load(state)

        assert read_modes(state) == MODES

    def test_a_new_authority_over_a_former_ones_certificate_says_that_clients_must_follow(
        self, state: Path
    ) -> None:
        load(state)
        key_file(state).unlink()
        authority = load(state)

        assert authority.created
        assert any("ca.pem held another certificate" in note for note in authority.notes)


class TestLaterStarts:
    def test_the_same_authority_comes_back_and_no_file_changes(self, state: Path) -> None:
        first = load(state)
        files = read_tree(state)
        second = load(state)

        assert (second.created, second.notes) == (False, ())
        assert second.fingerprint_sha256 == first.fingerprint_sha256
        assert second.expires == first.expires
        assert read_tree(state) == files

    @pytest.mark.parametrize(
        "lost", ["ca.pem", "keys/mitmproxy-ca-cert.pem", "keys/mitmproxy-dhparam.pem", "keys/ca.lock"]
    )
    def test_a_derived_file_that_was_lost_is_made_again(self, state: Path, lost: str) -> None:
        load(state)
        files = read_tree(state)
        (state / lost).unlink()
        authority = load(state)

        assert (authority.created, authority.notes) == (False, ())
        assert read_tree(state) == files
        assert read_modes(state) == MODES

    @pytest.mark.parametrize("copy", ["ca.pem", "keys/mitmproxy-ca-cert.pem"])
    def test_a_copy_that_holds_something_else_is_rewritten_and_noted(self, state: Path, copy: str) -> None:
        load(state)
        files = read_tree(state)
        (state / copy).write_text("another certificate")
        authority = load(state)

        (note,) = authority.notes
        assert note.startswith(f"{state / copy} held another certificate and was rewritten; clients")
        assert read_tree(state) == files

    @pytest.mark.parametrize(
        ("name", "mode", "noted"),
        [
            pytest.param("keys", 0o755, True, id="a directory others may enter is closed, with a note"),
            pytest.param("keys", 0o710, True, id="a directory the group may pass is closed, with a note"),
            pytest.param(
                "keys/mitmproxy-ca.pem", 0o644, True, id="a key others may read is closed, with a note"
            ),
            pytest.param("keys/mitmproxy-ca.pem", 0o620, True, id="a key the group may write is closed"),
            pytest.param(
                "keys/mitmproxy-ca.pem", 0o604, True, id="a key others but no group may read is closed"
            ),
            pytest.param(
                "ca.pem", 0o600, False, id="a certificate clients cannot read is opened, without a note"
            ),
            pytest.param(
                "ca.pem", 0o666, False, id="a certificate anyone may change is closed, without a note"
            ),
        ],
    )
    def test_permissions_are_set_right(self, state: Path, name: str, mode: int, noted: bool) -> None:
        load(state)
        (state / name).chmod(mode)
        authority = load(state)

        assert read_modes(state) == MODES
        assert [str(state / name) in note and f"mode {mode:04o}" in note for note in authority.notes] == (
            [True] if noted else []
        )

    def test_a_key_only_its_owner_reads_may_be_read_only(self, state: Path) -> None:
        load(state)
        key_file(state).chmod(0o400)

        assert load(state).notes == ()
        assert read_modes(state)["keys/mitmproxy-ca.pem"] == 0o400

    @pytest.mark.parametrize(
        ("days_left", "noted"),
        [
            pytest.param(
                timedelta(days=30, seconds=1), False, id="just over 30 days before the end: nothing"
            ),
            pytest.param(timedelta(days=30), True, id="30 days before the end: a note"),
            pytest.param(timedelta(microseconds=1), True, id="at the last moment: a note, and still good"),
        ],
    )
    def test_the_end_is_announced(self, state: Path, days_left: timedelta, noted: bool) -> None:
        expires = load(state, NOW).expires
        notes = load(state, expires - days_left).notes

        assert ["expires on 2028-06-02" in note for note in notes] == ([True] if noted else [])


class TestRefused:
    """Nothing here is mended unasked: clients trust the authority that was."""

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            pytest.param(b"", "holds no private key", id="an empty file"),
            pytest.param(b"-----BEGIN PRIVATE KEY-----\nMIGH", "holds no private key", id="half a key"),
        ],
    )
    def test_a_broken_authority_is_named_and_left_as_it_is(
        self, state: Path, content: bytes, message: str
    ) -> None:
        load(state)
        key_file(state).write_bytes(content)
        files = read_tree(state)

        with pytest.raises(CertificateAuthorityError, match=message) as caught:
            load(state)
        assert str(key_file(state)) in str(caught.value)
        assert "restore it, or remove it and start again" in str(caught.value)
        assert read_tree(state) == files

    def test_an_expired_authority_is_refused_at_its_last_instant(self, state: Path) -> None:
        expires = load(state, NOW).expires

        with pytest.raises(CertificateAuthorityError, match=r"expired on 2028-06-02 12:00 UTC; remove it"):
            load(state, expires)

    @pytest.mark.parametrize("name", ["keys", "ca.pem", "keys/mitmproxy-ca.pem", "keys/ca.lock"])
    def test_something_else_in_a_files_place_is_named(self, state: Path, name: str) -> None:
        load(state)
        place = state / name
        if place.is_dir():
            shutil.rmtree(place)
            place.write_bytes(b"")
        else:
            place.unlink()
            place.mkdir()

        with pytest.raises(CertificateAuthorityError) as caught:
            load(state)
        assert str(place) in str(caught.value)

    def test_an_authority_removed_by_hand_after_it_expired_makes_way_for_a_new_one(self, state: Path) -> None:
        expires = load(state, NOW).expires
        key_file(state).unlink()
        authority = load(state, expires)

        assert authority.created
        assert authority.expires == expires + timedelta(days=824)


STARTER = """
import sys
from pathlib import Path
from certs.authority import load_or_create_authority

state = Path(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
authority = load_or_create_authority(state / "keys", state / "ca.pem")
print(authority.created, authority.fingerprint_sha256, len(authority.notes))
"""


def test_four_processes_that_start_at_once_agree_on_one_authority(state: Path) -> None:
    starters = [
        subprocess.Popen(
            [sys.executable, "-c", STARTER, str(state)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(4)
    ]
    for starter in starters:
        assert starter.stdout is not None
        assert starter.stdout.readline() == "ready\n"
    for starter in starters:
        assert starter.stdin is not None
        starter.stdin.write("go\n")
        starter.stdin.flush()
    answers = []
    for starter in starters:
        output, _ = starter.communicate(timeout=60)
        assert starter.returncode == 0
        answers.append(output.split())

    assert sorted(created for created, _, _ in answers) == ["False", "False", "False", "True"]
    assert {(fingerprint, notes) for _, fingerprint, notes in answers} == {
        (load(state).fingerprint_sha256, "0")
    }
    assert read_modes(state) == MODES


def run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture
def openssl() -> str:
    path = shutil.which("openssl")
    if path is None:
        if os.environ.get("FETCHD_REQUIRE_TOOLS") == "1":
            pytest.fail("openssl is missing")
        pytest.skip("openssl is missing")
    return path


class TestWithMitmproxy:
    """What matters in the end: mitmproxy signs with it, and strict clients believe what it signs."""

    def issue_leaf(self, state: Path, folder: Path, host: str) -> Path:
        """A leaf for `host` with its key, as mitmproxy makes it for a client's handshake."""
        store = CertStore.from_store(state / "keys", "mitmproxy", 2048)
        entry = store.get_cert(host, [x509.DNSName(host)])
        path = folder / "leaf.pem"
        key = entry.privatekey.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        path.write_bytes(key + entry.cert.to_pem())
        return path

    def test_mitmproxy_takes_the_authority_and_writes_nothing(self, state: Path) -> None:
        authority = load(state)
        files = read_tree(state)
        store = CertStore.from_store(state / "keys", "mitmproxy", 2048)

        assert store.default_ca.fingerprint().hex(":").upper() == authority.fingerprint_sha256
        assert read_tree(state) == files
        assert read_modes(state) == MODES

    @pytest.mark.parametrize(
        "host",
        ["shop.example", f"{'l' * 63}.{'m' * 63}.example"],
        ids=["a short name", "a name too long for a common name"],
    )
    def test_openssl_verifies_a_leaf_strictly(
        self, state: Path, tmp_path: Path, openssl: str, host: str
    ) -> None:
        load(state)
        leaf = self.issue_leaf(state, tmp_path, host)
        checks = ("-x509_strict", "-check_ss_sig", "-purpose", "sslserver", "-verify_hostname", host)
        result = run(openssl, "verify", *checks, "-CAfile", state / "ca.pem", leaf)

        assert (result.returncode, result.stdout.strip()) == (0, f"{leaf}: OK"), result.stderr

    def test_openssl_refuses_a_leaf_of_another_installation(
        self, state: Path, tmp_path: Path, openssl: str
    ) -> None:
        load(state)
        load(tmp_path / "other")
        leaf = self.issue_leaf(tmp_path / "other", tmp_path, "shop.example")

        assert run(openssl, "verify", "-x509_strict", "-CAfile", state / "ca.pem", leaf).returncode != 0

    @pytest.mark.parametrize("trusted", [True, False], ids=["its ca.pem", "another installation's ca.pem"])
    def test_a_strict_python_client_shakes_hands_only_when_it_trusts(
        self, state: Path, tmp_path: Path, trusted: bool
    ) -> None:
        load(state)
        load(tmp_path / "other")
        server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        server.load_cert_chain(self.issue_leaf(state, tmp_path, "shop.example"))
        anchor = (state if trusted else tmp_path / "other") / "ca.pem"
        client = ssl.create_default_context(cafile=str(anchor))
        client.verify_flags |= ssl.VERIFY_X509_STRICT

        if trusted:
            assert shake_hands(server, client, "shop.example") is not None
        else:
            with pytest.raises(ssl.SSLCertVerificationError):
                shake_hands(server, client, "shop.example")


def shake_hands(server: ssl.SSLContext, client: ssl.SSLContext, host: str) -> str | None:
    """A whole handshake over memory, no socket and no thread; the protocol version the client settled on."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    near = client.wrap_bio(to_client, to_server, server_hostname=host)
    far = server.wrap_bio(to_server, to_client, server_side=True)
    waiting = [near, far]
    for _ in range(10):
        for side in tuple(waiting):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
            waiting.remove(side)
        if not waiting:
            return near.version()
    raise AssertionError("the handshake did not end")
