"""`fetchd agent add | list | revoke | rotate`: who may use the gateway, and by which token.

    fetchd.NAME.{43 characters}      a token; the characters are 32 random bytes in base64url

A token is printed once and kept as a digest. A running gateway is told at once; when it cannot take the change,
nothing is changed, but for `revoke`: a token that was given away is never put back.
"""

import asyncio
import json
import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import click

from fetchd.agent_store import CREATED, StoredAgents, Table, hold_agents, read_agents, write_agents
from fetchd.errors import StoreError
from fetchd.running.run_state import RunState, read_run_state
from fetchd.search.local.forgetting import forget_agent
from fetchd.settings import LoadedConfig, load_config
from proxy_addons.policy.agents import AGENT_NAME, RESERVED_AGENTS, Agent, digest_token
from proxy_addons.policy.config import ConfigError

from .agent_environment import describe_client, find_doors, render_variables
from .config_cli import render_columns
from .config_option import (
    BadInputError,
    config_option,
    find_state_or_fail,
    load_or_fail,
    select_profile,
    state_dir_option,
    suggest,
)
from .control import ControlError, order_reload

TOKEN_BYTES: Final = 32

NAMELESS: Final = (
    "This is the first agent: from now on clients without a token are refused, but where anonymous = true"
)

env_option = click.option(
    "--env",
    "form",
    type=click.Choice(["shell", "dotenv", "json"]),
    help="Print nothing but the client's variables, as export lines, NAME=value lines or JSON.",
)


@click.group(name="agent")
def agent_group() -> None:
    """Agents: who may use the gateway, by which token, under which profile."""


@agent_group.command()
@click.argument("name")
@click.option("--profile", "profile_name", metavar="NAME", required=True, help="What judges the agent.")
@click.option(
    "--source", "sources", multiple=True, metavar="ADDRESS",
    help="An address or range from which requests without a token are the agent's; may be repeated.",
)  # fmt: skip
@env_option
@state_dir_option
@config_option
def add(
    name: str,
    profile_name: str,
    sources: tuple[str, ...],
    form: str | None,
    state_dir: Path | None,
    config_path: Path | None,
) -> None:
    """Add agent NAME and print its token, this once."""
    _require_name(name)
    with _editing(state_dir, config_path) as edit:
        if name in edit.stored.tables:
            raise BadInputError(
                f"there is an agent {name} already; for a new token: fetchd agent rotate {name}"
            )
        token = make_token(name)
        row = {
            "profile": profile_name,
            "token_sha256": digest_token(token),
            "sources": list(sources),
            CREATED: datetime.now(UTC).isoformat(timespec="seconds"),
        }
        loaded = edit.check(edit.stored.having(name, row), added=name, profile=profile_name)
        _forget_pages(edit.state_dir, name)  # of one who had the name before
        told = edit.commit(edit.stored.having(name, row))
    _print_token(f"agent {name} added, profile {profile_name}", name, token, form, edit, loaded, told)


@agent_group.command()
@click.argument("name")
@env_option
@state_dir_option
@config_option
def rotate(name: str, form: str | None, state_dir: Path | None, config_path: Path | None) -> None:
    """Give agent NAME another token and print it, this once. The old one ends."""
    with _editing(state_dir, config_path) as edit:
        token = make_token(name)
        changed = edit.stored.having(name, {**edit.find(name), "token_sha256": digest_token(token)})
        loaded = edit.check(changed)
        told = edit.commit(changed)
    _print_token(f"agent {name} has another token", name, token, form, edit, loaded, told)


@agent_group.command(name="set")
@click.argument("name")
@click.option("--profile", "profile_name", metavar="NAME", required=True, help="What judges the agent.")
@state_dir_option
@config_option
def set_profile(name: str, profile_name: str, state_dir: Path | None, config_path: Path | None) -> None:
    """Have another profile judge agent NAME, from its next request on; its token stays."""
    with _editing(state_dir, config_path) as edit:
        changed = edit.stored.having(name, {**edit.find(name), "profile": profile_name})
        edit.check(changed, added=name, profile=profile_name)
        told = edit.commit(changed)
    click.echo(f"agent {name} has profile {profile_name}{'' if told else '; nothing runs'}")


