"""Package managers under the coding profile: a tiny package installed, and a refused index."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.clients import sites
from tests.e2e.clients.agent import Agent, Done
from tests.e2e.clients.stage import DENIED, ClientStage, stand_in
from tests.kit.tools import require_tool

PYPI, FILES = stand_in("pypi.org"), stand_in("files.pythonhosted.org")
NPM = stand_in("registry.npmjs.org")
CRATES_INDEX, CRATES = stand_in("index.crates.io"), stand_in("static.crates.io")
MAVEN = stand_in("repo.maven.apache.org")
PACKAGE = sites.PACKAGE
NOT_ALLOWED = f"host not allowed: {DENIED}"
Install = Callable[..., Done]
"""Of agent, host of the index, and options of the program."""


@pytest.fixture(scope="module", autouse=True)
def _registries(served: tuple[ClientStage, object]) -> None:
    stage = served[0]
    sites.serve_python_index(stage.origin, stage.url("", FILES))
    sites.serve_npm_registry(stage.origin, stage.url("", NPM))
    sites.serve_crates(stage.origin, stage.url("", CRATES))
    sites.serve_maven(stage.origin)


# -- pip and uv


def pip_install(agent: Agent, host: str, *options: str) -> Done:
    """pip as the Python of these tests has it; PIP_CONFIG_FILE keeps the machine's settings out."""
    index = agent.stage.url("/simple/", host)
    return agent.run(
        sys.executable, "-m", "pip", *options, "install", "--no-cache-dir", "--disable-pip-version-check",
        "--root-user-action=ignore", "--target", "packages", "--index-url", index, PACKAGE,
        PIP_CONFIG_FILE=os.devnull,
    )  # fmt: skip


def uv_install(agent: Agent, host: str, *options: str) -> Done:
    return agent.run(
        Path(sys.executable).with_name("uv"), *options, "--no-config", "pip", "install", "--no-cache",
        "--python", sys.executable, "--target", "packages",
        "--default-index", agent.stage.url("/simple/", host), PACKAGE,
    )  # fmt: skip


@pytest.mark.parametrize("install", [pip_install, uv_install])
def test_a_wheel_is_installed(coder: Agent, install: Install) -> None:
    done = install(coder, PYPI)

    assert done.returncode == 0, done.stderr
    module = (coder.home / "packages" / f"{PACKAGE}.py").read_text()
    assert module == "HELLO = 'hello from the wheel'\n"


@pytest.mark.parametrize(
    ("install", "options", "status", "words"),
    [
        pytest.param(pip_install, (), 1, "No matching distribution found for tiny", id="pip says nothing of it"),
        pytest.param(pip_install, ("-vv",), 1, f"403 Client Error: {NOT_ALLOWED} for url", id="pip -vv says why"),
        pytest.param(uv_install, (), 1, "returned a 403 Forbidden error", id="uv says the status"),
    ],
)  # fmt: skip
def test_a_refused_index(
    coder: Agent, install: Install, options: tuple[str, ...], status: int, words: str
) -> None:
    done = install(coder, DENIED, *options)

    assert done.returncode == status
    assert words in done.stdout + done.stderr
    assert set(coder.rules(f"{DENIED}:{coder.stage.origin.port}/simple/{PACKAGE}/")) == {"host"}


# -- npm


def npm_install(agent: Agent, host: str) -> Done:
    return agent.run(
        require_tool("npm"), "install", "--audit", "--no-update-notifier",
        "--registry", agent.stage.url("/", host), PACKAGE,
    )  # fmt: skip


def test_npm_installs_a_package_and_asks_for_its_audit(coder: Agent) -> None:

    done = npm_install(coder, NPM)

    assert done.returncode == 0, done.stderr
    assert (coder.home / "node_modules" / PACKAGE / "index.js").exists()
    (audit,) = [r for r in coder.stage.requests if r.method == "POST"]
    assert audit.path == "/-/npm/v1/security/advisories/bulk"
    assert audit.values("content-encoding") == ["gzip"]


def test_npm_says_why_a_registry_is_refused(coder: Agent) -> None:
    done = npm_install(coder, DENIED)

    assert done.returncode == 1
    assert f"403 {NOT_ALLOWED} - GET {coder.stage.url('/', DENIED)}{PACKAGE}" in done.stderr


# -- cargo and Maven, where they are installed


def find_toolchain() -> dict[str, str]:
    """What cargo needs to know of a toolchain that rustup keeps in the user's home; skips without one."""
    if shutil.which("cargo") is None:
        pytest.skip("cargo is not installed")
    if shutil.which("rustup") is None:
        return {}
    home = os.environ.get("RUSTUP_HOME", str(Path.home() / ".rustup"))
    found = subprocess.run(["rustup", "toolchain", "list"], capture_output=True, text=True, check=False)
    if not found.stdout.strip() or "no installed" in found.stdout:
        pytest.skip("rustup has no toolchain")
    return {"RUSTUP_HOME": home, "RUSTUP_TOOLCHAIN": found.stdout.split()[0]}


def cargo_fetch(agent: Agent, host: str) -> Done:
    toolchain = find_toolchain()
    (agent.home / "src").mkdir()
    (agent.home / "src" / "lib.rs").touch()
    (agent.home / "Cargo.toml").write_text(
        f'[package]\nname = "mine"\nversion = "0.1.0"\nedition = "2021"\n[dependencies]\n{PACKAGE} = "1"\n'
    )
    (agent.home / ".cargo").mkdir()
    (agent.home / ".cargo" / "config.toml").write_text(
        '[source.crates-io]\nreplace-with = "other"\n'
        f'[source.other]\nregistry = "sparse+{agent.stage.url("/index/", host)}"\n'
    )
    return agent.run("cargo", "fetch", **toolchain)


def test_cargo_fetches_a_crate(coder: Agent) -> None:
    done = cargo_fetch(coder, CRATES_INDEX)

    assert done.returncode == 0, done.stderr
    assert f"Downloaded {PACKAGE} v{sites.VERSION}" in done.stderr


def test_cargo_shows_the_whole_refusal(coder: Agent) -> None:
    done = cargo_fetch(coder, DENIED)

    assert done.returncode == 101
    assert f'"detail": "{NOT_ALLOWED}"' in done.stderr


def maven_validate(agent: Agent, host: str) -> Done:
    """A project whose parent is in a repository: Maven itself needs no more than that."""
    if shutil.which("mvn") is None:
        pytest.skip("Maven is not installed")
    (agent.home / "pom.xml").write_text(
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        f"<parent><groupId>example</groupId><artifactId>{PACKAGE}</artifactId>"
        f"<version>{sites.VERSION}</version><relativePath/></parent>"
        "<artifactId>mine</artifactId><packaging>pom</packaging><repositories><repository><id>central</id>"
        f"<url>{agent.stage.url('/maven2', host)}</url></repository></repositories></project>"
    )
    # Its repository would be found by the user's entry in the password file, not by HOME.
    return agent.run("mvn", "-B", "-ntp", f"-Dmaven.repo.local={agent.home}/m2", "validate")


def test_maven_gets_a_parent_project(nameless_coder: Agent) -> None:
    done = maven_validate(nameless_coder, MAVEN)

    assert done.returncode == 0, done.stdout
    assert list((nameless_coder.home / "m2").rglob(f"{PACKAGE}-{sites.VERSION}.pom"))


def test_maven_says_why_a_repository_is_refused(nameless_coder: Agent) -> None:
    done = maven_validate(nameless_coder, DENIED)

    assert done.returncode == 1
    assert f"status: 403 {NOT_ALLOWED}" in done.stdout
