"""Replacing the installation's own authority, in two steps, so that no client ever meets a stranger.

    prepare   the next authority is made aside, and `ca.pem` holds both certificates; what signs does not change
    (the operator gives the new `ca.pem` to every client)
    switch    the next one takes the place of the current one, by one rename; its key is destroyed

A crash leaves one side of the rename or the other, each whole, and a start mends what derives from it: `ca.pem` and
the copy in `keys/`. Before the rename the old authority signs, after it the new one; `ca.pem` holds both until after
it. The caller sees to it that no gateway runs while it switches.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from certs.authority import KeyFiles, publish, read_next, state_error, utc_now
from certs.chain import PublicAuthority
from certs.errors import CertificateAuthorityError
from certs.files import hold_lock, prepare_private_directory, read_private_file, sync_directory, write_file
from certs.issuing import issue_authority, parse_authority

PREPARE = "fetchd ca rotate --prepare"


@dataclass(frozen=True, slots=True)
class Prepared:
    """Both authorities; created: the next one was made by this call."""

    current: PublicAuthority
    next: PublicAuthority
    created: bool


def prepare_rotation(keys_dir: Path, public_path: Path, *, now: Callable[[], datetime] = utc_now) -> Prepared:
    """Make the next authority, or find the one made before, and have `public_path` hold both.

    A gateway may run: what it signs with is not touched. Raises CertificateAuthorityError.
    """
    files = KeyFiles(keys_dir, public_path)
    with _locked(files):
        current = _read_current(files, now())
        coming, notes = read_next(files, now())
        if coming is None and notes:
            raise CertificateAuthorityError(notes[-1])
        created = coming is None
        if coming is None:
            pem = issue_authority(now())
            coming = parse_authority(pem, files.next, now())
            write_file(files.next, pem, 0o600)
        publish(public_path, current.root_pem + coming.root_pem)
        return Prepared(current, coming, created)


def cancel_rotation(keys_dir: Path, public_path: Path, *, now: Callable[[], datetime] = utc_now) -> bool:
    """Destroy the next authority and take it out of `public_path`; False when none was prepared."""
    files = KeyFiles(keys_dir, public_path)
    with _locked(files):
        if not files.next.exists():
            return False
        with _wiped_afterwards(files.next):
            files.next.unlink()
            sync_directory(files.keys_dir)
        publish(public_path, _read_current(files, now()).root_pem)
        return True


def switch_authority(
    keys_dir: Path, public_path: Path, *, unprepared: bool = False, now: Callable[[], datetime] = utc_now
) -> PublicAuthority:
    """Put the prepared authority in the place of the current one, whose key is destroyed; returns the new one.

    unprepared: make one if none was prepared, though no client can know it. No gateway may run. Raises
    CertificateAuthorityError, also when `public_path` did not hold the next certificate: then no client has it.
    """
    files = KeyFiles(keys_dir, public_path)
    with _locked(files):
        _check_ours(files)
        coming, notes = read_next(files, now())
        if coming is None and notes:
            raise CertificateAuthorityError(notes[-1])
        if coming is None:
            if not unprepared:
                raise CertificateAuthorityError(
                    f"no rotation is prepared; first {PREPARE}, then give {public_path} to every client"
                )
            pem = issue_authority(now())
            coming = parse_authority(pem, files.next, now())
            write_file(files.next, pem, 0o600)
        elif not unprepared and not _holds(public_path, coming.root_pem):
            raise CertificateAuthorityError(
                f"{public_path} does not hold the prepared certificate; {PREPARE} writes it, then give it to every"
                " client"
            )
        with _wiped_afterwards(files.current):
            files.next.replace(files.current)  # the one step
            sync_directory(files.keys_dir)
        publish(files.certificate, coming.certificates_pem)
        publish(public_path, coming.root_pem)
        return coming


@contextmanager
def _locked(files: KeyFiles) -> Iterator[None]:
    """Both directories ready, no other process at the files; system errors in the operator's words."""
    try:
        if not files.current.exists():
            raise CertificateAuthorityError(f"{files.current}: there is no authority yet; fetchd up makes it")
        prepare_private_directory(files.keys_dir)
        with hold_lock(files.lock):
            yield
    except OSError as error:
        raise state_error(files, error) from error


def _read_current(files: KeyFiles, now: datetime) -> PublicAuthority:
    _check_ours(files)
    return parse_authority(read_private_file(files.current)[0], files.current, now)


def _check_ours(files: KeyFiles) -> None:
    """One that somebody else issued is not ours to replace. An expired or broken one is."""
    pem = read_private_file(files.current)[0]
    if pem.count(b"-----BEGIN CERTIFICATE") > 1:
        raise CertificateAuthorityError(
            f"{files.current} holds an authority that another one issued; put its successor there yourself"
        )


def _holds(path: Path, pem: bytes) -> bool:
    try:
        return pem in path.read_bytes()
    except FileNotFoundError:
        return False


@contextmanager
def _wiped_afterwards(path: Path) -> Iterator[None]:
    """Overwrite what `path` held once it has lost its name: never before, or a crash would leave no authority.

    As good as the file system allows: one that copies on write, a flash disk or a backup may keep the old bytes.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        yield
        size = os.fstat(descriptor).st_size
        os.pwrite(descriptor, b"\0" * size, 0)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
