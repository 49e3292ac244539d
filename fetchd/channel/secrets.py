"""A provider's credential, from where its operator keeps it: an environment variable, or a file of their own.

Never from the configuration file, a command line, or a call. Errors name the variable or the file, never what it
holds.
"""

import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from fetchd.errors import ChannelError

from .interface import Secret

MAX_BYTES: Final = 4096
"""Signed tokens take one or two thousand; anything longer is another file."""
MIN_CHARACTERS: Final = 8
"""Every key in use is far longer; a few letters could not be masked without mangling text."""

_KEY: Final = re.compile(r"[!-~]+")


def read_secret_variable(name: str, environ: Mapping[str, str]) -> Secret:
    """The credential in an environment variable; raises ChannelError."""
    if name not in environ:
        raise ChannelError(f"the environment variable {name} is not set")
    return _make_secret(environ[name], f"the environment variable {name}")


def read_secret_file(path: Path) -> Secret:
    """The credential in a file; raises ChannelError. Blocks.

    The rule of PostgreSQL's ssl_key_file: ours and 0600, or root's and 0640, or less.
    """
    try:
        # Not blocking, so that a FIFO in its place does not hang the start.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            _check_file(path, os.fstat(descriptor))
            data = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = error.strerror if isinstance(error, OSError) else "no path"
        raise ChannelError(f"{path} cannot be read: {reason}") from None
    if len(data) > MAX_BYTES:
        raise ChannelError(f"{path} is larger than {MAX_BYTES} bytes; store the key alone in it")
    return _make_secret(data.decode("latin-1"), str(path))


def _check_file(path: Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise ChannelError(f"{path} is not a regular file")
    user, mode = os.geteuid(), stat.S_IMODE(status.st_mode)
    if status.st_uid not in (user, 0):
        raise ChannelError(f"{path} belongs to user {status.st_uid}, who can always read it")
    if mode & (0o077 if status.st_uid == user else 0o037):
        raise ChannelError(f"{path} is open to other users (mode {mode:04o}); chmod 600 {path}")


def _make_secret(text: str, where: str) -> Secret:
    key = text.strip()
    if not key:
        raise ChannelError(f"{where} is empty")
    if not _KEY.fullmatch(key):
        raise ChannelError(f"{where} holds more than a key: a key is one word of visible ASCII characters")
    if len(key) < MIN_CHARACTERS:
        raise ChannelError(f"{where} holds fewer than {MIN_CHARACTERS} characters, which is no key")
    if len(key) > MAX_BYTES:
        raise ChannelError(f"{where} holds more than {MAX_BYTES} characters, which is no key")
    return Secret(key)
