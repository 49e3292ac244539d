"""The remote providers that a configuration describes, each over a channel of its own to its own endpoint.

One that cannot be used (its variable is not set, its key file is open to others) is left out with a line in the log
that says what to do: searches that need it fail with `request failed`, everything else goes on (SPEC 4).
"""

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Final

from fetchd.channel import Secret
from fetchd.channel.client import HttpChannel, make_roots
from fetchd.channel.hosts import parse_endpoint
from fetchd.channel.secrets import read_secret_file, read_secret_variable
from fetchd.errors import ChannelError
from fetchd.search.interface import SearchProvider
from proxy_addons.policy.config_search import (
    REMOTE_PROVIDERS,
    ProviderConfig,
    SearchConfig,
    SearchProviderName,
)

from .asking import DEADLINE_SECONDS, RemoteProvider
from .brave import BRAVE
from .dialect import Dialect, Settings
from .gateway import GATEWAY
from .searxng import SEARXNG
from .tavily import TAVILY

DIALECTS: Final[Mapping[SearchProviderName, Dialect]] = MappingProxyType(
    {SearchProviderName(dialect.name): dialect for dialect in (GATEWAY, BRAVE, SEARXNG, TAVILY)}
)

_log = logging.getLogger(__name__)


@asynccontextmanager
async def open_providers(
    config: SearchConfig,
    extra_ca: Iterable[str],
    environ: Mapping[str, str],
    *,
    deadline: float = DEADLINE_SECONDS,
) -> AsyncIterator[Mapping[SearchProviderName, SearchProvider]]:
    """Every remote provider that can be used, in the chain or not: a reload may take it in. Leaving closes their
    connections.
    """
    opened: dict[SearchProviderName, SearchProvider] = {}
    async with AsyncExitStack() as stack:
        roots: ssl.SSLContext | None = None  # made once there is a provider to reach
        for name, described in config.providers.items():
            try:
                settings = await asyncio.to_thread(_read_settings, described, environ)
                if roots is None:
                    roots = await asyncio.to_thread(make_roots, tuple(extra_ca))
                channel = await stack.enter_async_context(HttpChannel(described.endpoint or "", roots))
            except ChannelError as error:
                if name in config.chain:
                    _log.error("search provider %s cannot be used: %s", name.value, error)
                continue
            opened[name] = RemoteProvider(DIALECTS[name], settings, channel, deadline=deadline)
        yield MappingProxyType(opened)


def find_provider_faults(config: SearchConfig, environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """What keeps the providers of the chain from being used: key of the configuration, and what is wrong. Blocks."""
    for name in config.chain:
        described = config.providers.get(name)
        if described is None:
            continue
        try:
            _read_settings(described, environ)
        except ChannelError as error:
            which = "key_file" if described.key_file is not None else "key_env"
            yield f"search.{name}.{which if described.endpoint else 'endpoint'}", str(error)


def _read_settings(described: ProviderConfig, environ: Mapping[str, str]) -> Settings:
    """Endpoint and key; raises ChannelError."""
    if described.endpoint is None:
        raise ChannelError("it has no endpoint")
    endpoint = parse_endpoint(described.endpoint)
    secret: Secret | None = None
    if described.key_file is not None:
        secret = read_secret_file(Path(described.key_file))
    elif described.key_env is not None:
        secret = read_secret_variable(described.key_env, environ)
    elif REMOTE_PROVIDERS[described.name].key:
        raise ChannelError("it has no key; name its variable (key_env) or its file (key_file)")
    return Settings(endpoint.base, secret)
