"""docs/threat-model.md and docs/bypasses.md say the same: every case is of one kind, held by a test of its row."""

from __future__ import annotations

import re

import pytest

from tests.checks.test_bypasses import BYPASSES, CASES, FILE_NAME, TEST_NAME, names_of_tests, rows_of
from tests.kit.corpora import REPOSITORY

TEXT = (REPOSITORY / "docs" / "threat-model.md").read_text("utf-8")
KINDS = re.findall(
    r"^\| ([^|]+) \| ([\d, ]+) \| ([^|]+) \|$",
    TEXT.partition("## Ways round, by kind")[2].partition("\n## ")[0],
    re.MULTILINE,
)
"""(kind, its cases, case by case a test that holds it)."""
TESTS_OF_CASES = {int(number): set(TEST_NAME.findall(cells[-1])) for number, cells in rows_of(BYPASSES)}


def test_every_bypass_is_of_exactly_one_kind() -> None:
    cases = [int(number) for _, numbers, _ in KINDS for number in numbers.split(", ")]

    assert sorted(cases) == list(CASES)


@pytest.mark.parametrize(("kind", "numbers", "held"), KINDS, ids=[kind.split(":")[0] for kind, _, _ in KINDS])
def test_each_case_of_a_kind_names_a_test_of_its_own_row(kind: str, numbers: str, held: str) -> None:
    named = re.findall(r"(\d+): `(test_\w+)`", held)

    assert [number for number, _ in named] == numbers.split(", ")
    assert [(number, test) for number, test in named if test not in TESTS_OF_CASES[int(number)]] == []
    assert re.fullmatch(r"[A-Z][^:]{10,}: .{20,}", kind)


def test_each_test_and_each_file_named_is_there() -> None:
    assert sorted(set(TEST_NAME.findall(TEXT)) - names_of_tests()) == []
    assert [name for name in FILE_NAME.findall(TEXT) if not (REPOSITORY / name).is_file()] == []


def test_every_threat_names_a_test_or_says_that_there_is_none() -> None:
    """In the tables that have the columns threat, wall, held by; the walls are those of the list."""
    walls = re.findall(r"^(\d)\. ", TEXT.partition("## Walls")[2].partition("\n## ")[0], re.MULTILINE)
    rows = re.findall(r"^\| ([^|]+) \| (\d|none) \| ([^|]+) \|$", TEXT, re.MULTILINE)
    bare = [
        threat
        for threat, wall, held in rows
        if wall != "none" and not (TEST_NAME.search(held) or FILE_NAME.search(held))
    ]

    assert len(rows) > 20
    assert bare == []
    assert {wall for _, wall, _ in rows} - {"none"} <= set(walls)


def test_every_link_of_the_guides_leads_to_a_file() -> None:
    for name in ("operators-guide.md", "threat-model.md", "agents-guide.md"):
        text = (REPOSITORY / "docs" / name).read_text("utf-8")
        links = re.findall(r"\]\(([^)#]+)\)", text)
        assert [link for link in links if not (REPOSITORY / "docs" / link).resolve().exists()] == []
