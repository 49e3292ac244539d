"""The three page corpora: what goes in, and what a good extraction gives. None of it is part of the repository."""

from __future__ import annotations

import gzip
import json
import re
from dataclasses import dataclass
from pathlib import Path

from tests.kit.corpora import corpora_root

_URL_NOTE = re.compile(r'<!--\s*\{\s*"url"\s*:\s*"([^"]+)"')
_FRONT_MATTER = re.compile(r"\A```json\n.*?\n```\n", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Page:
    """One page. truth: plain text, but markdown in defuddle-md. wanted, unwanted: snippets of WCXB."""

    name: str
    kind: str
    url: str
    html: str
    truth: str
    wanted: tuple[str, ...] = ()
    unwanted: tuple[str, ...] = ()


def load_wcxb() -> list[Page]:
    """149 pages of seven types; `kind` is the type."""
    folder = corpora_root() / "wcxb"
    index = json.loads((folder / "index.json").read_text("utf-8"))
    pages = []
    for name, entry in sorted(index.items()):
        truth = json.loads((folder / "ground-truth" / f"{name}.json").read_text("utf-8"))["ground_truth"]
        pages.append(
            Page(
                name,
                entry["page_type"],
                entry["url"],
                _read_gzip(folder / "html" / f"{name}.html.gz"),
                truth["main_content"],
                tuple(truth["with"]),
                tuple(truth["without"]),
            )
        )
    return pages


def load_article_extraction() -> list[Page]:
    """120 pages of news and blogs."""
    folder = corpora_root() / "article-extraction"
    truths = json.loads((folder / "ground-truth.json").read_text("utf-8"))
    return [
        Page(
            name,
            "article",
            truth["url"],
            _read_gzip(folder / "html" / f"{name}.html.gz"),
            truth["articleBody"],
        )
        for name, truth in sorted(truths.items())
    ]


def load_defuddle() -> list[Page]:
    """138 fixtures with markdown as their truth."""
    folder = corpora_root() / "defuddle-md"
    pages = []
    for fixture in sorted((folder / "fixtures").glob("*.html")):
        html = fixture.read_text("utf-8")
        note = _URL_NOTE.search(html)
        url = note[1] if note else f"https://{fixture.stem.partition('--')[2] or fixture.stem}"
        expected = (folder / "expected" / f"{fixture.stem}.md").read_text("utf-8")
        pages.append(Page(fixture.stem, "markdown", url, html, _FRONT_MATTER.sub("", expected)))
    return pages


def _read_gzip(path: Path) -> str:
    return gzip.decompress(path.read_bytes()).decode("utf-8", "replace")
