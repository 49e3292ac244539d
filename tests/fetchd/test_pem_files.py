"""The certificate that listeners show: every mistake with its two files is one line, before anything listens."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import trustme
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from fetchd.pem_files import check_listener_files
from proxy_addons.policy.config import ConfigError, parse_config

CERTIFICATE, KEY = "tls.listener_certificate: {}", "tls.listener_key: {}"


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    """A certificate and its key, 0600."""
    leaf = trustme.CA().issue_cert("fetchd.test")
    certificate, key = tmp_path / "gateway.pem", tmp_path / "gateway.key"
    leaf.cert_chain_pems[0].write_to_path(certificate)
    leaf.private_key_pem.write_to_path(key)
    key.chmod(0o600)
    return certificate, key


def check(certificate: Path, key: Path) -> str:
    """The error, empty without one."""
    config = parse_config(
        {"tls": {"listener_certificate": str(certificate), "listener_key": str(key)}}, source="c.toml"
    )
    try:
        check_listener_files(config, "c.toml")
    except ConfigError as error:
        return str(error)
    return ""


def test_a_pair_that_belongs_together(pair: tuple[Path, Path]) -> None:
    assert check(*pair) == ""


def test_both_in_one_file(pair: tuple[Path, Path], tmp_path: Path) -> None:
    whole = tmp_path / "whole.pem"
    whole.write_bytes(pair[1].read_bytes() + pair[0].read_bytes())
    whole.chmod(0o600)
    assert check(whole, whole) == ""


@pytest.mark.parametrize(("mode", "refused"), [(0o600, False), (0o640, False), (0o644, True), (0o601, True)])
def test_a_key_is_not_everybodys(pair: tuple[Path, Path], mode: int, refused: bool) -> None:
    pair[1].chmod(mode)
    said = f"c.toml: tls.listener_key: {pair[1]} is open to every user (mode {mode:04o}); chmod o= {pair[1]}"
    assert check(*pair) == (said if refused else "")


def test_the_key_of_another(pair: tuple[Path, Path]) -> None:
    trustme.CA().issue_cert("other.test").private_key_pem.write_to_path(pair[1])
    assert check(*pair) == f"c.toml: tls.listener_key: {pair[1]} is not the key of {pair[0]}"


def test_a_key_with_a_passphrase(pair: tuple[Path, Path]) -> None:
    key = load_pem_private_key(pair[1].read_bytes(), None)
    pair[1].write_bytes(
        key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret"))
    )
    assert check(*pair) == f"c.toml: tls.listener_key: {pair[1]} is encrypted; store it without a passphrase"


@pytest.mark.parametrize(
    ("which", "what", "said"),
    [
        pytest.param(0, "missing", f"{CERTIFICATE} cannot be read: No such file or directory", id="no certificate"),
        pytest.param(1, "missing", f"{KEY} cannot be read: No such file or directory", id="no key"),
        pytest.param(0, "empty", f"{CERTIFICATE} holds no PEM certificate that can be read", id="an empty one"),
        pytest.param(1, "empty", f"{KEY} holds no PEM private key that can be read", id="an empty key"),
        pytest.param(0, "pipe", f"{CERTIFICATE} is not a regular file", id="a pipe, which never ends"),
        pytest.param(1, "directory", f"{KEY} is not a regular file", id="a directory"),
    ],
)  # fmt: skip
def test_a_file_that_is_none(pair: tuple[Path, Path], which: int, what: str, said: str) -> None:
    path = pair[which]
    path.unlink()
    match what:
        case "empty":
            path.write_bytes(b"")
            path.chmod(0o600)
        case "pipe":
            os.mkfifo(path)
        case "directory":
            path.mkdir()
    assert check(*pair) == f"c.toml: {said.format(path)}"


def test_a_certificate_cut_short(pair: tuple[Path, Path]) -> None:
    pair[0].write_bytes(pair[0].read_bytes()[:200] + b"\n-----END CERTIFICATE-----\n")
    assert check(*pair) == (
        f"c.toml: tls.listener_certificate: {pair[0]} with {pair[1]} cannot be read as PEM"
    )
