"""Which providers stand behind web_search: the composition root of this package.

Made at the start, each that the configuration makes usable. One that is missing here fails its searches with `request
failed`; what is missing, `fetchd config check` says.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from proxy_addons.policy.config_search import SearchConfig

from .interface import SearchProvider
from .searching import SearchLog, WebSearch


@asynccontextmanager
async def open_web_search(
    config: Callable[[], SearchConfig], log: SearchLog, local: SearchProvider | None = None
) -> AsyncIterator[WebSearch]:
    """The tool; `log` is written to and not closed. Leaving closes every connection to a provider.

    config: asked at each call for what a reload may change. local: the index of this installation.
    """
    providers: dict[str, SearchProvider] = {}
    if local is not None:
        providers[local.name] = local
    yield WebSearch(providers, config, log)
