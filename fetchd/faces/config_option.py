"""The --config and --state-dir options of commands, and what is wrong with them as exit status 2."""

import os
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import click

from fetchd.agent_store import StoredAgents, read_agents
from fetchd.core.caller import Caller
from fetchd.pem_files import check_listener_files
from fetchd.settings import NO_AGENTS, LoadedConfig, check_own_authority, find_state_dir, load_config
from proxy_addons.policy.agents import LOCAL_AGENT
from proxy_addons.policy.config import ConfigError
from proxy_addons.policy.limits import Profile


class BadInputError(click.ClickException):
    """Bad arguments or a configuration that cannot be used (SPEC 1.10: status 2)."""

    exit_code = 2


config_option: Callable[[Callable[..., Any]], Callable[..., Any]] = click.option(
    "--config",
    "config_path",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The configuration; else $FETCHD_CONFIG, else config/fetchd.toml, else built in.",
)


state_dir_option: Callable[[Callable[..., Any]], Callable[..., Any]] = click.option(
    "--state-dir",
    type=click.Path(path_type=Path, file_okay=False),
    help="State directory; else $FETCHD_STATE, else $XDG_STATE_HOME/fetchd.",
)


def load_or_fail(path: Path | None, state_dir: Path | None = None) -> LoadedConfig:
    """`load_config` in the environment of this process, with the agents of the state directory.

    state_dir: as an option says it, else the usual one, where there may be one. Raises BadInputError.
    """
    try:
        return load_config(path, os.environ, _read_agents(state_dir))
    except ConfigError as error:
        raise BadInputError(str(error)) from None


def check_files_or_fail(loaded: LoadedConfig) -> tuple[str, ...]:
    """`check_own_authority` and `check_listener_files`; what will not work with the authority. Raises BadInputError.

    For commands that start a gateway or check its configuration.
    """
    try:
        check_listener_files(loaded.config, loaded.source)
        return check_own_authority(loaded)
    except ConfigError as error:
        raise BadInputError(str(error)) from None


def find_state_or_fail(option: Path | None) -> Path:
    """`find_state_dir` in the environment of this process; raises BadInputError."""
    try:
        return find_state_dir(option, os.environ)
    except ConfigError as error:
        raise BadInputError(str(error)) from None


def _read_agents(state_dir: Path | None) -> StoredAgents:
    try:
        where = find_state_dir(state_dir, os.environ)
    except ConfigError:
        return NO_AGENTS  # a command that needs no state must not need a home
    return read_agents(where)


def select_caller(loaded: LoadedConfig, agent: str | None, profile: str | None) -> Caller:
    """On whose behalf a command runs: an agent under its own profile, else the local user.

    Raises BadInputError.
    """
    if agent is None:
        return Caller(LOCAL_AGENT, select_profile(loaded, profile))
    if profile is not None:
        raise BadInputError("an agent has its own profile; write --agent or --profile")
    known = loaded.config.agents
    if agent not in known:
        raise BadInputError(f"there is no agent {ascii(agent)[1:-1]}; {suggest(agent, known)}")
    return Caller(agent, loaded.config.profiles[known[agent].profile])


def select_profile(loaded: LoadedConfig, name: str | None) -> Profile:
    """The named profile, else the default one of the gateway; raises BadInputError."""
    config = loaded.config
    name = name if name is not None else config.gateway.default_profile
    if name not in config.profiles:
        raise BadInputError(
            f"{loaded.source} has no profile {ascii(name)[1:-1]}; {suggest(name, config.profiles)}"
        )
    return config.profiles[name]


def suggest(name: str, known: Iterable[str]) -> str:
    """What to say after "there is no ...": the nearest name, or all there are."""
    names = list(known)
    if not names:
        return "add one with: fetchd agent add NAME"
    close = get_close_matches(name[:100], names, n=1)
    return f"did you mean {close[0]}?" if close else f"it has {', '.join(names[:20])}"
