"""`fetchd reload`: the running installation reads its configuration and its agents again.

Exit status: 0 done; 2 refused, and everything stays as it was; 3 nothing runs.
"""

from pathlib import Path
from typing import Final

import click

from fetchd.running.run_state import read_run_state

from .config_option import BadInputError, find_state_or_fail, state_dir_option
from .control import ControlError, order_reload
from .up_text import render_changes

NO_GATEWAY: Final = 3


@click.command()
@state_dir_option
@click.pass_context
def reload(context: click.Context, state_dir: Path | None) -> None:
    """Have the running gateway and daemon read the configuration again.

    What is under way ends under the rules it began with. A file that is missing, empty, half written or wrong changes
    nothing.
    """
    where = find_state_or_fail(state_dir)
    state = read_run_state(where)
    if state is None:
        click.echo(f"nothing runs on {where}; start it with: fetchd up", err=True)
        context.exit(NO_GATEWAY)
    try:
        click.echo(render_changes(order_reload(state, where)))
    except ControlError as error:
        raise BadInputError(f"not reloaded: {error}") from None
