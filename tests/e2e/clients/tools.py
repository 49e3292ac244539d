"""Programs that take more than being on PATH."""

from __future__ import annotations

from pathlib import Path

from tests.kit.corpora import REPOSITORY
from tests.kit.tools import give_up, require_tool

NODE = REPOSITORY / "tests" / "e2e" / "node"


def require_node() -> tuple[Path, Path]:
    """node and the program that fetches with it, whose one package `make setup` installs."""
    node = require_tool("node")
    if not (NODE / "node_modules" / "undici").is_dir():
        give_up("undici is not installed: make setup, with npm on PATH")
    return node, NODE / "get.mjs"
