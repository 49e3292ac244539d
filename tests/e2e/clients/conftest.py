"""One gateway for all of these tests, with an agent for each shipped profile; each test has a home of its own.

Clients know their gateway by what `fetchd agent add` printed: their name and token stand in the proxy's URL.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.clients.agent import Agent, add_agent, print_environment
from tests.e2e.clients.stage import ClientStage
from tests.kit.installed import Up

Agents = Callable[[str], Agent]


@pytest.fixture(scope="package")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ClientStage, Up]]:
    folder = tmp_path_factory.mktemp("clients")
    with ClientStage(folder) as stage, Up(folder, "--config", str(stage.config)) as up:
        yield stage, up


@pytest.fixture(scope="package")
def environment_of(served: tuple[ClientStage, Up]) -> Callable[[str], dict[str, str]]:
    """What a new agent under a profile is given; made once."""
    return functools.cache(functools.partial(add_agent, served[1]))


@pytest.fixture(scope="package")
def nameless_environment_of(served: tuple[ClientStage, Up]) -> Callable[[str], dict[str, str]]:
    """What `fetchd env` prints for the listener of a profile, for clients that take no password from a URL."""
    return functools.cache(functools.partial(print_environment, served[1]))


@pytest.fixture
def agent_under(
    served: tuple[ClientStage, Up], environment_of: Callable[[str], dict[str, str]], tmp_path: Path
) -> Agents:
    """An agent in this test's own home, at the listener of a profile. Routes stay: use a path of your own."""
    stage, up = served
    stage.forget()

    def agent_under(profile: str) -> Agent:
        return Agent(stage, up, profile, tmp_path, environment_of(profile))

    return agent_under


@pytest.fixture
def reader(agent_under: Agents) -> Agent:
    """An agent under `research`."""
    return agent_under("research")


@pytest.fixture
def coder(agent_under: Agents) -> Agent:
    """An agent under `coding`."""
    return agent_under("coding")


@pytest.fixture
def nameless_coder(
    served: tuple[ClientStage, Up], nameless_environment_of: Callable[[str], dict[str, str]], tmp_path: Path
) -> Agent:
    """One under `coding` by its listener, for clients of Java: their options take no password."""
    stage, up = served
    stage.forget()
    return Agent(stage, up, "coding", tmp_path, nameless_environment_of("coding"))


@pytest.fixture
def prompter(agent_under: Agents) -> Agent:
    """An agent under `llm-only`."""
    return agent_under("llm-only")
