"""`fetchd index status | clear | rebuild`: the pages that the search provider `local` finds.

fetchd index status             pages and bytes by agent; the index files and how far they are
fetchd index clear --agent bot  forget what bot has read; nothing else of the pages kept goes
fetchd index rebuild            make the index files anew from the store
"""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click

from fetchd.search.local.composition import LocalIndex, open_local_index
from fetchd.search.local.indexes import Scope
from proxy_addons.policy.config_search import SearchConfig

from .config_cli import render_columns
from .config_option import BadInputError
from .safe_text import escape_text
from .store_option import find_state, run, state_option

agent_choice = click.option("--agent", metavar="NAME", help="Only of this agent.")


@dataclass(frozen=True, slots=True)
class IndexRow:
    """One index file. behind: the store has changes that it has not taken in yet."""

    index: str
    pages: int
    behind: bool
    file_bytes: int


@click.group("index")
def group() -> None:
    """What web_search finds of the pages that were read here."""


@group.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@state_option
def status(as_json: bool, state_dir: Path | None) -> None:
    """Say how many pages are kept for searching, by agent, and how far each index is."""
    found = run(_status(find_state(state_dir)))
    if as_json or not _on_terminal():
        click.echo(json.dumps(found, separators=(",", ":")))
        return
    agents = [
        (escape_text(row["agent"]), f"{row['pages']:,}", f"{row['bytes']:,}") for row in found["agents"]
    ]
    indexes = [
        (
            escape_text(row["index"]),
            f"{row['pages']:,}",
            "behind" if row["behind"] else "up to date",
            f"{row['file_bytes']:,}",
        )
        for row in found["indexes"]
    ]
    if not agents:
        click.echo("no pages yet; they come with web_fetch and page_read")
    else:
        click.echo(render_columns([("agent", "pages", "bytes"), *agents]))
    if indexes:
        click.echo()
        click.echo(render_columns([("index", "pages", "", "file bytes"), *indexes]))


def _on_terminal() -> bool:
    return sys.stdout.isatty()


async def _status(state_dir: Path) -> dict[str, Any]:
    async with _existing(state_dir) as index:
        agents = [asdict(usage) for usage in await index.texts.usage()]
        rows = []
        for scope in await asyncio.to_thread(index.indexes.scopes):
            state = await index.indexes.state(scope)
            changes = await index.texts.changes(scope.agent, state.marks, state.epoch or None)
            behind = changes.stale or bool(changes.added or changes.removed)
            size = index.indexes.path_of(scope).stat().st_size
            rows.append(asdict(IndexRow(scope.name, state.pages, behind, size)))
        return {"agents": agents, "indexes": rows}


@group.command()
@agent_choice
@state_option
def clear(agent: str | None, state_dir: Path | None) -> None:
    """Forget the pages that were read, of all agents or of one. Blobs and receipts stay."""
    click.echo(f"{run(_clear(find_state(state_dir), agent)):,} pages are not found any more")


async def _clear(state_dir: Path, agent: str | None) -> int:
    async with _existing(state_dir) as index:
        dropped = await index.texts.clear(agent)
        for scope in await asyncio.to_thread(index.indexes.scopes):
            if scope.agent is None or agent in (None, scope.agent):
                await index.indexes.catch_up(scope)
        return dropped


@group.command()
@agent_choice
@state_option
def rebuild(agent: str | None, state_dir: Path | None) -> None:
    """Make the index files anew from what the store has."""
    for name, pages in run(_rebuild(find_state(state_dir), agent)):
        click.echo(f"{escape_text(name)}\t{pages}")


async def _rebuild(state_dir: Path, agent: str | None) -> list[tuple[str, int]]:
    async with _existing(state_dir) as index:
        scopes = await asyncio.to_thread(index.indexes.scopes)
        chosen = [scope for scope in scopes if agent is None or scope.agent == agent]
        if agent is not None and not chosen:
            known = {usage.agent for usage in await index.texts.usage()}
            if agent not in known:
                raise BadInputError(
                    f"nothing is kept of an agent {escape_text(agent)}; see: fetchd index status"
                )
            chosen = [Scope(agent)]
        return [(scope.name, (await index.indexes.rebuild(scope)).pages) for scope in chosen]


@asynccontextmanager
async def _existing(state_dir: Path) -> AsyncIterator[LocalIndex]:
    """Looking at a state directory makes none. Raises BadInputError, StoreError."""
    if not await asyncio.to_thread((state_dir / "fetchd.db").exists):
        raise BadInputError(f"no pages kept in {state_dir}; give the state directory with --state-dir")
    async with open_local_index(state_dir, SearchConfig) as index:
        yield index
