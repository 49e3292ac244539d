"""What a terminal shows while pages are fetched: a bar on standard error that leaves nothing behind."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TimeElapsedColumn,
)
from rich.text import Text

from fetchd.core.progress import FetchProgress, Phase


class FetchDisplay:
    """Shows how many pages of `total` are done (None: nobody knows how many there are), and how many failed.

    Of a single page, shows how far it is instead, at first `phase`. Does nothing unless `console` is a terminal.
    """

    def __init__(self, console: Console, total: int | None, phase: Phase = Phase.WAITING) -> None:
        self.single: Final = FetchProgress(phase) if total == 1 else None
        self._failed = 0
        counted: list[ProgressColumn] = [MofNCompleteColumn(), _Rendered(self._render_failed)]
        columns = [_Rendered(self.single.render)] if self.single is not None else counted
        self._progress: Final = Progress(
            SpinnerColumn(), BarColumn(30), *columns, TimeElapsedColumn(),
            console=console, transient=True, redirect_stdout=False, redirect_stderr=False,
            disable=not console.is_terminal,
        )  # fmt: skip
        self._task: Final = self._progress.add_task("", total=None if self.single is not None else total)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def count(self, *, failed: bool) -> None:
        """One more page is done."""
        self._failed += failed
        self._progress.advance(self._task)

    @contextmanager
    def aside(self) -> Iterator[None]:
        """The bar is out of the way meanwhile: something else is printed on the same terminal."""
        self._progress.stop()
        try:
            yield
        finally:
            self._progress.start()

    def _render_failed(self) -> str:
        return f"{self._failed} failed" if self._failed else ""


class _Rendered(ProgressColumn):
    """A column whose text is asked for whenever it is drawn."""

    def __init__(self, render: Callable[[], str]) -> None:
        super().__init__()
        self._render: Final = render

    def render(self, task: Task) -> Text:
        return Text(self._render())
