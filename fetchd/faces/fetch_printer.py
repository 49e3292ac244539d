"""Results of `fetchd fetch` on standard output, and the exit status they add up to (SPEC 1.10)."""

import re
import sys
from typing import Final

import click

from fetchd.fetch import FetchResult

from .results import render_problem, render_result
from .safe_text import render_json

SOFT_FAILED: Final = 1
FAILED: Final = 2

_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class ResultPrinter:
    """Prints results one after the other; `status` is the worst so far.

    many: pages are set apart by a blank line, and errors say which URL they belong to, by its number: the URL
    itself may hold credentials.
    """

    def __init__(self, *, as_json: bool, fail_soft: bool, many: bool) -> None:
        self._as_json: Final = as_json
        self._fail_soft: Final = fail_soft
        self._many: Final = many
        self._seen = 0
        self._texts = 0
        self.status: int = 0

    def print(self, result: FetchResult) -> None:
        """Print one."""
        self._seen += 1
        failure = result.failure
        hard = failure is not None and result.is_hard
        if self._as_json:
            document = (
                render_problem(failure, result.fetch_id)
                if failure is not None and hard
                else render_result(result)
            )
            click.echo(render_json(document, terminal=sys.stdout.isatty()))
        elif hard:
            where = f"URL {self._seen}: " if self._many else ""
            click.echo(f"Error: {where}{for_terminal(result.text)}", err=True)
        else:
            self._print_text(result.text)
        if hard:
            self.status = max(self.status, FAILED)
        elif failure is not None and self._fail_soft:
            self.status = max(self.status, SOFT_FAILED)

    def _print_text(self, text: str) -> None:
        # A page may hold what moves a terminal's cursor or retitles it; into a pipe the text goes as it is.
        shown = for_terminal(text) if sys.stdout.isatty() else text
        apart = "\n" if self._texts else ""
        self._texts += 1
        click.echo((apart + shown).encode("utf-8"))


def for_terminal(text: str) -> str:
    """Text that can neither move a terminal's cursor nor retitle it."""
    return _CONTROLS.sub(lambda found: f"\\x{ord(found[0]):02x}", text)
