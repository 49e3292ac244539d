"""The domain lists: which hosts an entry covers, and which rows stay.

    example.com      the host itself and everything below it, in any letter case, with or without a trailing dot
    bücher.example   the same as xn--bcher-kva.example
    *.example.com    only what is below it
    a:80, a@b        no host at all, so no row is of it

Rows are held to both lists whatever their provider says it did; the exclude list wins.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from proxy_addons.policy.targets import TargetParseError, parse_target

from .interface import SearchRow


@dataclass(frozen=True, slots=True)
class DomainEntry:
    """host: as the URL parser writes it, without trailing dot. below: itself not covered."""

    host: str
    below: bool = False

    def covers(self, host: str) -> bool:
        """Whether a host, in the same form, is of this entry."""
        return (host == self.host and not self.below) or host.endswith(f".{self.host}")


class DomainList:
    """Entries of one list. A host costs by the longest entry: neither by the list's length nor by its own, which a
    provider may make that of its whole answer.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        entries = [entry for text in texts if (entry := parse_entry(text)) is not None]
        self._themselves: Final = frozenset(entry.host for entry in entries if not entry.below)
        self._above: Final = frozenset(entry.host for entry in entries)
        self._longest: Final = max(map(len, self._above), default=0)

    def covers(self, host: str) -> bool:
        """Whether a host, in the form of `find_host`, is of any entry."""
        if host in self._themselves:
            return True
        rest = host[-self._longest - 1 :]
        while rest:
            rest = rest.partition(".")[2]
            if rest in self._above:
                return True
        return False


def parse_entry(text: str) -> DomainEntry | None:
    """The entry; None for what no host can be."""
    below = text.startswith("*.")
    host = find_host(f"https://{text.removeprefix('*.')}/") if not set(text) & set("/\\?#@:") else None
    return DomainEntry(host, below) if host else None


def find_host(url: str) -> str | None:
    """The host of a URL, as everything here compares hosts; None where it does not parse or has none."""
    try:
        return parse_target(url).dns_name or None
    except TargetParseError:
        return None


def keep_rows(
    rows: Iterable[SearchRow], include: Sequence[str], exclude: Sequence[str]
) -> tuple[SearchRow, ...]:
    """The rows whose hosts the lists let through. A row without a host is of no host: an include list drops it."""
    if not include and not exclude:
        return tuple(rows)
    wanted, unwanted = DomainList(include), DomainList(exclude)

    def stays(host: str | None) -> bool:
        if host is None:
            return not include
        if unwanted.covers(host):
            return False
        return not include or wanted.covers(host)

    return tuple(row for row in rows if stays(find_host(row.url)))
