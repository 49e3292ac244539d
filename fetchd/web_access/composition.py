"""What stands behind `ask`: the composition root of this package."""

import logging
import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from fetchd.errors import StoreError
from fetchd.store.runs import RunRecords
from proxy_addons.policy.config import Config

from .asking import Asker
from .audit_log import AskLog
from .links import open_links

_logger = logging.getLogger(__name__)


@asynccontextmanager
async def open_asker(
    config: Callable[[], Config], log: AskLog, state_dir: Path, environ: Mapping[str, str] = os.environ
) -> AsyncIterator[Asker]:
    """The use case; `log` is written to and not closed. Leaving closes every connection to a vendor.

    A store that cannot be opened does not keep anybody from asking: it is logged, and runs are not recorded.
    """
    now = config()
    records: RunRecords | None = None
    try:
        records = await RunRecords.open(state_dir / "fetchd.db")
    except StoreError as error:
        _logger.error("runs are not recorded: %s", error)  # noqa: TRY400 - one line for the operator
    try:
        async with open_links(now.asking.vendors, now.tls.extra_ca, environ) as links:
            yield Asker(config, links, log, records)
    finally:
        if records is not None:
            await records.close()
