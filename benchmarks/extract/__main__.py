"""`make bench-extract`: the table on stdout, the figures in benchmarks/extract/latest.json."""

from __future__ import annotations

import argparse
import json
import logging
import sys
from pathlib import Path
from typing import Any

from .corpora import load_article_extraction, load_defuddle, load_wcxb
from .report import extract_all, mean_cpu, render_table, score_articles, score_structure, score_wcxb
from .systems import SYSTEMS

OUTPUT = Path(__file__).with_name("latest.json")


def main() -> int:
    """Measure and report; 0, or 2 when the corpora are missing."""
    parser = argparse.ArgumentParser(prog="benchmarks.extract", description=__doc__)
    parser.add_argument("--only", choices=sorted(SYSTEMS), action="append", help="measure this system alone")
    parser.add_argument("--json", type=Path, default=OUTPUT, help="where the figures go")
    arguments = parser.parse_args()
    logging.getLogger("trafilatura").setLevel(logging.CRITICAL)
    logging.getLogger("readability").setLevel(logging.CRITICAL)
    try:
        wcxb, articles, defuddle = load_wcxb(), load_article_extraction(), load_defuddle()
    except FileNotFoundError as error:
        print(f"corpus missing: {error.filename}; set FETCHD_CORPORA", file=sys.stderr)
        return 2
    results: dict[str, dict[str, Any]] = {}
    for name in arguments.only or SYSTEMS:
        system = SYSTEMS[name]
        extract_all(system, wcxb[:3])  # imports and caches are not part of a page's cost
        runs = [extract_all(system, pages) for pages in (wcxb, articles, defuddle)]
        results[name] = {
            "wcxb": score_wcxb(runs[0]),
            "article_extraction": score_articles(runs[1]),
            "defuddle_md": score_structure(runs[2]),
            "all_pages": {"cpu_ms": mean_cpu([done for run in runs for done in run])},
        }
    print(render_table(results))
    arguments.json.write_text(json.dumps(results, indent=2) + "\n", "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
