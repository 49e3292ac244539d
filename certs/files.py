"""Files that hold a secret: owner only, whole or not there, one writer at a time.

Every mode is set explicitly, so the umask changes nothing. Permissions that turn out too loose are tightened
and reported as a note, a sentence for the operator: what was open may have been read. Whatever cannot be
mended raises `CertificateAuthorityError`.
"""

import fcntl
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from certs.errors import CertificateAuthorityError

MAX_FILE_BYTES = 64 * 1024
"""A key and a few certificates are below 10 KiB; anything larger is some other file."""

LOCK_TIMEOUT = 10.0
"""Seconds to wait for another process that is starting; it needs a few milliseconds."""

_LOCK_POLL = 0.01


def prepare_private_directory(path: Path) -> list[str]:
    """Make `path` a directory that only this user can enter; return the notes."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = path.stat()
    _check_owner(path, status)
    # mkdir is subject to the umask, which may have taken the owner's own bits.
    if stat.S_IMODE(status.st_mode) == 0o700:
        return []
    path.chmod(0o700)
    return _note_loose(path, status, 0o700)


@contextmanager
def hold_lock(path: Path, timeout: float = LOCK_TIMEOUT) -> Iterator[None]:
    """Keep other processes out while the block runs. The lock ends with the process, however that ends."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        deadline = time.monotonic() + timeout
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    raise CertificateAuthorityError(
                        f"{path} is locked by another process since {timeout:g} s;"
                        " is another gateway starting with this state directory? stop it, or wait for it"
                    ) from None
                time.sleep(_LOCK_POLL)
        yield
    finally:
        os.close(descriptor)


def read_private_file(path: Path) -> tuple[bytes, list[str]]:
    """Content and notes of a file that only this user may read. FileNotFoundError when there is none."""
    try:
        # Not blocking, so that a FIFO in its place does not hang the start.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        if path.is_symlink():
            raise CertificateAuthorityError(
                f"{path} is a symbolic link; put the file itself there, readable by its owner only"
            ) from None
        raise
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise CertificateAuthorityError(f"{path} is not a regular file; remove it")
        _check_owner(path, status)
        notes: list[str] = []
        if stat.S_IMODE(status.st_mode) & 0o077:
            os.fchmod(descriptor, 0o600)
            notes = _note_loose(path, status, 0o600)
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            content = file.read(MAX_FILE_BYTES + 1)
    finally:
        os.close(descriptor)
    if len(content) > MAX_FILE_BYTES:
        raise CertificateAuthorityError(
            f"{path} is larger than {MAX_FILE_BYTES} bytes, no key file of ours; remove it"
        )
    return content, notes


def write_file(path: Path, content: bytes, mode: int) -> None:
    """Put `content` at `path` in one step: a reader, or a crash, meets the old file or the new one, whole.

    The caller holds the lock, so the temporary name is ours and one left by a crash can go.
    """
    temporary = path.with_name(f".{path.name}.new")
    temporary.unlink(missing_ok=True)
    descriptor = os.open(
        temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600
    )
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fchmod(descriptor, mode)
            os.fsync(descriptor)
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    """Have the names in `path` on disk."""
    directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def _check_owner(path: Path, status: os.stat_result) -> None:
    user = os.geteuid()
    if status.st_uid != user:
        raise CertificateAuthorityError(
            f"{path} belongs to user {status.st_uid}, but this process runs as user {user};"
            f" run as user {status.st_uid}, or give the file to user {user}"
        )


def _note_loose(path: Path, status: os.stat_result, mode: int) -> list[str]:
    found = stat.S_IMODE(status.st_mode)
    if not found & 0o077:
        return []
    return [
        f"{path} was open to other users (mode {found:04o}, now {mode:04o}); if the key was read, replace it"
    ]
