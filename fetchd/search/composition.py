"""Which providers stand behind web_search: the composition root of this package.

Made at the start, each that the configuration makes usable. One that is missing here fails its searches with `request
failed`; what is missing, `fetchd config check` says.
"""

import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager

from proxy_addons.policy.config_search import SearchConfig

from .interface import SearchProvider
from .providers.opening import open_providers
from .searching import SearchLog, WebSearch


@asynccontextmanager
async def open_web_search(
    config: Callable[[], SearchConfig],
    log: SearchLog,
    local: SearchProvider | None = None,
    *,
    extra_ca: Sequence[str] = (),
    environ: Mapping[str, str] = os.environ,
) -> AsyncIterator[WebSearch]:
    """The tool; `log` is written to and not closed. Leaving closes every connection to a provider.

    config: asked at each call for what a reload may change. local: the index of this installation. extra_ca: roots
    beside the usual ones, for the others. environ: where their keys may be.
    """
    async with open_providers(config(), extra_ca, environ) as remote:
        providers: dict[str, SearchProvider] = {name.value: one for name, one in remote.items()}
        if local is not None:
            providers[local.name] = local
        yield WebSearch(providers, config, log)
