"""`fetchd tools`: the definitions of the tools, to paste into whatever calls a model."""

import json

import click

from fetchd.core.tool_definitions import FORMATS, TOOLS


@click.command()
@click.option(
    "--format",
    "format_name",
    type=click.Choice(tuple(FORMATS)),
    default="mcp",
    show_default=True,
    help="Whose `tools` list it is for: Anthropic Messages, OpenAI Chat Completions, or an MCP tools/list result.",
)
def tools(format_name: str) -> None:
    """Print the definitions of the tools as a JSON list."""
    render = FORMATS[format_name]
    click.echo(json.dumps([render(tool) for tool in TOOLS], indent=2))
