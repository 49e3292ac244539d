"""The run over all pages and systems, its table and its JSON."""

from __future__ import annotations

import gc
import logging
import time
from dataclasses import dataclass
from statistics import mean
from typing import Any

from .corpora import Page
from .scores import STRUCTURES, StructureTally, plain_words, share_found, shingle_counts, shingle_f1, word_f1
from .systems import System


@dataclass(frozen=True, slots=True)
class Extraction:
    """What one system made of one page; cpu in ms of this process."""

    page: Page
    markdown: str
    cpu: float


def extract_all(system: System, pages: list[Page]) -> list[Extraction]:
    """Runs a system over pages; one that raises gives nothing for that page."""
    done = []
    for page in pages:
        gc.collect()
        begin = time.process_time()
        try:
            markdown = system(page.html, page.url)
        except Exception as error:  # noqa: BLE001 - a system may fail in any way, and that is its score
            logging.getLogger(__name__).warning("%s: %r", page.name, error)
            markdown = ""
        done.append(Extraction(page, markdown, (time.process_time() - begin) * 1000))
    return done


def score_wcxb(extractions: list[Extraction]) -> dict[str, Any]:
    """Word F1 overall and by page type; the shares of wanted and unwanted snippets that came out."""
    scores: dict[str, list[float]] = {}
    kept: list[bool] = []
    leaked: list[bool] = []
    for done in extractions:
        text = plain_words(done.markdown)
        score = word_f1(text, done.page.truth)
        scores.setdefault("all", []).append(score)
        scores.setdefault(done.page.kind, []).append(score)
        kept += share_found(done.page.wanted, text)
        leaked += share_found(done.page.unwanted, text)
    return {
        "word_f1": {kind: round(mean(values), 4) for kind, values in scores.items()},
        "with_kept": round(mean(kept), 4),
        "without_leaked": round(mean(leaked), 4),
        "cpu_ms": mean_cpu(extractions),
    }


def score_articles(extractions: list[Extraction]) -> dict[str, Any]:
    """Shingle F1."""
    counts = [shingle_counts(plain_words(done.markdown), done.page.truth) for done in extractions]
    return {"shingle_f1": round(shingle_f1(counts), 4), "cpu_ms": mean_cpu(extractions)}


def score_structure(extractions: list[Extraction]) -> dict[str, Any]:
    """Recall and precision of each of STRUCTURES."""
    tally = StructureTally()
    for done in extractions:
        tally.add(done.markdown, done.page.truth)
    result: dict[str, Any] = {
        name: {"recall": round(tally.recall(name), 4), "precision": round(tally.precision(name), 4)}
        for name in STRUCTURES
    }
    result["cpu_ms"] = mean_cpu(extractions)
    return result


def mean_cpu(extractions: list[Extraction]) -> float:
    """Mean CPU ms a page."""
    return round(mean(done.cpu for done in extractions), 2)


def render_table(results: dict[str, dict[str, Any]]) -> str:
    """Plain text, a column a system."""
    systems = list(results.values())

    def row(label: str, *path: str, digits: int = 3) -> tuple[str, list[str]]:
        cells = []
        for system in systems:
            value: Any = system
            for key in path:
                value = value[key]
            cells.append(f"{value:.{digits}f}")
        return label, cells

    def structure(name: str) -> tuple[str, list[str]]:
        found = [system["defuddle_md"][name] for system in systems]
        return f"  {name}", [f"{one['recall']:.3f}/{one['precision']:.3f}" for one in found]

    rows: list[tuple[str, list[str]]] = [
        ("WCXB word F1", []),
        *(row(f"  {kind}", "wcxb", "word_f1", kind) for kind in systems[0]["wcxb"]["word_f1"]),
        row("  wanted snippets kept", "wcxb", "with_kept"),
        row("  unwanted leaked", "wcxb", "without_leaked"),
        row("article-extraction shingle F1", "article_extraction", "shingle_f1"),
        ("defuddle-md recall/precision", []),
        *map(structure, STRUCTURES),
        ("CPU ms a page", []),
        *(row(f"  {corpus}", corpus, "cpu_ms", digits=1) for corpus in _CORPORA),
    ]
    lines = [f"{'':<30}" + "".join(f"{name:>18}" for name in results)]
    lines += [(f"{label:<30}" + "".join(f"{cell:>18}" for cell in cells)).rstrip() for label, cells in rows]
    return "\n".join(lines)


_CORPORA = ("wcxb", "article_extraction", "defuddle_md", "all_pages")
