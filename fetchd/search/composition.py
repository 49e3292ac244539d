"""Which providers stand behind web_search: the composition root of this package.

Made at the start, each that the configuration makes usable. One that is missing here fails its searches with `request
failed`; what is missing, `fetchd config check` says.
"""

import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial

from fetchd.web_access.links import open_links
from proxy_addons.policy.config_ask import AskTables, VendorConfig
from proxy_addons.policy.config_search import SearchConfig
from proxy_addons.policy.vendors.dialects import Vendor

from .interface import SearchProvider
from .providers.opening import open_providers
from .providers.vendor import VendorSearch
from .searching import SearchLog, WebSearch


@asynccontextmanager
async def open_web_search(
    config: Callable[[], SearchConfig],
    log: SearchLog,
    local: SearchProvider | None = None,
    *,
    extra_ca: Sequence[str] = (),
    environ: Mapping[str, str] = os.environ,
    asking: Callable[[], AskTables] = AskTables,
) -> AsyncIterator[WebSearch]:
    """The tool; `log` is written to and not closed. Leaving closes every connection to a provider.

    config: asked at each call for what a reload may change. local: the index of this installation. extra_ca: roots
    beside the usual ones, for the others. environ: where their keys may be. asking: how vendors of models are
    asked, who are search providers too.
    """
    vendors = asking().vendors
    async with (
        open_providers(config(), extra_ca, environ) as remote,
        open_links(vendors, extra_ca, environ) as links,
    ):
        providers: dict[str, SearchProvider] = {name.value: one for name, one in remote.items()}
        providers |= {
            name.value: VendorSearch(partial(_find_vendor, asking, name), links) for name in vendors
        }
        if local is not None:
            providers[local.name] = local
        yield WebSearch(providers, config, log)


def _find_vendor(asking: Callable[[], AskTables], name: Vendor) -> VendorConfig:
    return asking().vendors[name]
