"""What the commands over the store share: where it is, how it is opened, its errors as exit status 2."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import click

from fetchd.errors import BlobMissingError, StoreError
from fetchd.settings import find_state_dir
from fetchd.store import PageStore, open_page_store
from proxy_addons.policy.config import ConfigError

from .config_option import BadInputError
from .safe_text import escape_text

NEGATIVE = 1  # SPEC 1.10

state_option: Callable[[Callable[..., Any]], Callable[..., Any]] = click.option(
    "--state-dir",
    type=click.Path(path_type=Path, file_okay=False),
    help="State directory; else $FETCHD_STATE, else $XDG_STATE_HOME/fetchd.",
)


def find_state(option: Path | None) -> Path:
    """The state directory; raises BadInputError."""
    try:
        return find_state_dir(option, os.environ)
    except ConfigError as error:
        raise BadInputError(str(error)) from None


@asynccontextmanager
async def existing_store(state_dir: Path, *, tidy: bool = False) -> AsyncIterator[PageStore]:
    """The store of an installation that has one; looking at it makes none. Raises BadInputError, StoreError."""
    if not await asyncio.to_thread((state_dir / "fetchd.db").exists):
        raise BadInputError(f"no pages kept in {state_dir}; give the state directory with --state-dir")
    async with open_page_store(state_dir, tidy=tidy) as store:
        yield store


def run[T](work: Coroutine[Any, Any, T]) -> T:
    """Runs a command's coroutine; raises BadInputError for what the store cannot do."""
    try:
        return asyncio.run(work)
    except BlobMissingError as error:
        raise BadInputError(f"{error}; see: fetchd blob list") from None
    except StoreError as error:
        raise BadInputError(escape_text(str(error))) from None
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            raise
        place = f"{error.filename}: " if error.filename else ""
        raise BadInputError(escape_text(f"{place}{error.strerror or error}")) from None
    except ValueError as error:
        raise BadInputError(escape_text(str(error))) from None
