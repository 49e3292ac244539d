"""Whole lines out of the log, by their places. Blocks. What is gone from the log meanwhile is left out."""

from collections.abc import Iterable
from pathlib import Path

from proxy_addons.audit.files import read_lines, series_path
from proxy_addons.audit.reader import LogLine, parse_log_line

from .interface import Place


def load_places(directory: Path, places: Iterable[Place]) -> list[LogLine]:
    """The lines that stand there, in the order asked for. Raises OSError."""
    found = []
    for place in places:
        path = series_path(directory, place.chain, place.file)
        try:
            raw = next((raw for _, raw in read_lines(path, place.offset)), b"")
        except FileNotFoundError:
            continue
        if raw:
            found.append(parse_log_line(place.chain, raw))
    return found
