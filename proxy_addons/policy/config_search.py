"""[search] of a configuration: which provider answers web_search, and how each is reached.

A key is never written in a file of ours: `key_env` names the variable that holds it, `key_file` the file.

    good   "https://api.search.brave.com"   "http://127.0.0.1:8888/searxng"   "http://localhost:3129"
    bad    "http://search.example.com" (only loopback goes without TLS)   "https://a.example/" (no slash at the end)
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from .config_forms import MAX_PATH, Form, FormError, read_list
from .targets import Target, TargetParseError, parse_target


class SearchProviderName(StrEnum):
    """Whom a file can name."""

    LOCAL = "local"
    GATEWAY = "gateway"
    BRAVE = "brave"
    SEARXNG = "searxng"
    TAVILY = "tavily"
    ANTHROPIC = "anthropic"
    OPENAI = "openai"
    OPENROUTER = "openrouter"


@dataclass(frozen=True, slots=True)
class ProviderNeeds:
    """What a remote provider cannot work without. endpoint: its default, None where it has no usual one."""

    endpoint: str | None
    key: bool


REMOTE_PROVIDERS: Mapping[SearchProviderName, ProviderNeeds] = MappingProxyType(
    {
        SearchProviderName.GATEWAY: ProviderNeeds(None, key=True),
        SearchProviderName.BRAVE: ProviderNeeds("https://api.search.brave.com", key=True),
        SearchProviderName.SEARXNG: ProviderNeeds(None, key=False),
        SearchProviderName.TAVILY: ProviderNeeds("https://api.tavily.com", key=True),
    }
)
"""Each has a table [search.NAME]; `local` is the index of this installation and needs nothing; vendors of models have
[vendors.NAME]."""

DEFAULT_CONCURRENCY = 4
"""Searches at one provider at the same time: enough for a few agents, and what public APIs let through."""


@dataclass(frozen=True, slots=True)
class ProviderConfig:
    """[search.NAME]. key_file: absolute when read from a file. requests_per_minute: None for no limit."""

    name: SearchProviderName
    endpoint: str | None = None
    key_env: str | None = None
    key_file: str | None = None
    concurrency: int = DEFAULT_CONCURRENCY
    requests_per_minute: int | None = None

    @property
    def reach(self) -> tuple[str | None, ...]:
        """How it is reached, which stays as it is while it runs."""
        return self.endpoint, self.key_env, self.key_file

    @property
    def missing(self) -> str | None:
        """The key of its table without which it cannot be used; None when all is there."""
        needs = REMOTE_PROVIDERS.get(self.name)
        if needs is None:
            return None
        if self.endpoint is None:
            return "endpoint"
        return "key_env" if needs.key and self.key_env is None and self.key_file is None else None


@dataclass(frozen=True, slots=True)
class SearchConfig:
    """[search] and its tables. providers: the remote ones, each by its name, whether usable or not."""

    provider: SearchProviderName = SearchProviderName.LOCAL
    fallbacks: tuple[SearchProviderName, ...] = ()
    index: bool = True
    share: bool = False
    log_queries: bool = False
    providers: Mapping[SearchProviderName, ProviderConfig] = field(default_factory=dict)

    @property
    def chain(self) -> tuple[SearchProviderName, ...]:
        """Whom a search is put to, one after the other until one answers."""
        return (self.provider, *self.fallbacks)


# --------------------------------------------------------------------------------------------------- forms

_NAMES = ", ".join(f'"{name}"' for name in SearchProviderName)
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")


def _read_provider(value: object) -> SearchProviderName:
    if not isinstance(value, str) or value not in list(SearchProviderName):
        raise FormError(f"write one of {_NAMES}")
    return SearchProviderName(value)


def _read_fallbacks(value: object) -> tuple[SearchProviderName, ...]:
    return read_list(value, _read_provider, most=len(SearchProviderName))


def _read_endpoint(value: object) -> str:
    if not isinstance(value, str) or len(value) > 2048:
        raise FormError
    try:
        target = parse_target(value)
    except TargetParseError:
        raise FormError from None
    if target.scheme not in ("https", "http") or target.has_credentials or target.query or "#" in value:
        raise FormError("write scheme, host and path alone: no user, password, query or fragment")
    if target.scheme == "http" and not is_loopback(target):
        raise FormError("is not loopback, so it is reached over TLS alone; write https://")
    plain = target.href.removesuffix("/")
    if value != plain:
        raise FormError(f'write "{plain}"')
    return value


def is_loopback(target: Target) -> bool:
    """Whether a host can be nothing but this machine."""
    host = target.dns_name
    if host == "localhost" or host.endswith(".localhost"):
        return True
    return target.is_ip_literal and (host.startswith("127.") or host == "[::1]")


def _read_env_name(value: object) -> str:
    # What a key looks like is refused too: most have dashes, or stand in small letters and digits.
    if not isinstance(value, str) or _ENV_NAME.fullmatch(value) is None:
        raise FormError
    return value


def _read_key_file(value: object) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= MAX_PATH or "\0" in value or value.startswith("~"):
        raise FormError('write the path of a file that holds the key, such as "brave.key"; ~ is not expanded')
    return value


PROVIDER: Form[SearchProviderName] = Form(f"one of {_NAMES}", _read_provider, str)
PROVIDERS: Form[tuple[SearchProviderName, ...]] = Form(
    f"a list of {_NAMES}", _read_fallbacks, lambda names: [str(name) for name in names]
)
ENDPOINT: Form[str] = Form(
    "the URL that the API's paths begin with, https or of loopback, without a slash at the end",
    _read_endpoint,
    str,
)
ENV_NAME: Form[str] = Form("the name of an environment variable", _read_env_name, str)
KEY_FILE: Form[str] = Form("the path of a file, relative to the config file", _read_key_file, str)


def make_search_config(tables: Mapping[str, Mapping[str, Any]]) -> SearchConfig:
    """Of the values of [search] and of each [search.NAME], by the names of the tables."""
    providers = {name: ProviderConfig(name, **tables[f"search.{name}"]) for name in REMOTE_PROVIDERS}
    return SearchConfig(**tables["search"], providers=MappingProxyType(providers))


def search_values(config: SearchConfig) -> dict[tuple[str, str], Any]:
    """The way back: values by table and key."""
    values: dict[tuple[str, str], Any] = {
        ("search", name): getattr(config, name)
        for name in ("provider", "fallbacks", "index", "share", "log_queries")
    }
    for name, one in config.providers.items():
        for key in ("endpoint", "key_env", "key_file", "concurrency", "requests_per_minute"):
            values[f"search.{name}", key] = getattr(one, key)
    return values
