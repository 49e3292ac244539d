"""`fetchd env` as an operator uses it: what it prints makes a client go through the gateway, trusting its CA."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from fetchd.core.client_environment import VARIABLES, Holds
from tests.e2e.conftest import Installed
from tests.kit import replies
from tests.kit.installed import run_fetchd
from tests.kit.tools import require_tool

PROBE = "import sys, urllib.request as r; print(r.urlopen(sys.argv[1]).read().decode())"


def test_a_shell_that_evaluates_it_fetches_through_the_gateway(installed: Installed) -> None:
    """curl, with nothing said on its command line but the URL."""
    curl = require_tool("curl")
    installed.stage.origin.route("/env", replies.text("through the gate"))
    exports = installed.up.run("env").stdout

    done = subprocess.run(
        ["sh", "-c", f'{exports}\nexec {curl} -sS -D - "$1"', "sh", installed.stage.url("/env")],
        capture_output=True, text=True, check=True, env={"PATH": os.environ["PATH"]},
    )  # fmt: skip

    assert "fetchd-verdict: allowed" in done.stdout.lower()
    assert done.stdout.endswith("through the gate")


def test_its_json_is_an_environment_for_python(installed: Installed) -> None:
    installed.stage.origin.route("/env-python", replies.text("read by python"))
    environment = json.loads(installed.up.run("env", "--format", "json").stdout)

    done = subprocess.run(
        [sys.executable, "-c", PROBE, installed.stage.url("/env-python")],
        capture_output=True, text=True, check=True, env={"PATH": os.environ["PATH"], **environment},
    )  # fmt: skip

    assert done.stdout == "read by python\n"


def test_dotenv_has_a_line_for_each_variable_of_the_table(installed: Installed) -> None:
    lines = installed.up.run("env", "--format", "dotenv", "--listener", "open").stdout.splitlines()

    found = dict(line.split("=", 1) for line in lines)
    assert list(found) == [*(variable.name for variable in VARIABLES), "FETCHD_TOOLS_URL"]
    proxies = {found[variable.name] for variable in VARIABLES if variable.holds is Holds.PROXY}
    assert len(proxies) == 1
    assert proxies != {json.loads(installed.up.run("env", "--format", "json").stdout)["HTTPS_PROXY"]}


def test_an_unknown_listener_is_one_line_naming_those_there_are(installed: Installed) -> None:
    done = installed.up.run("env", "--listener", "nobody")

    assert (done.returncode, done.stderr) == (
        2, "Error: no listener with profile nobody; there is open, test\n",
    )  # fmt: skip


def test_without_a_gateway_it_says_how_to_start_one(tmp_path: Path) -> None:
    done = run_fetchd("env", "--state-dir", str(tmp_path), folder=tmp_path)

    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == f"nothing runs on {tmp_path}; start it with: fetchd up\n"
