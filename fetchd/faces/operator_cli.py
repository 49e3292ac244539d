"""`fetchd operator token | link`: what signs in at the operator's page.

The token is for whoever keeps it, and for scripts (`Authorization: Bearer`); it is printed once and kept as a digest.
A link signs one browser in, once, within five minutes; who may read the state directory may make one.
"""

import json
import sys
from pathlib import Path

import click

from fetchd.operator_token import has_token, make_token
from fetchd.running.run_state import read_run_state

from .config_option import BadInputError, find_state_or_fail, state_dir_option
from .control import ControlError, order_link, render_origin

NOT_RUNNING = 3


@click.group(name="operator")
def operator_group() -> None:
    """The operator's page: make a token, or a link that signs in once."""


@operator_group.command()
@click.option(
    "--rotate", is_flag=True, help="Make another in place of the one there is, and sign everybody out."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@state_dir_option
def token(rotate: bool, as_json: bool, state_dir: Path | None) -> None:
    """Make the operator's token and print it, this once."""
    where = find_state_or_fail(state_dir)
    if has_token(where) and not rotate:
        raise BadInputError(
            "there is a token already, and only a digest of it is kept; for another: fetchd operator token --rotate"
        )
    try:
        made = make_token(where)
    except OSError as error:
        raise BadInputError(f"state directory {where}: {error.strerror or error}") from None
    state = read_run_state(where)
    page = render_origin(state) if state is not None else None
    if as_json:
        click.echo(json.dumps({"token": made, "page": page}))
        return
    click.echo(made)
    # Beside the token, so that `fetchd operator token > file` writes nothing else.
    click.echo(
        "Keep it now: it is not shown again. It signs in at the operator's page, and scripts send it as",
        err=True,
    )
    click.echo(
        f"Authorization: Bearer TOKEN. Page: {page or 'nothing runs; start it with: fetchd up'}", err=True
    )


@operator_group.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@state_dir_option
def link(as_json: bool, state_dir: Path | None) -> None:
    """Print a link that signs one browser in, once, within five minutes. Exits with 3 when nothing runs."""
    where = find_state_or_fail(state_dir)
    state = read_run_state(where)
    if state is None:
        click.echo(f"nothing runs on {where}; start it with: fetchd up", err=True)
        sys.exit(NOT_RUNNING)
    try:
        found = order_link(state, where)
    except ControlError as error:
        raise BadInputError(str(error)) from None
    click.echo(json.dumps({"link": found}) if as_json else found)
