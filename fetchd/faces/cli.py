"""The command line's root. Commands are imported when they are used, so that `fetchd check` starts fast."""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from types import MappingProxyType

import click


@dataclass(frozen=True, slots=True)
class LazyCommand:
    """Where a command lives, and its line in the list of commands."""

    module: str
    attribute: str
    help: str


COMMANDS: Mapping[str, LazyCommand] = MappingProxyType(
    {
        "up": LazyCommand("fetchd.faces.up_cli", "up", "Start the gateway and the daemon."),
        "status": LazyCommand("fetchd.faces.up_cli", "status", "Say what runs, and where it listens."),
        "stop": LazyCommand("fetchd.faces.up_cli", "stop", "Stop what `fetchd up` started."),
        "reload": LazyCommand(
            "fetchd.faces.reload_cli", "reload", "Have the running gateway read its configuration again."
        ),
        "agent": LazyCommand("fetchd.faces.agent_cli", "agent_group", "Add, list and revoke agents."),
        "env": LazyCommand(
            "fetchd.faces.env_cli", "env", "Print what agents' clients need to use the gateway."
        ),
        "ca": LazyCommand(
            "fetchd.faces.ca_cli", "group", "Show, export and replace the authority that clients trust."
        ),
        "fetch": LazyCommand("fetchd.faces.fetch_cli", "fetch", "Fetch pages through the gateway."),
        "read": LazyCommand(
            "fetchd.faces.read_cli", "read", "Read pages whole, bound to a digest, with a receipt."
        ),
        "search": LazyCommand("fetchd.faces.search_cli", "search", "Search the web, as web_search does."),
        "index": LazyCommand("fetchd.faces.index_cli", "group", "See and clear what searches here find."),
        "ask": LazyCommand(
            "fetchd.faces.ask_cli", "ask", "Ask a vendor's model that searches the web for its answer."
        ),
        "runs": LazyCommand("fetchd.faces.runs_cli", "runs", "List what was asked with ask."),
        "citations": LazyCommand(
            "fetchd.faces.runs_cli", "citations", "List a run's citations, and read whether they hold."
        ),
        "usage": LazyCommand("fetchd.faces.runs_cli", "usage", "Say what a run was charged for."),
        "extract": LazyCommand("fetchd.faces.extract_cli", "extract", "Print a saved page as markdown."),
        "mcp": LazyCommand("fetchd.faces.mcp_cli", "mcp", "Serve the tools over MCP on standard input."),
        "tools": LazyCommand("fetchd.faces.tools_cli", "tools", "Print the definitions of the tools."),
        "check": LazyCommand("fetchd.faces.check_cli", "check", "Judge a URL; nothing is contacted."),
        "why": LazyCommand(
            "fetchd.faces.why_cli", "why", "Say why a fetch ended as it did, and what would allow it."
        ),
        "config": LazyCommand("fetchd.faces.config_cli", "config_group", "Check the configuration."),
        "profile": LazyCommand("fetchd.faces.config_cli", "profile_group", "Show the limits of profiles."),
        "blob": LazyCommand("fetchd.faces.blob_cli", "group", "Get, verify and drop pages that were kept."),
        "receipt": LazyCommand("fetchd.faces.receipt_cli", "group", "List, show and verify receipts."),
        "operator": LazyCommand(
            "fetchd.faces.operator_cli", "operator_group", "Sign in at the operator's page: a token, a link."
        ),
        "audit": LazyCommand(
            "fetchd.faces.audit_commands", "group", "Read, verify and learn from the audit log."
        ),
    }
)
"""In the order of the list; one whose module is not part of this build is left out."""


class LazyGroup(click.Group):
    """A group over `COMMANDS`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for name, command in COMMANDS.items() if find_spec(command.module) is not None]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        command = COMMANDS.get(cmd_name)
        if command is None or find_spec(command.module) is None:
            return None
        found = getattr(import_module(command.module), command.attribute)
        if not isinstance(found, click.Command):
            raise TypeError(f"{command.module}.{command.attribute} is no command")
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name].help) for name in self.list_commands(ctx)])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="fetchd", message="%(prog)s %(version)s")
def main() -> None:
    """An egress gateway for sandboxed AI agents, and a daemon that fetches through it."""


if __name__ == "__main__":
    main(prog_name="fetchd")