@agent_group.command()
@click.argument("name")
@state_dir_option
@config_option
def revoke(name: str, state_dir: Path | None, config_path: Path | None) -> None:
    """Remove agent NAME; its token, and what is under way for it, end at once."""
    with _editing(state_dir, config_path) as edit:
        edit.find(name)
        without = edit.stored.without(name)
        if edit.is_valid(edit.stored):
            try:
                edit.load(without)
            except ConfigError as error:
                raise BadInputError(
                    f"{name} is needed: {error}; to end its token alone: fetchd agent rotate {name}"
                ) from None
        edit.write(without)
        try:
            edit.reload()
        except ControlError as error:
            raise BadInputError(
                f"agent {name} is removed, but the running gateway STILL TAKES ITS TOKEN: {error};"
                " mend that and run fetchd reload, or fetchd stop"
            ) from None
        finally:
            _forget_pages(edit.state_dir, name)
    click.echo(f"agent {name} revoked{'' if edit.running is not None else '; nothing runs'}")


@agent_group.command(name="list")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list.")
@state_dir_option
@config_option
def list_agents(as_json: bool, state_dir: Path | None, config_path: Path | None) -> None:
    """Every agent of the configuration and of the state directory."""
    where = find_state_or_fail(state_dir)
    stored = _read_stored(where)
    loaded = load_or_fail(_find_config(config_path, read_run_state(where)), where)
    rows = [_describe(agent, stored, loaded) for agent in loaded.config.agents.values()]
    if as_json:
        click.echo(json.dumps(rows, indent=2))
        return
    if not rows:
        click.echo("no agents; add one with: fetchd agent add NAME --profile PROFILE")
        return
    header = ("agent", "profile", "token", "sources", "created", "from")
    table = [
        (
            row["agent"], row["profile"], "yes" if row["token"] else "no", ", ".join(row["sources"]) or "-",
            (row["created"] or "-")[:10], row["from"],
        )
        for row in rows
    ]  # fmt: skip
    click.echo(render_columns([header, *table]))


def _forget_pages(state_dir: Path, name: str) -> None:
    """What an agent has read is not the next one's of its name. A failure is said, and stops nothing."""
    try:
        asyncio.run(forget_agent(state_dir, name))
    except StoreError as error:
        click.echo(
            f"Warning: what an earlier agent {name} has read can still be had by the next one: {error};"
            f" mend that, and then add the next one (after fetchd agent revoke {name}, if it is there already)",
            err=True,
        )


def make_token(name: str) -> str:
    """A token of agent `name`, 256 random bits."""
    return f"fetchd.{name}.{secrets.token_urlsafe(TOKEN_BYTES)}"


# -- the change of a file, a gateway told


