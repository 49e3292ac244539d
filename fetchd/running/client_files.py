"""Files for clients that take no PEM file from their environment; `core/client_environment.py` names them.

wgetrc  names the CA file to wget, whose GnuTLS build looks for it nowhere else
ca.p12  Java's trust store, with the gateway's CA alone; certificates are public, so it has no password
"""

from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.serialization import NoEncryption, pkcs12

from fetchd.core.client_environment import TRUST_STORE_FILE, WGETRC_FILE


def write_client_files(authority: Path) -> None:
    """Write them anew beside the CA file. Raises OSError; ValueError when that holds no certificate."""
    certificates = x509.load_pem_x509_certificates(authority.read_bytes())
    named = [
        pkcs12.PKCS12Certificate(certificate, f"fetchd-{number}".encode("ascii"))
        for number, certificate in enumerate(certificates)
    ]
    store = pkcs12.serialize_java_truststore(named, NoEncryption())
    _replace(authority.with_name(TRUST_STORE_FILE), store)
    _replace(authority.with_name(WGETRC_FILE), f"ca_certificate = {authority}\n".encode())


def _replace(path: Path, content: bytes) -> None:
    """In one step: a client that starts now reads the old file or the new one, whole."""
    scratch = path.with_name(f".{path.name}.new")
    scratch.write_bytes(content)
    scratch.chmod(0o644)
    scratch.replace(path)
