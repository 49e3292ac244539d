"""Whole pages are measured as said: the real daemon, the real library, a few small pages, no times asserted."""

import gzip
import json
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from benchmarks.pages import measure, systems
from benchmarks.pages.measure import NO_PAGES, NO_PEER, PageRow, measure_pages, summarize_pages
from benchmarks.pages.site import choose_pages, render_replies
from benchmarks.pages.systems import InProcess
from benchmarks.report import Results, write_json
from benchmarks.rounds import LoadFailedError, Sample
from benchmarks.stage import ADDRESS, Stage
from tests.kit.corpora import corpora


@pytest.fixture
def page_corpora():
    for name in ("wcxb", "article-extraction"):
        corpora(name)


@pytest.mark.usefixtures("page_corpora")
def test_each_system_fetches_the_same_pages(monkeypatch):
    """The peer is absent, as on a machine where nobody installed it: a note says so."""
    monkeypatch.setattr(systems, "PEERS", Path("nowhere"))
    monkeypatch.setattr(measure, "WARM_PAGES", 2)
    with Stage() as place:
        rows, notes = measure_pages(place, 1, 4, print)

    assert [(row.system, row.turns, row.pages) for row in rows] == [
        ("fetchd", 1, 12),
        ("trafilatura, one process", 1, 4),
    ]
    assert all(row.rate > 0 and row.cpu_ms > 0 for row in rows)
    assert notes == [NO_PEER]


def test_pages_that_do_not_come_are_a_failure_and_no_figure():
    with Stage() as place, InProcess(place) as system, pytest.raises(LoadFailedError, match="nothing came"):
        system.turn([f"https://{ADDRESS}:{place.origin_port + 1}/wcxb/0001"])


def test_missing_corpora_are_a_note(monkeypatch, tmp_path):
    monkeypatch.setenv("FETCHD_CORPORA", str(tmp_path))
    with Stage() as place:
        assert measure_pages(place, 1, 4, print) == ([], [NO_PAGES])


@pytest.mark.usefixtures("page_corpora")
def test_pages_are_of_both_corpora_and_spread_over_them():
    pages = choose_pages(10)

    assert [path.split("/")[1] for path in pages] == ["wcxb"] * 5 + ["articles"] * 5
    assert all(pages.values()) and choose_pages(10) == pages


def test_a_page_is_gzipped_for_who_takes_it():
    plain, packed = render_replies({"/a": "<p>text"})[b"/a"]

    assert plain.endswith(b"Content-Length: 7\r\n\r\n<p>text")
    assert b"Content-Encoding: gzip\r\n" in packed
    assert gzip.decompress(packed.partition(b"\r\n\r\n")[2]) == b"<p>text"


def test_the_figures_and_what_is_expected_of_them(tmp_path):
    row = partial(summarize_pages, samples=[Sample(10, 1.0, 0.5), Sample(10, 2.0, 0.4), Sample(10, 0.5, 0.9)])
    rows = [
        row("fetchd"),
        PageRow("mcp-server-fetch, without Node", 1, 10, 1.0, 1.0, 1.0, 900.0),
        PageRow("trafilatura, one process", 1, 10, 5.0, 5.0, 5.0, 30.0),
    ]
    write_json(Results([], [], page_rows=rows), tmp_path / "latest.json")
    told = json.loads((tmp_path / "latest.json").read_text())

    assert (rows[0].rate, rows[0].rate_least, rows[0].rate_most) == (10.0, 5.0, 20.0)
    assert (rows[0].cpu_ms, rows[0].pages) == (50.0, 30)
    assert [(one["measured"], one["holds"]) for one in told["expectations"]] == [(10.0, False), (2.0, True)]
    assert [one["system"] for one in told["pages"]] == [one.system for one in rows]


def test_the_library_ends_with_its_input():
    with Stage() as place:
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.pages.in_process", str(place.origin_ca)],
            input="[]\n", capture_output=True, text=True, check=True, timeout=60,
        )  # fmt: skip
    assert json.loads(done.stdout)["done"] == 0
