"""What is shown of a call on its way."""

from __future__ import annotations

import pytest

from fetchd.core.progress import FetchProgress, Phase


@pytest.mark.parametrize(
    ("progress", "line"),
    [
        (FetchProgress(), "waiting for the server"),
        (FetchProgress(hop=2), "waiting for the server, redirect 2"),
        (FetchProgress(Phase.READING, 1, 12_345), "reading the page, redirect 1, 12,345 bytes"),
        (FetchProgress(Phase.RENDERING, 0, 1), "rendering the page, 1 bytes"),
    ],
)
def test_one_line(progress: FetchProgress, line: str) -> None:
    assert progress.render() == line
