"""Names in a log directory, and reading a file from its end."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy_addons.audit.chain import MAX_LINE
from proxy_addons.audit.files import list_files, read_lines, read_lines_backward

NAMES = {
    "gateway-0-000001.jsonl": ("gateway-0", 1),
    "gateway-0-1000000.jsonl": ("gateway-0", 1_000_000),
    "daemon-000002.jsonl": ("daemon", 2),
    "a-000001-000003.jsonl": ("a-000001", 3),
    "gateway-0-000001.jsonl.torn-1": None,
    "gateway-0.lock": None,
    ".gateway-0.head.tmp": None,
    "gateway-0-01.jsonl": None,
    "Gateway-000001.jsonl": None,
    "notes.txt": None,
}


@pytest.mark.parametrize("name", NAMES)
def test_a_file_is_told_by_its_name(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()

    found = [(file.series, file.number) for files in list_files(tmp_path).values() for file in files]

    assert found == ([] if NAMES[name] is None else [NAMES[name]])


def test_files_are_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    for number in ("000010", "000002", "1000000"):
        (tmp_path / f"daemon-{number}.jsonl").touch()
    (tmp_path / "gone.head").touch()

    listed = list_files(tmp_path)

    assert [file.number for file in listed["daemon"]] == [2, 10, 1_000_000]
    assert listed["gone"] == []


PIECE = st.binary(max_size=90).map(lambda b: b.replace(b"\n", b" "))


@given(
    lines=st.lists(PIECE | st.just(b"y" * 70_000), max_size=8),
    tail=PIECE,
)
def test_backwards_gives_the_whole_lines_in_reverse(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes], tail: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "lines"
    content = b"".join(line + b"\n" for line in lines) + tail
    path.write_bytes(content)

    assert list(read_lines_backward(path, len(content))) == lines[::-1]
    assert b"".join(line for _, line in read_lines(path)) == content


def test_backwards_begins_where_it_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"one\ntwo\nthree\n")

    assert list(read_lines_backward(tmp_path / "file", 8)) == [b"two", b"one"]


def test_a_run_without_newline_ends_the_walk_back(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"first\n" + b"x" * (3 * MAX_LINE) + b"\nlast\n")

    assert list(read_lines_backward(tmp_path / "file", 1 << 30)) == [b"last"]
