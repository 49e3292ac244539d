"""`fetchd audit prune`: remove what is kept no longer, from chains that nobody is writing.

A running installation does it by itself, each minute, for every chain: `[audit] keep_days, keep_bytes`. This is for
one that is stopped, and to see what would go.
"""

import json
from pathlib import Path
from typing import Any, Final

import click

from proxy_addons.audit import AuditKeyError, AuditKeys
from proxy_addons.audit.pruning import Pruned, plan_chains, prune_chains
from proxy_addons.audit.retention import LogFile, Retention

from .config_cli import render_columns
from .config_option import BadInputError, config_option, find_state_or_fail, load_or_fail, state_dir_option

STAYED: Final = 1
"""Something that would go is still there."""


@click.command()
@click.option("--dry-run", is_flag=True, help="Only show what would go.")
@click.option("--keep-days", type=click.IntRange(1), metavar="DAYS", help="In place of [audit] keep_days.")
@click.option("--keep-bytes", type=click.IntRange(0), metavar="BYTES", help="In place of [audit] keep_bytes.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@state_dir_option
@config_option
def prune(
    dry_run: bool,
    keep_days: int | None,
    keep_bytes: int | None,
    as_json: bool,
    state_dir: Path | None,
    config_path: Path | None,
) -> None:
    """Remove old files of the log. The chain says so itself, signed, and `audit verify` goes on from there.

    Exit 0: done; 1: some stay, and why; 2: could not look.
    """
    where = find_state_or_fail(state_dir)
    keep = _find_limits(keep_days, keep_bytes, config_path, where)
    directory = where / "audit"
    if not directory.is_dir():
        raise BadInputError(f"no audit log at {directory}; give the state directory with --state-dir")
    try:
        if dry_run:
            outcome = [Pruned(series, files) for series, files in plan_chains(directory, keep).items()]
        else:
            keys = AuditKeys.load_or_create(where / "keys")
            outcome = prune_chains(directory, keys, keep)
    except AuditKeyError as error:
        raise BadInputError(str(error)) from None
    except OSError as error:
        raise BadInputError(f"{error.filename or directory}: {error.strerror or error}") from None
    click.echo(json.dumps(_document(outcome, dry_run)) if as_json else _render(outcome, dry_run))
    if any(chain.why for chain in outcome):
        raise SystemExit(STAYED)


def _find_limits(
    keep_days: int | None, keep_bytes: int | None, config_path: Path | None, state_dir: Path
) -> Retention:
    if keep_days is not None or keep_bytes is not None:
        return Retention(keep_days, keep_bytes)
    loaded = load_or_fail(config_path, state_dir)
    keep = Retention(loaded.config.audit.keep_days, loaded.config.audit.keep_bytes)
    if not keep.sets_limits:
        raise BadInputError(
            f"{loaded.source} sets no limit, so all is kept; write keep_days or keep_bytes under [audit],"
            " or add --keep-days or --keep-bytes"
        )
    return keep


def _document(outcome: list[Pruned], dry_run: bool) -> dict[str, Any]:
    return {
        "dry_run": dry_run,
        "chains": [
            {"chain": chain.series, "why": chain.why, "files": [_describe(file) for file in chain.files]}
            for chain in outcome
        ],
    }


def _describe(file: LogFile) -> dict[str, Any]:
    return {"file": file.path.name, "bytes": file.size, "newest": file.newest or None}


def _render(outcome: list[Pruned], dry_run: bool) -> str:
    rows = [
        (file.path.name, f"{file.size:,} bytes", file.newest[:19] or "-", _state(chain, dry_run))
        for chain in outcome
        for file in chain.files
    ]
    return render_columns(rows) if rows else "nothing to remove"


def _state(chain: Pruned, dry_run: bool) -> str:
    if dry_run:
        return "would go"
    return f"stays: {chain.why}" if chain.why else "removed"
