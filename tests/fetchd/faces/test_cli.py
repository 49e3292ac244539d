"""The root of the command line: every command is listed, described and found."""

import subprocess
import sys
from importlib.util import find_spec

import click
import pytest
from click.testing import CliRunner

from fetchd.faces.cli import COMMANDS, main


def test_help_lists_the_commands_in_order() -> None:
    result = CliRunner().invoke(main, ["--help"])

    assert result.exit_code == 0
    listed = [name for name in COMMANDS if f"\n  {name} " in result.stdout]
    assert listed == main.list_commands(click.Context(main))
    assert {"fetch", "check", "config", "profile", "audit"} <= set(listed)


@pytest.mark.parametrize(
    "name", [name for name, row in COMMANDS.items() if find_spec(row.module) is not None]
)
def test_every_command_explains_itself(name: str) -> None:
    result = CliRunner().invoke(main, [name, "--help"])

    assert (result.exit_code, result.stderr) == (0, "")
    assert f"Usage: main {name}" in result.stdout


def test_an_unknown_command_is_an_error() -> None:
    result = CliRunner().invoke(main, ["nope"])

    assert result.exit_code == 2
    assert "No such command" in result.stderr


def test_a_light_command_does_not_load_the_heavy_ones() -> None:
    """`fetchd check --json -` is started by other programs."""
    script = (
        "import sys; from fetchd.faces.cli import main\n"
        "main(['check', 'https://a.example/'], standalone_mode=False)\n"
        "print([name for name in ('trafilatura', 'httpcore', 'starlette', 'mitmproxy') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )

    assert done.stdout.splitlines()[-1] == "[]"
