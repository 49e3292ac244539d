"""Outside programs and data that a test needs: a missing one is a skip line, or a failure where required.

FETCHD_REQUIRE_TOOLS=1 (set in CI) turns each such skip into a failure: no green run hides a missing piece.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import NoReturn

import pytest


def give_up(missing: str) -> NoReturn:
    """Skip the calling test or module for want of `missing`; fail it when FETCHD_REQUIRE_TOOLS=1."""
    if os.environ.get("FETCHD_REQUIRE_TOOLS") == "1":
        pytest.fail(f"{missing}, and FETCHD_REQUIRE_TOOLS=1", pytrace=False)
    pytest.skip(missing, allow_module_level=True)


def require_tool(name: str) -> Path:
    """The path of program `name` on PATH; else as `give_up`."""
    found = shutil.which(name)
    if found is None:
        give_up(f"program {name} is not installed")
    return Path(found)
