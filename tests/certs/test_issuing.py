"""The form of a new authority, and the ladder any authority has to climb (RFC 5280)."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from hypothesis import given, settings
from hypothesis import strategies as st

from certs.errors import CertificateAuthorityError
from certs.issuing import issue_authority, parse_authority

NOW = datetime(2026, 3, 1, 12, 0, 0, 500_000, tzinfo=UTC)
BEGIN = datetime(2026, 2, 28, 12, 0, 0, tzinfo=UTC)
PATH = Path("keys/mitmproxy-ca.pem")
GOOD = issue_authority(NOW)

Key = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | ed25519.Ed25519PrivateKey


def make_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def render_key(key: Key, passphrase: bytes | None = None) -> bytes:
    encryption: serialization.KeySerializationEncryption = serialization.NoEncryption()
    if passphrase is not None:
        encryption = serialization.BestAvailableEncryption(passphrase)
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)


def render_certificate(
    key: Key,
    *,
    ca: bool | None = True,
    may_sign: bool | None = True,
    signer: Key | None = None,
    subject: str = "CN=own CA",
    issuer: str = "CN=own CA",
) -> bytes:
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name.from_rfc4514_string(subject))
        .issuer_name(x509.Name.from_rfc4514_string(issuer))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(NOW - timedelta(days=1))
        .not_valid_after(NOW + timedelta(days=1))
    )
    if ca is not None:
        builder = builder.add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
    if may_sign is not None:
        builder = builder.add_extension(
            x509.KeyUsage(True, False, False, False, False, may_sign, False, False, False), critical=True
        )
    signing_key = signer or key
    algorithm = None if isinstance(signing_key, ed25519.Ed25519PrivateKey) else hashes.SHA256()
    return builder.sign(signing_key, algorithm).public_bytes(serialization.Encoding.PEM)


def make_own(key: Key) -> bytes:
    return render_key(key) + render_certificate(key)


def certificate_of(pem: bytes) -> bytes:
    return pem[pem.index(b"-----BEGIN CERTIFICATE") :]


def key_of(pem: bytes) -> bytes:
    return pem[: pem.index(b"-----BEGIN CERTIFICATE")]


class TestIssue:
    def test_the_form_is_the_one_strict_clients_ask_for(self) -> None:
        certificate = x509.load_pem_x509_certificate(GOOD)
        key = certificate.public_key()
        key_id = x509.SubjectKeyIdentifier.from_public_key(key)
        extensions = certificate.extensions

        assert isinstance(key, ec.EllipticCurvePublicKey)
        assert isinstance(key.curve, ec.SECP256R1)
        assert {(type(each.value).__name__, each.critical) for each in extensions} == {
            ("BasicConstraints", True),
            ("KeyUsage", True),
            ("SubjectKeyIdentifier", False),
            ("AuthorityKeyIdentifier", False),
        }
        assert extensions.get_extension_for_class(x509.BasicConstraints).value == (
            x509.BasicConstraints(ca=True, path_length=0)
        )
        assert extensions.get_extension_for_class(x509.KeyUsage).value == (
            x509.KeyUsage(False, False, False, False, False, True, True, False, False)
        )
        assert extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value == key_id
        assert extensions.get_extension_for_class(x509.AuthorityKeyIdentifier).value == (
            x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(key_id)
        )

    def test_it_is_valid_for_825_days_from_a_day_back(self) -> None:
        certificate = x509.load_pem_x509_certificate(GOOD)

        assert certificate.not_valid_before_utc == BEGIN
        assert certificate.not_valid_after_utc == BEGIN + timedelta(days=825)

    def test_the_name_carries_the_keys_id_and_nothing_of_the_machine(self) -> None:
        certificate = x509.load_pem_x509_certificate(GOOD)
        key_id = x509.SubjectKeyIdentifier.from_public_key(certificate.public_key()).digest.hex()

        assert certificate.subject.rfc4514_string() == f"CN=fetchd egress CA ({key_id[:8]}),O=fetchd"
        assert certificate.issuer == certificate.subject

    def test_no_two_are_alike(self) -> None:
        first, second = (x509.load_pem_x509_certificate(issue_authority(NOW)) for _ in range(2))

        assert first.serial_number != second.serial_number
        assert first.serial_number.bit_length() > 64
        assert first.public_key() != second.public_key()
        assert first.subject != second.subject

    def test_the_key_is_pkcs8(self) -> None:
        assert GOOD.startswith(b"-----BEGIN PRIVATE KEY-----\n")


class TestParse:
    def test_of_the_private_file_only_the_public_part_comes_out(self) -> None:
        public = parse_authority(GOOD, PATH, NOW)

        assert public.certificates_pem == certificate_of(GOOD)
        assert public.expires == BEGIN + timedelta(days=825)
        assert len(public.fingerprint_sha256.split(":")) == 32

    @pytest.mark.parametrize(
        "pem",
        [
            pytest.param(make_own(make_key()), id="an EC authority of one's own"),
            pytest.param(make_own(rsa.generate_private_key(65537, 2048)), id="an RSA authority of one's own"),
            pytest.param(certificate_of(GOOD) + key_of(GOOD), id="the certificate before the key"),
        ],
    )
    def test_what_mitmproxy_can_sign_with_is_taken(self, pem: bytes) -> None:
        assert (
            parse_authority(pem, PATH, NOW).certificates_pem
            == certificate_of(pem).split(b"-----BEGIN PRIV")[0]
        )

    def test_an_intermediate_brings_its_issuers_along(self) -> None:
        root, key = make_key(), make_key()
        chain = render_certificate(key, signer=root, issuer="CN=root")
        chain += render_certificate(root, subject="CN=root", issuer="CN=root")
        public = parse_authority(render_key(key) + chain, PATH, NOW)

        assert public.certificates_pem == chain

    @pytest.mark.parametrize(
        ("pem", "message"),
        [
            pytest.param(b"", "no private key", id="1 an empty file"),
            pytest.param(b"hello", "no private key", id="1 some text"),
            pytest.param(GOOD[: len(GOOD) // 10], "no private key", id="1 half a key"),
            pytest.param(certificate_of(GOOD), "no private key", id="1 a certificate alone"),
            pytest.param(
                render_key(make_key(), b"secret") + certificate_of(GOOD),
                "encrypted; store the key without a passphrase",
                id="1 a key with a passphrase",
            ),
            pytest.param(
                make_own(ed25519.Ed25519PrivateKey.generate()), "neither EC nor RSA", id="2 an Ed25519 key"
            ),
            pytest.param(key_of(GOOD), "no certificate", id="3 a key alone"),
            pytest.param(GOOD[:-60], "no certificate", id="3 a certificate cut short"),
            pytest.param(
                render_key(make_key()) + certificate_of(GOOD),
                "does not belong to its key",
                id="4 another key",
            ),
            pytest.param(
                (lambda key: render_key(key) + render_certificate(key, ca=False, may_sign=False))(make_key()),
                "may not sign others",
                id="5 a leaf",
            ),
            pytest.param(
                (lambda key: render_key(key) + render_certificate(key, ca=None))(make_key()),
                "may not sign others",
                id="5 no word of being an authority",
            ),
            pytest.param(
                (lambda key: render_key(key) + render_certificate(key, may_sign=False))(make_key()),
                "may not sign others",
                id="5 an authority without keyCertSign",
            ),
            pytest.param(
                (lambda key: render_key(key) + render_certificate(key, may_sign=None))(make_key()),
                "may not sign others",
                id="5 an authority without KeyUsage, which strict clients refuse",
            ),
            pytest.param(
                (lambda key: render_key(key) + render_certificate(key, signer=make_key()))(make_key()),
                "do not lead from its key's to one that signed itself",
                id="6 a signature by another key",
            ),
            pytest.param(
                (lambda key, root: render_key(key) + render_certificate(key, signer=root, issuer="CN=root"))(
                    make_key(), make_key()
                ),
                "do not lead from its key's to one that signed itself",
                id="6 an intermediate without its root",
            ),
            pytest.param(
                GOOD + render_certificate(make_key()),
                "do not lead from its key's to one that signed itself",
                id="6 a certificate behind it that did not issue it",
            ),
        ],
    )
    def test_ladder(self, pem: bytes, message: str) -> None:
        with pytest.raises(CertificateAuthorityError, match=message) as caught:
            parse_authority(pem, PATH, NOW)
        assert str(caught.value).startswith(f"{PATH}: ")

    @pytest.mark.parametrize(
        ("now", "message"),
        [
            pytest.param(
                BEGIN - timedelta(microseconds=1), "not valid before 2026-02-28 12:00", id="7 too early"
            ),
            pytest.param(BEGIN, None, id="7 its first instant is good"),
            pytest.param(
                BEGIN + timedelta(days=825, microseconds=-1), None, id="7 just before its end is good"
            ),
            pytest.param(BEGIN + timedelta(days=825), "expired on 2028-06-02 12:00", id="7 its end"),
        ],
    )
    def test_validity(self, now: datetime, message: str | None) -> None:
        if message is None:
            assert parse_authority(GOOD, PATH, now).certificates_pem == certificate_of(GOOD)
        else:
            with pytest.raises(CertificateAuthorityError, match=message):
                parse_authority(GOOD, PATH, now)

    def test_no_error_shows_the_key(self) -> None:
        pem = render_key(make_key()) + certificate_of(GOOD)

        with pytest.raises(CertificateAuthorityError) as caught:
            parse_authority(pem, PATH, NOW)
        assert pem.splitlines()[1].decode() not in str(caught.value)

    @given(position=st.integers(0, len(GOOD) - 1), byte=st.integers(0, 255))
    @settings(max_examples=200, deadline=None)
    def test_one_changed_byte_is_the_same_authority_or_the_named_error(
        self, position: int, byte: int
    ) -> None:
        pem = GOOD[:position] + bytes([byte]) + GOOD[position + 1 :]
        try:
            public = parse_authority(pem, PATH, NOW)
        except CertificateAuthorityError:
            return

        assert public == parse_authority(GOOD, PATH, NOW)

    @given(pem=st.binary(max_size=200))
    def test_any_bytes_are_the_named_error(self, pem: bytes) -> None:
        with pytest.raises(CertificateAuthorityError):
            parse_authority(pem, PATH, NOW)
