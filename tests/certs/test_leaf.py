"""A certificate for a listener of our own: strict clients take it, for its names and addresses and no others."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa

from certs.errors import CertificateAuthorityError
from certs.issuing import issue_authority
from certs.leaf import VALIDITY, issue_leaf
from tests.kit.authorities import Ca, intermediate

NOW = datetime.now(UTC)
NAMES, ADDRESSES = ["localhost", "fetchd.internal"], ["127.0.0.1", "::1"]


def shake_hands(leaf: bytes, roots: bytes, name: str, folder) -> None:
    """A TLS handshake in memory, the client as strict as OpenSSL can be; raises SSLError."""
    file = folder / "leaf.pem"
    file.write_bytes(leaf)
    server_context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_context.load_cert_chain(file)
    client_context = ssl.create_default_context(cadata=roots.decode())
    client_context.verify_flags |= ssl.VERIFY_X509_STRICT
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = client_context.wrap_bio(to_client, to_server, server_hostname=name)
    server = server_context.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(4):
        for side in (client, server):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                pass


AUTHORITIES = {
    "ours": lambda: (issue_authority(NOW), None),
    "one below a root": lambda: (intermediate(), None),
    "RSA": lambda: (Ca("rsa root", key=rsa.generate_private_key(65537, 2048)), None),
    "an odd key id": lambda: (Ca("odd", odd_key_id=True), None),
}


def pem_of(made) -> tuple[bytes, bytes]:
    """What signs, and what clients trust."""
    one = made[0]
    if isinstance(one, bytes):
        return one, one[one.index(b"-----BEGIN CERT") :]
    root = one.issuer or one
    return one.key_pem() + one.chain, root.pem


@pytest.mark.parametrize("make", AUTHORITIES.values(), ids=AUTHORITIES)
def test_strict_clients_take_it_for_its_names(make, tmp_path) -> None:
    signs, trusted = pem_of(make())
    leaf = issue_leaf(signs, NAMES, ADDRESSES, NOW)

    for name in (*NAMES, *ADDRESSES):
        shake_hands(leaf.pem, trusted, name, tmp_path)
    for name in ("other.internal", "127.0.0.2", "a.fetchd.internal"):
        with pytest.raises(ssl.SSLCertVerificationError):
            shake_hands(leaf.pem, trusted, name, tmp_path)


def test_it_never_outlives_its_authority() -> None:
    signs = issue_authority(NOW)
    assert issue_leaf(signs, NAMES, [], NOW).expires == (NOW + VALIDITY)
    soon = Ca("soon", end=NOW + timedelta(days=3))
    expires = issue_leaf(soon.key_pem() + soon.pem, NAMES, [], NOW).expires
    assert expires == soon.certificate.not_valid_after_utc


def test_the_root_is_not_shown_and_the_issuer_is() -> None:
    below = intermediate()
    shown = x509.load_pem_x509_certificates(issue_leaf(below.key_pem() + below.chain, NAMES, [], NOW).pem)

    assert [one.subject.rfc4514_string() for one in shown] == [
        "CN=localhost,O=fetchd", "CN=corp gateway",
    ]  # fmt: skip
    assert shown[0].extensions.get_extension_for_class(x509.BasicConstraints).value.ca is False


def test_two_have_two_keys_and_no_repr_shows_one() -> None:
    signs = issue_authority(NOW)
    one, other = issue_leaf(signs, NAMES, [], NOW), issue_leaf(signs, NAMES, [], NOW)

    assert one.pem != other.pem
    assert "PRIVATE" not in repr(one)


@pytest.mark.parametrize("text", [b"", b"-----BEGIN PRIVATE KEY-----\nAA==\n-----END PRIVATE KEY-----\n"])
def test_what_is_no_authority(text: bytes) -> None:
    with pytest.raises(CertificateAuthorityError, match="cannot be read"):
        issue_leaf(text, NAMES, [], NOW)
