"""`fetchd receipt list | show | verify | key`: what was read, and whether the proof of it holds (SPEC 5)."""

import hashlib
import json
import re
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import click

from fetchd.store import Blob, PageStore, StoredRead, load_receipt_key
from fetchd.store.keys import PUBLIC_FILE
from fetchd.store.receipts import MAX_RECEIPT, respell
from fetchd.store.verifying import ReceiptReport, ReceiptVerifier, verify_text
from proxy_addons.audit import PublicKey

from .config_option import BadInputError
from .safe_text import escape_text
from .store_option import NEGATIVE, existing_store, find_state, run, state_option

_READ_ID = re.compile(r"[0-9a-f]{20}")
_BATCH = 500


@click.group("receipt")
def group() -> None:
    """List, show and verify the receipts of pages read."""


@group.command("list")
@click.option("--agent", help="Only this agent's.")
@click.option("--lines", "-n", type=click.IntRange(1, 1_000_000), default=20, show_default=True,
              help="How many of the last ones.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print the receipts themselves, one a line.")
@state_option
def list_command(agent: str | None, lines: int, as_json: bool, state_dir: Path | None) -> None:
    """List the last reads, the newest last: id, time, agent, status, bytes, digest, URL."""
    for read in run(_list(find_state(state_dir), agent, lines)):
        if not as_json:
            click.echo("\t".join(map(escape_text, _render_row(read))))
        elif read.receipt is not None:
            click.echo(read.receipt.decode("utf-8"))


async def _list(state_dir: Path, agent: str | None, count: int) -> list[StoredRead]:
    found: list[StoredRead] = []
    async with existing_store(state_dir) as store:
        after = 0
        while len(found) < count:
            limit = min(_BATCH, count - len(found))
            batch = await store.records.list_reads(after=after, limit=limit, newest_first=True, agent=agent)
            found += batch
            if len(batch) < limit:
                break
            after = batch[-1].number
            if after == 1:
                break
    return found[::-1]


def _render_row(read: StoredRead) -> list[str]:
    cells = (
        read.id,
        read.fetched_at,
        read.agent,
        read.status,
        read.blob.bytes,
        read.blob.digest,
        read.final_url,
    )
    note = [] if read.receipt is not None else ["(no receipt: the call failed)"]
    return [*map(str, cells), *note]


@group.command()
@click.argument("read_id", metavar="ID")
@click.option(
    "--json", "as_json", is_flag=True, help="Print the receipt as it was signed: keep this to verify it."
)
@state_option
def show(read_id: str, as_json: bool, state_dir: Path | None) -> None:
    """Show the receipt of read ID."""
    text = run(_load_receipt(find_state(state_dir), read_id))
    if as_json:
        click.echo(text)
    else:
        click.echo(_escape_lines(json.dumps(json.loads(text), indent=2, ensure_ascii=True)))


async def _load_receipt(state_dir: Path, read_id: str) -> bytes:
    async with existing_store(state_dir) as store:
        read = await _find(store, read_id)
        if read.receipt is None:
            raise BadInputError(f"read {read_id} has no receipt: the page was kept, the call failed after")
        return read.receipt


async def _find(store: PageStore, read_id: str) -> StoredRead:
    read = await store.find_read(read_id)
    if read is None:
        raise BadInputError(escape_text(f"no read {read_id[:100]}; see: fetchd receipt list"))
    return read


def _escape_lines(text: str) -> str:
    return "\n".join(escape_text(line) for line in text.split("\n"))


@group.command()
@state_option
def key(state_dir: Path | None) -> None:
    """Print the public key that receipts are verified with."""
    path = find_state(state_dir) / "keys" / PUBLIC_FILE
    click.echo(run(_load_key(path)).render_pem().decode("ascii"), nl=False)


async def _load_key(path: Path) -> PublicKey:
    return load_receipt_key(path)


