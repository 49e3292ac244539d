"""Finds lines of the audit log by chain and number. Blocks."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from proxy_addons.audit.files import SeriesFile, list_files, read_lines_still_there

_SEQ: Final = re.compile(rb'\{"kind":"[a-z]{1,16}","chain":"[a-z0-9-]{1,64}","seq":([0-9]{1,18}),')


def load_lines(directory: Path, wanted: Iterable[tuple[str, int]]) -> dict[tuple[str, int], bytes]:
    """(chain, number) → line as it stands, newline included, not verified; what is not there is left out.

    Files that cannot hold a wanted number are passed over by their first lines. Raises OSError.
    """
    numbers: dict[str, set[int]] = {}
    for chain, seq in wanted:
        numbers.setdefault(chain, set()).add(seq)
    found: dict[tuple[str, int], bytes] = {}
    for chain, files in list_files(directory).items():
        if chain in numbers:
            _search(chain, files, numbers[chain], found)
    return found


def find_beginnings(directory: Path, chains: Iterable[str]) -> dict[str, int]:
    """Chain → number of its first line that is there, where its first files are not. Raises OSError.

    Whether retention removed them, or somebody else, `audit verify` tells.
    """
    listed = list_files(directory)
    begun = {chain: files[0] for chain in set(chains) if (files := listed.get(chain)) and files[0].number > 1}
    return {chain: first for chain, file in begun.items() if (first := _first_seq(file.path)) is not None}


def _search(
    chain: str, files: list[SeriesFile], wanted: set[int], found: dict[tuple[str, int], bytes]
) -> None:
    firsts = [_first_seq(file.path) for file in files]
    for place, file in enumerate(files):
        # A first line that cannot be read says nothing: the file is looked through.
        begin = firsts[place] or 0
        end = next((first for first in firsts[place + 1 :] if first is not None), None)
        if not any(begin <= seq and (end is None or seq < end) for seq in wanted):
            continue
        for _, raw in read_lines_still_there(file.path):
            match = _SEQ.match(raw)
            if match is not None and (seq := int(match[1])) in wanted:
                found.setdefault((chain, seq), raw)


def _first_seq(path: Path) -> int | None:
    for _, raw in read_lines_still_there(path):
        match = _SEQ.match(raw)
        return int(match[1]) if match else None
    return None
