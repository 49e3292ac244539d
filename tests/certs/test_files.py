"""Secret files: owner only, whole or not there, one writer at a time."""

import fcntl
import os
from pathlib import Path

import pytest

from certs.errors import CertificateAuthorityError
from certs.files import MAX_FILE_BYTES, hold_lock, prepare_private_directory, read_private_file, write_file


class TestLock:
    def test_a_second_process_waits_no_longer_than_it_is_told(self, tmp_path: Path) -> None:
        path = tmp_path / "ca.lock"
        # A second open file is to flock what a second process is.
        with (
            hold_lock(path),
            pytest.raises(
                CertificateAuthorityError, match=r"ca\.lock is locked by another process since 0\.05 s"
            ),
            hold_lock(path, timeout=0.05),
        ):
            pytest.fail("both hold the lock")

    def test_a_lock_let_go_is_free(self, tmp_path: Path) -> None:
        path = tmp_path / "ca.lock"
        with pytest.raises(KeyError), hold_lock(path):
            raise KeyError
        with hold_lock(path, timeout=0):
            assert path.stat().st_mode & 0o777 == 0o600

    def test_the_lock_is_the_kernels_own_and_ends_with_its_holder(self, tmp_path: Path) -> None:
        path = tmp_path / "ca.lock"
        with hold_lock(path), path.open("rb") as other, pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def test_a_link_in_the_locks_place_is_not_followed(self, tmp_path: Path) -> None:
        (tmp_path / "ca.lock").symlink_to(tmp_path / "elsewhere")

        with pytest.raises(OSError, match="symbolic"), hold_lock(tmp_path / "ca.lock"):
            pytest.fail("the link was followed")
        assert not (tmp_path / "elsewhere").exists()


class TestRead:
    def test_a_missing_file_is_the_callers_to_make(self, tmp_path: Path) -> None:
        with pytest.raises(FileNotFoundError):
            read_private_file(tmp_path / "key.pem")

    @pytest.mark.parametrize("dangling", [True, False])
    def test_a_link_is_refused(self, tmp_path: Path, dangling: bool) -> None:
        if not dangling:
            (tmp_path / "elsewhere.pem").write_bytes(b"key")
        (tmp_path / "key.pem").symlink_to(tmp_path / "elsewhere.pem")

        with pytest.raises(
            CertificateAuthorityError, match=r"key\.pem is a symbolic link; put the file itself"
        ):
            read_private_file(tmp_path / "key.pem")

    def test_a_fifo_is_refused_and_does_not_hang(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "key.pem", 0o600)

        with pytest.raises(CertificateAuthorityError, match=r"key\.pem is not a regular file"):
            read_private_file(tmp_path / "key.pem")

    @pytest.mark.parametrize(("size", "taken"), [(MAX_FILE_BYTES, True), (MAX_FILE_BYTES + 1, False)])
    def test_a_file_of_another_kind_is_not_read_whole(self, tmp_path: Path, size: int, taken: bool) -> None:
        path = tmp_path / "key.pem"
        path.write_bytes(b"x" * size)
        path.chmod(0o600)
        if taken:
            assert read_private_file(path) == (b"x" * size, [])
        else:
            with pytest.raises(CertificateAuthorityError, match="larger than 65536 bytes"):
                read_private_file(path)

    def test_another_users_file_is_refused(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        path = tmp_path / "key.pem"
        write_file(path, b"key", 0o600)
        owner = path.stat().st_uid
        monkeypatch.setattr(os, "geteuid", lambda: owner + 1)

        with pytest.raises(
            CertificateAuthorityError, match=f"belongs to user {owner}, but this process runs as"
        ):
            read_private_file(path)
        with pytest.raises(
            CertificateAuthorityError, match=f"belongs to user {owner}, but this process runs as"
        ):
            prepare_private_directory(tmp_path)


class TestWrite:
    @pytest.mark.parametrize("umask", [0o000, 0o077, 0o777])
    def test_the_mode_is_the_one_asked_for(self, tmp_path: Path, umask: int) -> None:
        before = os.umask(umask)
        try:
            write_file(tmp_path / "ca.pem", b"certificate", 0o644)
        finally:
            os.umask(before)

        assert (tmp_path / "ca.pem").stat().st_mode & 0o777 == 0o644

    def test_a_reader_of_the_old_file_keeps_the_old_file(self, tmp_path: Path) -> None:
        path = tmp_path / "ca.pem"
        write_file(path, b"old and longer", 0o644)
        with path.open("rb") as reader:
            write_file(path, b"new", 0o644)

            assert reader.read() == b"old and longer"
        assert path.read_bytes() == b"new"

    def test_a_link_is_replaced_and_what_it_points_to_stays(self, tmp_path: Path) -> None:
        (tmp_path / "elsewhere").write_bytes(b"precious")
        (tmp_path / "ca.pem").symlink_to(tmp_path / "elsewhere")
        write_file(tmp_path / "ca.pem", b"new", 0o644)

        assert (tmp_path / "elsewhere").read_bytes() == b"precious"
        assert not (tmp_path / "ca.pem").is_symlink()

    def test_a_write_that_fails_leaves_the_old_file_and_nothing_beside_it(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write_file(tmp_path / "key.pem", b"old", 0o600)

        def fail(descriptor: int) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "fsync", fail)
        with pytest.raises(OSError, match="No space"):
            write_file(tmp_path / "key.pem", b"new", 0o600)

        assert [path.name for path in tmp_path.iterdir()] == ["key.pem"]
        assert (tmp_path / "key.pem").read_bytes() == b"old"


class TestDirectory:
    @pytest.mark.parametrize("umask", [0o000, 0o277])
    def test_it_is_made_for_the_owner_whatever_the_umask(self, tmp_path: Path, umask: int) -> None:
        before = os.umask(umask)
        try:
            notes = prepare_private_directory(tmp_path / "keys")
        finally:
            os.umask(before)

        assert notes == []
        assert (tmp_path / "keys").stat().st_mode & 0o7777 == 0o700
