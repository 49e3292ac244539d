"""Files at the top of the repository agree with each other and speak of the product alone."""

from __future__ import annotations

import ast
import importlib.metadata
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator

import pytest

from tests.kit.corpora import REPOSITORY

PYPROJECT = (REPOSITORY / "pyproject.toml").read_text()
PROJECT = tomllib.loads(PYPROJECT)
LOCK = (REPOSITORY / "requirements.lock").read_text()
RUNTIME_LOCK = (REPOSITORY / "config" / "runtime.lock").read_text()
OPTIONAL = [one for extra in PROJECT["project"]["optional-dependencies"].values() for one in extra]
DEPENDENCIES = [*PROJECT["project"]["dependencies"], *OPTIONAL, *PROJECT["dependency-groups"]["dev"]]


def normal_name(requirement: str) -> str:
    """The project name at the start of a requirement, in the normal form of the packaging specifications."""
    found = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert found is not None, requirement
    return re.sub(r"[-_.]+", "-", found.group()).lower()


def locked_requirements() -> Iterator[tuple[str, str]]:
    """(requirement with its marker, all of its lines) for each entry of the lock."""
    for block in re.split(r"\n(?=[A-Za-z0-9])", LOCK):
        if not block.startswith("#"):
            yield block.partition(" \\")[0], block


@pytest.mark.parametrize("dependency", DEPENDENCIES)
def test_each_dependency_is_preceded_by_its_reason(dependency: str) -> None:
    lines = [line.strip() for line in PYPROJECT.splitlines()]
    before = lines[lines.index(f'"{dependency}",') - 1]

    assert re.fullmatch(r"# \S.{10,}", before)


@pytest.mark.parametrize("dependency", DEPENDENCIES)
def test_each_dependency_is_locked(dependency: str) -> None:
    assert normal_name(dependency) in {normal_name(entry) for entry, _ in locked_requirements()}


def third_party_imports() -> dict[str, str]:
    """Top-level name of each module the product imports from outside → one file that does so."""
    ours = {"proxy_addons", "fetchd", "certs"}
    known = ours | sys.stdlib_module_names | {"compression"}  # in the standard library from 3.14
    found: dict[str, str] = {}
    for path in (file for package in ours for file in (REPOSITORY / package).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.level == 0 and node.module is not None:
                names = [node.module]
            found |= {name.partition(".")[0]: str(path.relative_to(REPOSITORY)) for name in names}
    return {name: path for name, path in found.items() if name not in known}


def test_every_import_is_of_a_declared_dependency() -> None:
    declared = {normal_name(dependency) for dependency in [*PROJECT["project"]["dependencies"], *OPTIONAL]}
    homes = importlib.metadata.packages_distributions()
    imports = third_party_imports()
    undeclared = {
        name: path
        for name, path in imports.items()
        if declared.isdisjoint(normal_name(home) for home in homes.get(name, ()))
    }

    assert "can_ada" in imports
    assert undeclared == {}


def test_the_engine_is_pinned_and_the_lock_holds_that_pin() -> None:
    assert [d for d in DEPENDENCIES if d.startswith("mitmproxy")] == ["mitmproxy==12.3.1"]
    assert "mitmproxy==12.3.1" in {entry for entry, _ in locked_requirements()}


def test_each_locked_requirement_is_one_version_with_a_hash() -> None:
    entries = list(locked_requirements())
    loose = [
        entry
        for entry, block in entries
        if not re.match(r"[a-z0-9-]+==\S+( ; .+)?$", entry) or "--hash=sha256:" not in block
    ]

    assert len(entries) > 50
    assert loose == []


@pytest.mark.parametrize("lock", [LOCK, RUNTIME_LOCK], ids=["requirements.lock", "config/runtime.lock"])
def test_the_lock_names_no_address_and_no_host(lock: str) -> None:
    assert re.findall(r"\S*://\S*|^-.*|.*(?:index-url|find-links|trusted-host).*", lock, re.MULTILINE) == []


def test_the_lock_of_installations_is_the_runtime_half_of_the_other() -> None:
    """What an image or an operator gets is what the tests ran with, and no tool of theirs."""
    runtime = set(re.findall(r"^([a-z0-9-]+==\S+)", RUNTIME_LOCK, re.MULTILINE))
    tested = set(re.findall(r"^([a-z0-9-]+==\S+)", LOCK, re.MULTILINE))
    needed = {normal_name(dependency) for dependency in PROJECT["project"]["dependencies"]} | {"setuptools"}
    tools = {"pytest", "mypy", "ruff", "hypothesis", "playwright"}

    assert runtime <= tested
    assert needed <= {pin.partition("==")[0] for pin in runtime}
    assert tools.isdisjoint(pin.partition("==")[0] for pin in runtime)


def test_the_newest_heading_of_the_changelog_is_unreleased_or_this_version() -> None:
    headings = re.findall(r"^## \[([^\]]+)\]", (REPOSITORY / "CHANGELOG.md").read_text(), re.MULTILINE)

    assert headings[0] in {"Unreleased", PROJECT["project"]["version"]}


def test_every_verb_of_the_readme_is_a_target_with_help() -> None:
    makefile = (REPOSITORY / "Makefile").read_text()
    named = set(re.findall(r"\bmake ([a-z]+)\b", "\n".join(readme_commands())))

    assert {"demo", "test"} <= named
    assert named <= set(re.findall(r"^([a-z]+):.*## ", makefile, re.MULTILINE))


def readme_commands() -> Iterator[str]:
    """Lines inside code fences of the README."""
    for fence in re.findall(
        r"^```\w*\n(.*?)^```", (REPOSITORY / "README.md").read_text(), re.MULTILINE | re.DOTALL
    ):
        yield from fence.splitlines()


MACHINE_PATHS = re.compile(
    rb"""(?<![\w.$}~*/-])
    /(?: root | work | home/[a-z][\w-]* | Users/\w+ ) (?=/)     # somebody's folders
    """,
    re.VERBOSE,
)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        pytest.param(b"see /" + b"root/.cache", True, id="a home"),
        pytest.param(b'"/' + b'work/main"', True, id="a checkout"),
        pytest.param(b"/" + b"home/alice/x", True, id="a user's folder"),
        pytest.param(b"https://host.example/" + b"work/x", False, id="the path of a URL"),
        pytest.param(b"$HOME/" + b"work/x", False, id="a path below a variable"),
        pytest.param(b"/usr/bin/env", False, id="a path every machine has"),
    ],
)
def test_the_search_for_machine_paths(text: bytes, found: bool) -> None:
    assert bool(MACHINE_PATHS.search(text)) is found


def test_no_tracked_file_names_a_path_of_one_machine() -> None:
    listed = subprocess.run(
        ["git", "-C", str(REPOSITORY), "ls-files", "-z"], capture_output=True, check=True
    ).stdout
    files = [REPOSITORY / name.decode() for name in listed.split(b"\0") if name]
    texts = ((path, path.read_bytes()) for path in files if path.is_file() and "fixtures" not in path.parts)

    assert len(files) > 10
    assert [str(path.relative_to(REPOSITORY)) for path, text in texts if MACHINE_PATHS.search(text)] == []
