"""The ground: which Python is found, what a test sees of the machine, what a missing tool does."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kit.corpora import REPOSITORY, corpora_root
from tests.kit.tools import require_tool

FIND_PYTHON = REPOSITORY / ".ci" / "find-python"
SH = shutil.which("sh") or "/bin/sh"

GOOD = '#!/bin/sh\necho "$0"\n'
"""Answers the probe as an interpreter that will do does: with its own path."""
OLD = "#!/bin/sh\nexit 1\n"
"""Answers the probe as an interpreter that is too old, or that cannot make an environment, does."""
INACTIVE = '#!/bin/sh\necho "pyenv: $0: command not found" >&2\nexit 127\n'
"""A pyenv shim of a version that is installed and not active."""


class Machine:
    """A made-up machine: a bin folder that is the whole PATH, and a home with pyenv's versions."""

    def __init__(self, root: Path) -> None:
        self.bin = root / "bin"
        self.home = root / "home"
        self.bin.mkdir()
        self.home.mkdir()
        for tool in ("ls", "sort"):
            (self.bin / tool).symlink_to(require_tool(tool))

    def install(self, path: Path, script: str) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(script)
        path.chmod(0o755)
        return path

    def on_path(self, name: str, script: str) -> Path:
        return self.install(self.bin / name, script)

    def in_pyenv(self, version: str, script: str) -> Path:
        return self.install(self.home / ".pyenv" / "versions" / version / "bin" / "python", script)

    def find_python(self, **environment: str) -> subprocess.CompletedProcess[str]:
        environment = {"PATH": str(self.bin), "HOME": str(self.home), **environment}
        return subprocess.run(
            [SH, str(FIND_PYTHON)], env=environment, capture_output=True, text=True, check=False
        )


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_only_an_old_python_is_one_clear_line_and_exit_1(machine: Machine) -> None:
    machine.on_path("python3", OLD)
    machine.in_pyenv("3.12.1", OLD)

    result = machine.find_python()

    assert result.returncode == 1
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    assert "no Python 3.12 or newer" in result.stderr
    assert "PYTHON=/path" in result.stderr


def test_no_python_and_no_home_is_the_same_line(machine: Machine) -> None:
    result = machine.find_python(HOME="")

    assert (result.returncode, result.stdout, result.stderr.count("\n")) == (1, "", 1)


def test_newer_names_on_path_come_before_python3(machine: Machine) -> None:
    machine.on_path("python3", GOOD)
    machine.on_path("python3.12", GOOD)
    wanted = machine.on_path("python3.13", GOOD)

    assert machine.find_python().stdout == f"{wanted}\n"


def test_a_shim_that_is_inactive_is_passed_over_for_the_version_behind_it(machine: Machine) -> None:
    machine.on_path("python3.13", INACTIVE)
    machine.on_path("python3", OLD)
    wanted = machine.in_pyenv("3.13.0", GOOD)

    result = machine.find_python()

    assert (result.returncode, result.stdout, result.stderr) == (0, f"{wanted}\n", "")


def test_pyenv_versions_are_tried_newest_first_by_number_not_by_letter(machine: Machine) -> None:
    machine.in_pyenv("3.11.7", GOOD)
    machine.in_pyenv("3.12.1", GOOD)
    machine.in_pyenv("3.12.9", GOOD)
    machine.in_pyenv("3.13.0", OLD)
    wanted = machine.in_pyenv("3.12.10", GOOD)

    assert machine.find_python().stdout == f"{wanted}\n"


def test_pyenv_may_live_elsewhere(machine: Machine, tmp_path: Path) -> None:
    wanted = machine.install(tmp_path / "else where" / "versions" / "3.12.1" / "bin" / "python", GOOD)

    assert machine.find_python(PYENV_ROOT=str(tmp_path / "else where")).stdout == f"{wanted}\n"


def test_a_named_python_comes_first(machine: Machine, tmp_path: Path) -> None:
    machine.on_path("python3.14", GOOD)
    wanted = machine.install(tmp_path / "my python", GOOD)

    assert machine.find_python(PYTHON=str(wanted)).stdout == f"{wanted}\n"


