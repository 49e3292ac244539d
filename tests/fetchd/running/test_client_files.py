"""Files for clients that take no PEM file: what they say, and that they follow the CA file."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
import trustme
from cryptography.hazmat.primitives.serialization import Encoding, pkcs12

from fetchd.running.client_files import write_client_files


def make_authority(folder: Path) -> tuple[Path, trustme.CA]:
    authority = trustme.CA()
    path = folder / "ca.pem"
    path.write_bytes(authority.cert_pem.bytes())
    return path, authority


def test_wget_is_told_the_ca_file(tmp_path: Path) -> None:
    path, _ = make_authority(tmp_path)

    write_client_files(path)

    assert (tmp_path / "wgetrc").read_text() == f"ca_certificate = {path}\n"


def test_the_trust_store_holds_the_authority_and_follows_it(tmp_path: Path) -> None:
    for _ in range(2):
        path, authority = make_authority(tmp_path)
        write_client_files(path)

        store = pkcs12.load_pkcs12((tmp_path / "ca.p12").read_bytes(), None)
        assert (store.key, store.cert) == (None, None)
        assert [pem.certificate.public_bytes(Encoding.PEM) for pem in store.additional_certs] == [
            authority.cert_pem.bytes()
        ]


def test_everybody_may_read_them_and_nothing_is_left_over(tmp_path: Path) -> None:
    path, _ = make_authority(tmp_path)

    write_client_files(path)

    files = {file.name: stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir() if file != path}
    assert files == {"ca.p12": 0o644, "wgetrc": 0o644}


def test_a_file_without_certificate_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("nothing\n")

    with pytest.raises(ValueError, match="PEM"):
        write_client_files(tmp_path / "ca.pem")
