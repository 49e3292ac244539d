"""Whether the certificates and keys that a configuration names can be used, found out before anything listens."""

import os
import ssl
import stat
from pathlib import Path
from typing import Final

from proxy_addons.policy.config import Config, ConfigError

MAX_BYTES: Final = 4 << 20
"""A file of all public roots takes 300 KiB."""
_CERTIFICATE: Final = b"CERTIFICATE-----"
_KEY: Final = b"PRIVATE KEY-----"


def check_listener_files(config: Config, source: str) -> None:
    """Check the certificate that listeners show, and its key. source: what errors call the configuration.

    Apart from `load_config`, since commands that only read have to work for users who may not read the key. Raises
    ConfigError.
    """
    certificate, key = config.tls.listener_certificate, config.tls.listener_key
    if certificate is not None and key is not None:
        _check_pair(certificate, key, source)


def _check_pair(certificate: str, key: str, source: str) -> None:
    """The certificate that listeners show: it and its key are there, theirs alone, and belong together."""
    _read(certificate, "tls.listener_certificate", source, _CERTIFICATE, "certificate")
    mode = _read(key, "tls.listener_key", source, _KEY, "private key")
    if mode & stat.S_IRWXO:
        raise ConfigError(
            source, "tls.listener_key", f"{key} is open to every user (mode {mode:04o}); chmod o= {key}"
        )

    def refuse_passphrase() -> str:
        raise ConfigError(source, "tls.listener_key", f"{key} is encrypted; store it without a passphrase")

    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, refuse_passphrase)
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise ConfigError(source, "tls.listener_key", f"{key} is not the key of {certificate}") from None
        raise ConfigError(
            source, "tls.listener_certificate", f"{certificate} with {key} cannot be read as PEM"
        ) from None


def _read(path: str, key: str, source: str, mark: bytes, what: str) -> int:
    """The permissions of a file that holds a PEM block of this kind."""
    try:
        status = Path(path).stat()
        if not stat.S_ISREG(status.st_mode):  # anything else may never end
            raise ConfigError(source, key, f"{path} is not a regular file")
        with Path(path).open("rb") as file:
            text = file.read(MAX_BYTES)
            status = os.fstat(file.fileno())
    except OSError as error:
        raise ConfigError(source, key, f"{path} cannot be read: {error.strerror}") from None
    if mark not in text:
        raise ConfigError(source, key, f"{path} holds no PEM {what} that can be read")
    return stat.S_IMODE(status.st_mode)
