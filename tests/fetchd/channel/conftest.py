from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit.origin import Origin
from tests.kit.pki import Pki


@pytest.fixture
def pki(tmp_path: Path) -> Pki:
    return Pki(tmp_path)


@pytest.fixture
def origin(pki: Pki) -> Iterator[Origin]:
    """A TLS server that the channel of `opened` trusts."""
    with Origin(tls=pki.server_context("localhost", "127.0.0.1")) as origin:
        yield origin
