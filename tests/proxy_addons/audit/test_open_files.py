"""What of a chain's open files is on disk, and what becomes of a disk that does not keep up."""

import errno
import os
import threading
from pathlib import Path

import pytest

from proxy_addons.audit.files import read_head
from proxy_addons.audit.health import HealthCounter
from proxy_addons.audit.open_files import OpenFiles
from proxy_addons.audit.resume import load_resume_point


class Disk:
    """fsync that works, or not."""

    works = True

    def fsync(self, descriptor: int) -> None:
        if not self.works:
            raise OSError(errno.EIO, os.strerror(errno.EIO))


def open_files(directory: Path, disk: Disk) -> OpenFiles:
    point = load_resume_point(directory, "gateway-0", {})
    return OpenFiles(directory, "gateway-0", point, threading.RLock(), disk.fsync, HealthCounter())


def test_a_disk_that_does_not_keep_up_gets_no_further_file_until_it_does(tmp_path: Path) -> None:
    disk = Disk()
    files = open_files(tmp_path, disk)
    disk.works = False
    for number in range(2, 66):
        files.check_pace()
        files.begin(number)
        with pytest.raises(OSError, match="Input/output"):
            files.sync()
    with pytest.raises(OSError, match="does not keep up"):
        files.check_pace()
    assert files.first_number == 1

    disk.works = True
    files.sync()

    files.check_pace()
    assert files.first_number == 65
    files.close()


def test_the_head_file_shows_a_checkpoint_only_once_the_line_is_on_disk(tmp_path: Path) -> None:
    disk = Disk()
    files = open_files(tmp_path, disk)
    files.sync()
    assert not files.wants_sync
    files.current.write(b"a checkpoint\n")
    files.show_head(b"a checkpoint\n")
    disk.works = False
    with pytest.raises(OSError, match="Input/output"):
        files.sync()
    assert read_head(tmp_path, "gateway-0") is None and files.wants_sync

    disk.works = True
    files.sync()

    assert read_head(tmp_path, "gateway-0") == b"a checkpoint\n" and not files.wants_sync
    files.close()
