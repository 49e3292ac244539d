"""The holes of stock mitmproxy, N1 to N16 (docs/mitmproxy-holes.md): each shows in stock, none shows here."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.memory import worker_of
from tests.gateway.probes import HOST, PROBES, Subject
from tests.gateway.stock import StockProcess
from tests.kit.dns import NODATA, Addresses, Delayed
from tests.kit.gateway import ORIGIN_ADDRESS, World
from tests.kit.listener import BlackHole
from tests.kit.ports import bound_socket
from tests.kit.sync import Gate

HOLES = sorted(PROBES, key=lambda name: int(name[1:]))
# What leaks in small pieces shows only while no larger hole has left the worker free memory to put them in.
IN_ORDER = ["N10", *(hole for hole in HOLES if hole != "N10")]
STOCK_PATIENCE = 2.0
"""Where stock hangs, the answer would come at once if it came at all."""


class HoleWorld(World):
    """Large uploads pass, and one port stands free for later."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, listeners=("test", "open", "small"))
        # Bound and not listening: connects are refused, and nobody else is given the port meanwhile.
        self._held = self._stack.enter_context(bound_socket(ORIGIN_ADDRESS))
        self.late: int = self._held.getsockname()[1]

    def config(self) -> dict[str, Any]:
        config = super().config()
        opened = config["profiles"]["open"]
        opened |= {"ports": [*opened["ports"], self.late], "request_cap": 64 << 20}
        config["profiles"]["small"] = {**opened, "byte_cap": 1024}
        return config


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HoleWorld]:
    folder = tmp_path_factory.mktemp("holes")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SSLKEYLOGFILE", str(folder / "our-keys"))
        world = HoleWorld(folder)
        world.__enter__()
    try:
        yield world
    finally:
        world.__exit__()


@pytest.fixture(scope="module")
def ours(stage: HoleWorld) -> Iterator[Subject]:
    """Our gateway. The look-up of the slow name is answered at the end of the module."""
    gate = Gate()
    stage.dns.script("slow.example", "A", Delayed(gate, Addresses(ORIGIN_ADDRESS)))
    stage.dns.script("slow.example", "AAAA", NODATA)
    gateway = stage.gateway
    yield Subject(
        open=lambda: gateway.open(1),
        open_small=lambda: gateway.open(2),
        ca=gateway.ca_path,
        pid=worker_of(gateway.process.pid),
        origin=stage.origin,
        plain=stage.plain,
        slow=f"slow.example:{stage.plain.port}",
        late=stage.late,
        key_log=gateway.state.parent / "our-keys",
        patience=60.0,
    )
    gate.open()


@pytest.fixture(scope="module")
def stock(stage: HoleWorld, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Subject]:
    """mitmproxy as it comes. The slow name leads where a connect never finishes."""
    folder = tmp_path_factory.mktemp("stock")
    key_log = folder / "keys"
    names = {HOST: ORIGIN_ADDRESS, "slow.example": "127.0.0.66", "evil.example": ORIGIN_ADDRESS}
    with (
        BlackHole("127.0.0.66") as hole,
        StockProcess(folder, stage.pki.ca_path, names, {"SSLKEYLOGFILE": str(key_log)}) as process,
    ):
        yield Subject(
            open=process.open,
            open_small=process.open,
            ca=process.ca_path,
            pid=process.process.pid,
            origin=stage.origin,
            plain=stage.plain,
            slow=f"slow.example:{hole.port}",
            late=stage.late,
            key_log=key_log,
            patience=STOCK_PATIENCE,
        )


@pytest.fixture(autouse=True)
def _fresh(stage: HoleWorld) -> None:
    for origin in (stage.origin, stage.plain):
        origin.forget()
    gc.collect()


@pytest.mark.parametrize("hole", IN_ORDER)
def test_hole_is_open_in_stock(stock: Subject, hole: str) -> None:
    """So the probe can fail, and the mend is still needed."""
    assert PROBES[hole](stock)


@pytest.mark.parametrize("hole", IN_ORDER)
def test_hole_is_mended(ours: Subject, hole: str) -> None:
    assert not PROBES[hole](ours)


def test_every_hole_has_a_probe() -> None:
    assert [f"N{number}" for number in range(1, 17)] == HOLES
