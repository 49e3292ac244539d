"""One installation for all of these tests; each finds it with nothing on record."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.e2e.stage import Reply, Stage, post_json
from tests.kit.installed import Up


@dataclass(frozen=True, slots=True)
class Installed:
    """A stage and the `fetchd up` on it."""

    stage: Stage
    up: Up

    def web_fetch(self, url: str, **arguments: object) -> Reply:
        """The tool, by its HTTP API."""
        return post_json(self.up.tools, "/v1/tools/web_fetch", {"url": url, **arguments})


@pytest.fixture(scope="package")
def shared_installation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    folder = tmp_path_factory.mktemp("installed")
    with Stage(folder) as stage, Up(folder, "--config", str(stage.config)) as up:
        yield Installed(stage, up)


@pytest.fixture
def installed(shared_installation: Installed) -> Installed:
    """The one installation. Routes stay: use a path of your own."""
    shared_installation.stage.forget()
    return shared_installation