def test_a_named_python_that_will_not_do_is_said_and_passed_over(machine: Machine, tmp_path: Path) -> None:
    wanted = machine.on_path("python3.12", GOOD)
    named = machine.install(tmp_path / "mine", OLD)

    result = machine.find_python(PYTHON=str(named))

    assert result.stdout == f"{wanted}\n"
    assert str(named) in result.stderr


def test_the_probe_accepts_this_interpreter_and_answers_with_its_base() -> None:
    result = subprocess.run(
        [SH, str(FIND_PYTHON)],
        env={**os.environ, "PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=True,
    )

    assert Path(result.stdout.strip()).resolve() == Path(sys.executable).resolve()
    assert not result.stdout.startswith(sys.prefix + os.sep) or sys.prefix == sys.base_prefix


def run_pytest(tmp_path: Path, body: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """One test file under our conftest and settings, in a process of its own."""
    shutil.copy(REPOSITORY / "tests" / "conftest.py", tmp_path / "conftest.py")
    (tmp_path / "test_inner.py").write_text(body)
    command = [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider"]
    command += [f"--config-file={REPOSITORY / 'pyproject.toml'}", f"--rootdir={tmp_path}", str(tmp_path)]
    return subprocess.run(
        command,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_no_setting_of_the_machine_reaches_a_test(tmp_path: Path) -> None:
    names = ("HTTPS_PROXY", "no_proxy", "SSL_CERT_FILE", "RES_OPTIONS", "FETCHD_STATE", "FETCHD_CORPORA")
    body = "import os\ndef test_it():\n"
    body += f"    assert [n for n in {names!r} if n in os.environ] == ['FETCHD_CORPORA']\n"

    result = run_pytest(tmp_path, body, **dict.fromkeys(names, "set by the machine"))

    assert result.returncode == 0, result.stdout


@pytest.mark.parametrize(
    ("require", "outcome"),
    [
        pytest.param("0", "1 skipped", id="a missing tool is one skip line"),
        pytest.param("1", "1 failed", id="a missing tool fails where tools are required"),
    ],
)
@pytest.mark.parametrize(
    "call",
    [
        pytest.param("tools import require_tool as f; f('no-such-program')", id="a program"),
        pytest.param("corpora import corpora as f; f('no-such-corpus')", id="a corpus"),
    ],
)
def test_a_missing_piece(tmp_path: Path, call: str, require: str, outcome: str) -> None:
    result = run_pytest(
        tmp_path, f"def test_it():\n    from tests.kit.{call}\n", FETCHD_REQUIRE_TOOLS=require
    )

    assert outcome in result.stdout.splitlines()[-1]
    assert "no-such-" in result.stdout


def test_a_missing_corpus_named_while_a_module_loads_skips_it(tmp_path: Path) -> None:
    body = "from tests.kit.corpora import corpora\nDATA = corpora('no-such-corpus')\ndef test_it(): pass\n"

    result = run_pytest(tmp_path, body, FETCHD_REQUIRE_TOOLS="0")

    assert "1 skipped" in result.stdout.splitlines()[-1]


@pytest.mark.parametrize(
    ("soak", "outcome"),
    [
        pytest.param("0", "1 skipped", id="a soak test waits to be asked for"),
        pytest.param("1", "1 passed", id="make soak runs it"),
    ],
)
def test_soak(tmp_path: Path, soak: str, outcome: str) -> None:
    body = "import pytest\n@pytest.mark.soak\ndef test_it(): pass\n"

    result = run_pytest(tmp_path, body, FETCHD_SOAK=soak)

    assert outcome in result.stdout.splitlines()[-1]


def test_corpora_lie_where_the_environment_says_else_beside_the_checkout(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("FETCHD_CORPORA", str(tmp_path))
    assert corpora_root() == tmp_path

    monkeypatch.delenv("FETCHD_CORPORA")
    assert corpora_root() == REPOSITORY.parent / "shared" / "corpora"