@group.command()
@click.argument("what", metavar="[ID|FILE]", required=False)
@click.option("--key", "key_path", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
              help="Public key, PEM; else this installation's.")  # fmt: skip
@click.option("--blob", "blob_path", type=click.Path(path_type=Path, dir_okay=False, exists=True), metavar="FILE",
              help="The page's body, to hold the receipt to.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a receipt.")
@state_option
def verify(
    what: str | None, key_path: Path | None, blob_path: Path | None, as_json: bool, state_dir: Path | None
) -> None:
    """Verify a receipt in a FILE (- is standard input) on its own, the receipt of read ID with its blob, chain and
    audit lines, or without either all receipts of this installation. Exit 1 when one does not hold."""
    if what is None and blob_path is not None:
        raise BadInputError("--blob is the body of one receipt; name the receipt")
    if what is not None and not _is_id(what):
        text, blob = _read_receipt(what), _measure(blob_path)
        public = run(_load_key(key_path or find_state(state_dir) / "keys" / PUBLIC_FILE))
        reports = [verify_text(text, {public.id: public.accepts}, blob)]
        _print_report(reports[0], as_json)
        sys.exit(0 if reports[0].ok else NEGATIVE)
    ok = run(_verify_kept(find_state(state_dir), what, key_path, _measure(blob_path), as_json))
    sys.exit(0 if ok else NEGATIVE)


def _is_id(what: str) -> bool:
    return _READ_ID.fullmatch(what) is not None and not Path(what).exists()


async def _verify_kept(
    state_dir: Path, read_id: str | None, key_path: Path | None, blob: Blob | None, as_json: bool
) -> bool:
    public = load_receipt_key(key_path or state_dir / "keys" / PUBLIC_FILE)
    keys: dict[str, Any] = {public.id: public.accepts}
    audit = state_dir / "audit"
    count = bad = 0
    async with existing_store(state_dir) as store:
        verifier = ReceiptVerifier(store.records, store.blobs, keys, audit if audit.is_dir() else None)
        async for report in _reports(store, verifier, read_id):
            count += 1
            bad += not report.ok
            if read_id is not None or as_json or not report.ok:
                _print_report(report, as_json)
        if read_id is not None and blob is not None:
            given = verify_text((await _find(store, read_id)).receipt or b"", keys, blob)
            bad += not given.ok
            for finding in given.findings:
                click.echo(escape_text(f"  given body: {finding}"))
    if read_id is None and not as_json:
        click.echo(f"{count:,} receipts verified, {bad:,} do not hold")
    return not bad


async def _reports(
    store: PageStore, verifier: ReceiptVerifier, read_id: str | None
) -> AsyncIterator[ReceiptReport]:
    if read_id is None:
        async for report in verifier.verify_all():
            yield report
    else:
        yield await verifier.verify_one(await _find(store, read_id))


def _print_report(report: ReceiptReport, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(report.render()))
        return
    click.echo(escape_text(f"{report.id}: {'holds' if report.ok else 'DOES NOT HOLD'}"))
    for check in report.held:
        click.echo(f"  {check.value}: holds")
    for finding in report.findings:
        click.echo(escape_text(f"  {finding.check.value}: FAILS: {finding.detail}"))
    for check, why in report.unchecked.items():
        click.echo(f"  {check.value}: not checked ({why})")


def _read_receipt(what: str) -> bytes:
    try:
        if what == "-":
            data = sys.stdin.buffer.read(MAX_RECEIPT + 2)
        else:
            with Path(what).open("rb") as file:
                data = file.read(MAX_RECEIPT + 2)
    except OSError as error:
        reason = f"{what}: {error.strerror}; name a read (20 hex digits) or a file with a receipt"
        raise BadInputError(escape_text(reason)) from None
    return respell(data)


def _measure(path: Path | None) -> Blob | None:
    if path is None:
        return None
    try:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            return Blob(f"sha256:{digest}", file.tell())
    except OSError as error:
        raise BadInputError(escape_text(f"{path}: {error.strerror}")) from None
