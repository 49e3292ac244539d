"""The --config option of commands that read the configuration, and its errors as exit status 2."""

import os
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import click

from fetchd.settings import LoadedConfig, check_own_authority, load_config
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


def load_or_fail(path: Path | None) -> LoadedConfig:
    """`load_config` in the environment of this process; raises BadInputError."""
    try:
        return load_config(path, os.environ)
    except ConfigError as error:
        raise BadInputError(str(error)) from None


def check_authority_or_fail(loaded: LoadedConfig) -> tuple[str, ...]:
    """`check_own_authority`, for commands that start a gateway or check its configuration; raises BadInputError."""
    try:
        return check_own_authority(loaded)
    except ConfigError as error:
        raise BadInputError(str(error)) from None


def select_profile(loaded: LoadedConfig, name: str | None) -> Profile:
    """The named profile, else the default one of the gateway; raises BadInputError."""
    config = loaded.config
    name = name if name is not None else config.gateway.default_profile
    if name not in config.profiles:
        raise BadInputError(
            f"{loaded.source} has no profile {ascii(name)[1:-1]}; {_suggest(name, config.profiles)}"
        )
    return config.profiles[name]


def _suggest(name: str, known: Iterable[str]) -> str:
    names = list(known)
    close = get_close_matches(name[:100], names, n=1)
    return f"did you mean {close[0]}?" if close else f"it has {', '.join(names)}"
