"""`fetchd blob get | verify | gc | list`: the bodies of pages read, by digest (SPEC 5).

What comes out are bytes of a stranger's page: they go to a file or a pipe as they are, and to a terminal only when
told to.
"""

import asyncio
import json
import os
import secrets
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import BinaryIO

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from fetchd.errors import BlobDamagedError, BlobMissingError
from fetchd.store import PageStore, parse_digest
from fetchd.store.interface import BlobReader
from fetchd.store.pages import render_time
from fetchd.store.values import KeptBlob

from .config_option import BadInputError, config_option, load_or_fail
from .store_option import NEGATIVE, existing_store, find_state, run, state_option

_BATCH = 1000


def _digest(_context: click.Context, _parameter: click.Parameter, value: str) -> str:
    try:
        return parse_digest(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def _digests(context: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(_digest(context, parameter, value) for value in values)


@click.group("blob")
def group() -> None:
    """Get, verify and drop the pages that were kept."""


@group.command()
@click.argument("digest", callback=_digest)
@click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
              help="Write to FILE instead of standard output; it appears whole or not at all.")  # fmt: skip
@click.option("--force", is_flag=True, help="Write to a terminal all the same.")
@state_option
def get(digest: str, output: Path | None, force: bool, state_dir: Path | None) -> None:
    """Print the page kept under DIGEST, verified."""
    if output is None and not force and sys.stdout.isatty():
        raise BadInputError(
            "a page may hold anything a terminal obeys; write it with -o FILE, or use --force"
        )
    run(_get(find_state(state_dir), digest, output))


async def _get(state_dir: Path, digest: str, output: Path | None) -> None:
    async with existing_store(state_dir) as store, store.open_blob(digest) as reader:
        if output is None:
            await _copy(reader, sys.stdout.buffer)
            return
        aside = output.with_name(f".{output.name}.{secrets.token_hex(8)}")
        descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                await _copy(reader, file)
            aside.replace(output)
        finally:
            aside.unlink(missing_ok=True)


async def _copy(reader: BlobReader, file: BinaryIO) -> None:
    async for piece in reader:
        await asyncio.to_thread(file.write, piece)
    await asyncio.to_thread(file.flush)


@group.command()
@click.argument("digests", nargs=-1, metavar="[DIGEST]...", callback=_digests)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@state_option
def verify(digests: tuple[str, ...], as_json: bool, state_dir: Path | None) -> None:
    """Read every page kept (or those named) and compare it with its digest. Exit 1 when one is broken."""
    count, broken = run(_verify(find_state(state_dir), digests))
    if as_json:
        click.echo(json.dumps({"verified": count, "broken": broken}))
    else:
        for detail in broken.values():
            click.echo(detail)
        click.echo(f"{count:,} verified, {len(broken):,} broken")
    sys.exit(NEGATIVE if broken else 0)


async def _verify(state_dir: Path, digests: tuple[str, ...]) -> tuple[int, dict[str, str]]:
    """(how many were looked at, digest → what is wrong with it)."""
    broken: dict[str, str] = {}
    count = 0
    async with existing_store(state_dir) as store:
        total = len(digests) or (await store.usage()).blobs
        with _progress() as progress:
            task = progress.add_task("verifying", total=total)
            async for digest in _choose(store, digests):
                count += 1
                try:
                    async with store.blobs.open_verified(digest):
                        pass
                except (BlobDamagedError, BlobMissingError) as error:
                    broken[digest] = (
                        str(error) if isinstance(error, BlobDamagedError) else f"{digest} is missing"
                    )
                progress.advance(task)
    return count, broken


async def _choose(store: PageStore, digests: tuple[str, ...]) -> AsyncIterator[str]:
    if digests:
        for digest in digests:
            yield digest
        return
    listed: set[str] = set()
    async for blob in _list_index(store):
        listed.add(blob.digest)
        if blob.placed or await asyncio.to_thread(store.blobs.holds, blob.digest):  # else on its way in
            yield blob.digest
    # What a crash left outside the index can be had by its digest, so it counts.
    for found in await asyncio.to_thread(lambda: list(store.blobs.list())):
        if found.digest not in listed:
            yield found.digest


def _progress() -> Progress:
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)


@group.command()
@click.option("--max-bytes", type=click.IntRange(0), metavar="N", help="Drop until at most N bytes are left.")
@click.option("--drop-receipted", is_flag=True, help="Also drop pages that receipts need; those stay valid.")
@click.option("--dry-run", is_flag=True, help="Say what would be dropped.")
@state_option
@config_option
def gc(
    max_bytes: int | None,
    drop_receipted: bool,
    dry_run: bool,
    state_dir: Path | None,
    config_path: Path | None,
) -> None:
    """Drop pages, least recently used first; those that receipts need stay. Also tidies after crashes.

    Without --max-bytes the limit is store.max_bytes of the configuration.
    """
    limit = load_or_fail(config_path).config.store_max_bytes if max_bytes is None else max_bytes
    run(_gc(find_state(state_dir), limit, drop_receipted, dry_run))


async def _gc(state_dir: Path, max_bytes: int, drop_receipted: bool, dry_run: bool) -> None:
    async with existing_store(state_dir, tidy=not dry_run) as store:
        dropped = await store.collect(max_bytes, drop_receipted=drop_receipted, dry_run=dry_run)
        for blob in dropped:
            click.echo(f"{blob.digest}\t{blob.bytes}")
        usage = await store.usage()
    size = sum(blob.bytes for blob in dropped)
    verb, left = "dropped", (usage.blobs, usage.bytes)
    if dry_run:
        verb, left = "would be dropped", (usage.blobs - len(dropped), usage.bytes - size)
    text = f"{len(dropped):,} {verb} ({size:,} bytes); {left[0]:,} left ({left[1]:,} bytes)"
    if not drop_receipted and usage.receipted:
        text += f", {usage.receipted:,} of them needed by receipts (--drop-receipted drops those too)"
    click.echo(text, err=True)


@group.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line.")
@state_option
def list_command(as_json: bool, state_dir: Path | None) -> None:
    """List the pages kept: digest, bytes, last use, whether a receipt needs it."""
    run(_list(find_state(state_dir), as_json))


async def _list(state_dir: Path, as_json: bool) -> None:
    async with existing_store(state_dir) as store:
        async for blob in _list_index(store):
            used = render_time(blob.last_used)
            if as_json:
                row = {
                    "digest": blob.digest,
                    "bytes": blob.bytes,
                    "last_used": used,
                    "receipted": blob.receipted,
                }
                click.echo(json.dumps(row))
            else:
                click.echo(f"{blob.digest}\t{blob.bytes}\t{used}\t{'receipted' if blob.receipted else '-'}")


async def _list_index(store: PageStore) -> AsyncIterator[KeptBlob]:
    after = ""
    while batch := await store.records.list_blobs(after=after, limit=_BATCH):
        for blob in batch:
            yield blob
        after = batch[-1].digest
