"""Where the public conformance data lies: FETCHD_CORPORA, else `shared/corpora` beside the checkout.

The data is not part of the repository. Everything in it is hostile input: its URLs are never fetched.
"""

from __future__ import annotations

import os
from pathlib import Path

from tests.kit.tools import give_up

REPOSITORY = Path(__file__).resolve().parents[2]


def corpora_root() -> Path:
    """The folder that holds the corpora; it may not exist."""
    named = os.environ.get("FETCHD_CORPORA")
    return Path(named).resolve() if named else REPOSITORY.parent / "shared" / "corpora"


def corpora(*parts: str) -> Path:
    """The path of one corpus or a file of it, as in `corpora("wpt-url", "urltestdata.json")`.

    Usable in a test and at import. Missing data skips, or fails when FETCHD_REQUIRE_TOOLS=1.
    """
    path = corpora_root().joinpath(*parts)
    if not path.exists():
        give_up(f"corpus {'/'.join(parts) or 'folder'} is missing (FETCHD_CORPORA={corpora_root()})")
    return path
