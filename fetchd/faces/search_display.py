"""Search results as a person reads them: a numbered list.

Nothing of a result reaches the terminal but what can be printed: no control, no change of direction, and each field
is one line. A URL is broken by the terminal alone, so that it is copied whole.
"""

from collections.abc import Iterator
from typing import Final

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from fetchd.search.interface import SearchRow
from fetchd.search.searching import SearchResult
from proxy_addons.policy.config_search import SearchProviderName
from proxy_addons.policy.limits import Profile

from .search_results import vet_url

INDENT = 4

ONLY_READ: Final = (
    "local searches the pages that were read here (fetchd index status), not the web;"
    " for the web, name another search.provider in the configuration: docs/search.md"
)


def print_list(console: Console, result: SearchResult, profile: Profile) -> None:
    """The results and, under them, who gave them and what was left out."""
    for number, row in enumerate(result.rows, 1):
        title = plain_line(row.title) or "(no title)"
        console.print(Text.assemble((f"{number:>2}  ", "dim"), (title, "bold")))
        console.print(Text.assemble(" " * INDENT, (plain_line(row.url), "cyan")), soft_wrap=True)
        for text in _lines(row, profile):
            console.print(Padding(text, (0, 0, 0, INDENT)))
        console.print()
    console.print(Text(_summary(result), style="dim"))
    if note := explain_nothing(result):
        console.print(Text(note, style="dim"))


def explain_nothing(result: SearchResult) -> str | None:
    """What an operator may not know who finds nothing in a new installation."""
    nothing = result.failure is None and not result.rows
    return ONLY_READ if nothing and result.provider == SearchProviderName.LOCAL else None


def _lines(row: SearchRow, profile: Profile) -> Iterator[Text]:
    """What stands under the URL."""
    vetted = vet_url(row.url, profile)
    if not vetted["admitted"]:
        yield Text(f"not admitted by profile {profile.name}: {vetted['rule']}", style="yellow")
    if about := ", ".join(plain_line(part) for part in (row.site_name, row.age) if part):
        yield Text(about, style="dim")
    for text in (row.description, *row.extra_snippets):
        if shown := plain_line(text):
            yield Text(shown)


def _summary(result: SearchResult) -> str:
    count = len(result.rows)
    found = "nothing found" if not count else f"{count} {'result' if count == 1 else 'results'}"
    dropped = f", {result.dropped} outside the domain lists left out" if result.dropped else ""
    return f"{found} by {result.provider or 'nobody'}{dropped}"


def plain_line(text: str) -> str:
    """One line of printable characters; all others as escapes, white space as single spaces."""
    line = " ".join(text.split())
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in line)
