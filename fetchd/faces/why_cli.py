"""`fetchd why`: the story of one fetch from the audit log, and what would let it pass."""

import os
from pathlib import Path

import click

from fetchd.explaining.why import explain
from fetchd.settings import LoadedConfig, find_state_dir, load_config
from proxy_addons.audit.story import MAX_FETCHES, Findings, Story, find_fetches, find_newest
from proxy_addons.policy.config import ConfigError

from .audit_cli import find_log
from .config_option import BadInputError, config_option
from .safe_text import escape_text
from .why_text import render_json, render_list, render_story

NOT_FOUND = 1


@click.command()
@click.argument("fetch_id", required=False)
@click.option(
    "--last",
    type=click.IntRange(1, MAX_FETCHES),
    is_flag=False,
    flag_value=1,
    metavar="[N]",
    help=f"The newest fetch, or the N newest, {MAX_FETCHES} at most.",
)
@click.option("--last-refused", is_flag=True, help="The newest fetch that was refused or failed.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object for each fetch.")
@click.option(
    "--state-dir",
    type=click.Path(path_type=Path, file_okay=False),
    help="State directory; else $FETCHD_STATE, else $XDG_STATE_HOME/fetchd.",
)
@config_option
@click.pass_context
def why(
    context: click.Context,
    fetch_id: str | None,
    last: int | None,
    last_refused: bool,
    as_json: bool,
    state_dir: Path | None,
    config_path: Path | None,
) -> None:
    """Say what became of the fetch FETCH_ID and why, hop by hop, and what would allow it.

    FETCH_ID is what Fetchd-Id said, or the beginning of it. Exit status: 0 found, 1 not found or more than one.
    """
    if (fetch_id is not None) + (last is not None) + last_refused != 1:
        raise BadInputError("name one of FETCH_ID, --last [N] and --last-refused")
    loaded, complaint = _load(config_path)
    directory = _find_directory(state_dir)
    try:
        stories = _find(context, directory, fetch_id, last or 1, refused=last_refused)
    except OSError as error:
        raise BadInputError(
            escape_text(f"cannot read {error.filename or directory}: {error.strerror}")
        ) from None
    explanations = [explain(story, loaded.config if loaded is not None else None) for story in stories]
    if complaint:
        click.echo(f"the configuration cannot be read: {complaint}", err=True)
    if as_json:
        for one in explanations:
            click.echo(render_json(one))
    else:
        click.echo("\n\n\n".join(render_story(one, loaded) for one in explanations))


def _find(
    context: click.Context, directory: Path, fetch_id: str | None, count: int, *, refused: bool
) -> list[Story]:
    """The fetches asked for; ends the command when there are none, or more than were meant."""
    if fetch_id is None:
        ids = find_newest(directory, count, refused=refused)
        if not ids:
            click.echo(f"no {'refused ' if refused else ''}fetch in {directory} yet", err=True)
            context.exit(NOT_FOUND)
        found = {story.fetch_id: story for story in find_fetches(directory, "", exact=ids).stories}
        return [found[one] for one in ids if one in found]
    findings = find_fetches(directory, fetch_id) if fetch_id else Findings((), False, 0)
    if not findings.stories:
        click.echo(
            escape_text(
                f"no fetch {fetch_id} among {findings.walked:,} lines in {directory}; were older files moved away,"
                " or is it in another --state-dir?"
            ),
            err=True,
        )
        context.exit(NOT_FOUND)
    if len(findings.stories) > 1:
        more = f"the first {MAX_FETCHES} of " if findings.more else ""
        click.echo(f"{more}several fetches begin with {escape_text(fetch_id)}; name one further:", err=True)
        click.echo(render_list(findings.stories))
        context.exit(NOT_FOUND)
    return list(findings.stories)


def _load(path: Path | None) -> tuple[LoadedConfig | None, str]:
    """The configuration; a story can be told without it. An error of one that was asked for ends the command."""
    try:
        return load_config(path, os.environ), ""
    except ConfigError as error:
        if path is not None:
            raise BadInputError(str(error)) from None
        return None, str(error)


def _find_directory(state_dir: Path | None) -> Path:
    try:
        return find_log(find_state_dir(state_dir, os.environ))
    except ConfigError as error:
        raise BadInputError(str(error)) from None