@dataclass(slots=True)
class _Edit:
    """A change of the agents' file under its lock. config: the file that the agents stand beside."""

    state_dir: Path
    config_path: Path | None
    running: RunState | None
    stored: StoredAgents

    def find(self, name: str) -> Table:
        """The agent's table; raises BadInputError for one that is not in the file."""
        if name in self.stored.tables:
            return self.stored.tables[name]
        with suppress(ConfigError):  # a broken file must not keep a token alive
            loaded = self.load(self.stored)
            if name in loaded.config.agents:
                raise BadInputError(
                    f"agent {name} is in {loaded.source}; change it there, and run fetchd reload"
                )
        shown = ascii(name)[1:-1]
        raise BadInputError(f"there is no agent {shown}; {suggest(name, self.stored.tables)}")

    def load(self, stored: StoredAgents) -> LoadedConfig:
        """The configuration with these agents; raises ConfigError."""
        return load_config(self.config_path, os.environ, stored)

    def is_valid(self, stored: StoredAgents) -> bool:
        """Whether the configuration can be used with these agents."""
        try:
            self.load(stored)
        except ConfigError:
            return False
        return True

    def check(self, stored: StoredAgents, added: str = "", profile: str = "") -> LoadedConfig:
        """The configuration with these agents; raises BadInputError."""
        try:
            return self.load(stored)
        except ConfigError as error:
            if added and error.key == f"agents.{added}":
                raise BadInputError(f"there is an agent {added} already, in {error.source}") from None
            if added and error.key == f"agents.{added}.profile":
                # Named by its nearest, which the file's own check does not do.
                with suppress(ConfigError):
                    select_profile(self.load(self.stored), profile)
            raise BadInputError(str(error)) from None

    def write(self, stored: StoredAgents) -> None:
        """Put the file in place; raises BadInputError."""
        try:
            write_agents(self.state_dir, stored)
        except OSError as error:
            raise BadInputError(f"{stored.source}: {error.strerror or error}") from None

    def reload(self) -> bool:
        """Whether a running installation has taken the change; raises ControlError."""
        if self.running is None:
            return False
        order_reload(self.running, self.state_dir)
        return True

    def commit(self, stored: StoredAgents) -> bool:
        """Write and reload, or neither; raises BadInputError."""
        self.write(stored)
        try:
            return self.reload()
        except ControlError as error:
            self.write(self.stored)
            raise BadInputError(f"nothing was changed, the running gateway refused: {error}") from None


@contextmanager
def _editing(state_dir: Path | None, config_path: Path | None) -> Iterator[_Edit]:
    where = find_state_or_fail(state_dir)
    try:
        with hold_agents(where):
            running = read_run_state(where)
            yield _Edit(where, _find_config(config_path, running), running, _read_stored(where))
    except OSError as error:
        raise BadInputError(f"{where}: {error.strerror or error}") from None


def _find_config(option: Path | None, running: RunState | None) -> Path | None:
    """What --config says, else the file that runs."""
    if option is None and running is not None and running.config_path is not None:
        return Path(running.config_path)
    return option


def _read_stored(state_dir: Path) -> StoredAgents:
    try:
        return read_agents(state_dir)
    except ConfigError as error:
        raise BadInputError(str(error)) from None


def _require_name(name: str) -> None:
    if AGENT_NAME.fullmatch(name) is None or name in RESERVED_AGENTS:
        raise BadInputError(
            f"{ascii(name[:40])[1:-1]} is no name for an agent; write a small letter, then small letters, digits,"
            f" _ and -, 32 at most, not {' or '.join(sorted(RESERVED_AGENTS))}"
        )


# -- what is printed


def _print_token(
    said: str, name: str, token: str, form: str | None, edit: _Edit, loaded: LoadedConfig, told: bool
) -> None:
    """The token, and how clients use it. With --env the words go to standard error."""
    doors = find_doors(edit.running, loaded.config, edit.state_dir, name)
    taken = "the running gateway takes its token now" if told else "fetchd up will take its token"
    if not _admits_nameless(edit.stored, loaded):
        taken += f".\n{NAMELESS}"
    if form is not None:
        click.echo(f"{said}; {taken}", err=True)
        click.echo(render_variables(doors, name, token, form))
        return
    click.echo(f"{said}; {taken}")
    click.echo(f"token, shown this once: {token}")
    click.echo(describe_client(doors, name, token))


def _admits_nameless(before: StoredAgents, loaded: LoadedConfig) -> bool:
    """Whether whoever was served without a token still is."""
    config = loaded.config
    if before.tables or len(config.agents) > 1:
        return True  # that was so before
    return all(
        one.anonymous for one in (*config.gateway.listeners, config.daemon.listener) if one.is_loopback
    )


def _describe(agent: Agent, stored: StoredAgents, loaded: LoadedConfig) -> dict[str, Any]:
    table: Mapping[str, object] = stored.tables.get(agent.name, {})
    created = table.get(CREATED)
    return {
        "agent": agent.name,
        "profile": agent.profile,
        "token": agent.token_sha256 is not None,
        "sources": [str(one.ip if one.first == one.last else one) for one in agent.sources],
        "created": str(created) if created is not None else None,
        "from": "state" if agent.name in stored.tables else loaded.source,
    }
