"""Renderings that misbehave, importable by worker processes; what they do depends on the page's first word."""

from __future__ import annotations

import os
import signal

from fetchd.core.header import Extraction
from fetchd.extract.rendering import Rendering


def render_page(html: str, url: str, *, raw: bool = False) -> Rendering:
    """hang: never returns · explode: takes all the memory it can get · die: kills its process · else: its pid."""
    word = html.split()[0]
    if word == "hang":
        while True:
            signal.pause()
    if word == "explode":
        hoard = [bytes(1 << 20) for _ in range(4096)]
        return Rendering(f"got {len(hoard)} MiB", Extraction.READABILITY)
    if word == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    return Rendering(f"{os.getpid()} {raw}", Extraction.READABILITY)
