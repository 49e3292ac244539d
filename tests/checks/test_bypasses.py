"""The pages that name tests keep their word: every number has a row, every test named is there."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from tests.kit.corpora import REPOSITORY

BYPASSES = REPOSITORY / "docs" / "bypasses.md"
HOLES = REPOSITORY / "docs" / "mitmproxy-holes.md"
WEB_TOOLS = REPOSITORY / "docs" / "web-tools.md"
CASES = range(1, 53)
PROVED_HOLES = [f"N{number}" for number in range(1, 17)]
TEST_NAME = re.compile(r"`(test_\w+)(?:\[[^`]*\])?`")
FILE_NAME = re.compile(r"\b(tests/[\w/]+\.py)\b")
REASON_LENGTH = 20
"""Letters of the shortest sentence that can say why a case does not apply."""


def rows_of(path: Path) -> list[tuple[str, list[str]]]:
    """(number, all further cells) of each table row that begins with a number."""
    found = re.findall(r"^\| (N?\d+) \|(.*)\|$", path.read_text("utf-8"), re.MULTILINE)
    return [(number, [cell.strip() for cell in rest.split("|")]) for number, rest in found]


@cache
def names_of_tests() -> frozenset[str]:
    """The name of every test function in the repository."""
    pattern = re.compile(r"^\s*(?:async )?def (test_\w+)", re.MULTILINE)
    files = (REPOSITORY / "tests").rglob("test_*.py")
    return frozenset(name for file in files for name in pattern.findall(file.read_text("utf-8")))


def has_tests_or_reason(cell: str) -> bool:
    return bool(TEST_NAME.search(cell) or FILE_NAME.search(cell)) or len(cell) >= REASON_LENGTH


@pytest.mark.parametrize("case", CASES)
def test_each_case_has_one_row_with_tests_or_a_reason(case: int) -> None:
    (cells,) = (cells for number, cells in rows_of(BYPASSES) if number == str(case))
    tried, held, tests = cells
    assert tried and held
    assert has_tests_or_reason(tests)


def test_no_row_has_another_number() -> None:
    assert [
        number for number, _ in rows_of(BYPASSES) if not number.isdigit() or int(number) not in CASES
    ] == []


@pytest.mark.parametrize("path", [BYPASSES, HOLES, WEB_TOOLS], ids=lambda path: path.name)
def test_each_test_named_is_there(path: Path) -> None:
    text = path.read_text("utf-8")
    assert sorted(set(TEST_NAME.findall(text)) - names_of_tests()) == []
    assert [name for name in FILE_NAME.findall(text) if not (REPOSITORY / name).is_file()] == []


def test_a_test_named_for_a_case_stands_in_its_row() -> None:
    """`test_case_07_…` in row 7 and no other."""
    wrong = [
        (number, name)
        for number, cells in rows_of(BYPASSES)
        for name in TEST_NAME.findall(cells[-1])
        if name.startswith("test_case_") and int(name.split("_")[2]) != int(number)
    ]
    assert wrong == []


@pytest.mark.parametrize("hole", PROVED_HOLES)
def test_each_proved_hole_has_one_row(hole: str) -> None:
    assert [number for number, _ in rows_of(HOLES)].count(hole) == 1


def test_each_hole_that_the_code_names_has_a_row() -> None:
    sources = (REPOSITORY / "proxy_addons").rglob("*.py")
    named = {number for file in sources for number in re.findall(r"\bN\d{1,2}\b", file.read_text("utf-8"))}
    assert len(named) >= len(PROVED_HOLES) - 1
    assert sorted(named - {number for number, _ in rows_of(HOLES)}) == []


@pytest.mark.parametrize(
    ("cell", "enough"),
    [
        pytest.param("`test_case_01_x`, all ways", True, id="a test"),
        pytest.param("`test_case_01_x[connect-h1]`", True, id="a test with its parameter"),
        pytest.param("tests/gateway/test_x.py", True, id="a file of tests"),
        pytest.param("there is no upstream proxy to chain to", True, id="a reason"),
        pytest.param("", False, id="nothing"),
        pytest.param("n/a", False, id="no reason"),
        pytest.param("—", False, id="a dash"),
    ],
)
def test_what_counts_as_tests_or_a_reason(cell: str, enough: bool) -> None:
    assert has_tests_or_reason(cell) is enough
