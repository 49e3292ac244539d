"""One gateway a test module; every test finds it with nothing on record."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.gateway.expect import forget
from tests.kit.gateway import World


@pytest.fixture(scope="module")
def shared_world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A module's gateway between its clients, origins and DNS."""
    with World(tmp_path_factory.mktemp("world")) as world:
        yield world


@pytest.fixture
def world(shared_world: World) -> World:
    """The module's gateway, with counters at zero. Routes stay: use a path of your own."""
    forget(shared_world)
    return shared_world
