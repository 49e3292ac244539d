"""`fetchd env` as an operator uses it: what it prints makes a client go through the gateway, trusting its CA."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

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


def test_for_clients_elsewhere_it_has_their_way_to_this_machine_and_their_path_of_the_authority(
    installed: Installed,
) -> None:
    """And the tools, which are at the same host, are not asked through the gateway."""
    done = installed.up.run("env", "--format", "json", "--host", "172.31.231.2", "--ca", "/ca/ca.pem")
    found = json.loads(done.stdout)

    gateway, tools = installed.up.gateway[1], installed.up.tools[1]
    assert found["HTTPS_PROXY"] == f"http://172.31.231.2:{gateway}"
    assert found["FETCHD_TOOLS_URL"] == f"http://172.31.231.2:{tools}"
    assert found["NO_PROXY"] == "localhost,127.0.0.1,::1,172.31.231.2"
    assert (found["SSL_CERT_FILE"], found["WGETRC"]) == ("/ca/ca.pem", "/ca/wgetrc")
    assert "-Dhttp.nonProxyHosts=localhost|127.*|[::1]|172.31.231.2" in found["JAVA_TOOL_OPTIONS"]


@pytest.mark.parametrize(
    ("host", "shown"),
    [
        pytest.param("gateway", "http://gateway:", id="a name"),
        pytest.param("fd00::2", "http://[fd00::2]:", id="an IPv6 address"),
    ],
)
def test_a_host_elsewhere_may_be_a_name_or_an_address(installed: Installed, host: str, shown: str) -> None:
    found = json.loads(installed.up.run("env", "--format", "json", "--host", host).stdout)

    assert found["HTTPS_PROXY"].startswith(shown)
    assert found["FETCHD_TOOLS_URL"].startswith(shown)


@pytest.mark.parametrize("host", ["", "a b", "a/b", "user@a", "[::1]", "a:3128", "a;reboot", "-x"])
def test_what_is_no_host_is_one_line_that_says_what_to_write(installed: Installed, host: str) -> None:
    done = installed.up.run("env", f"--host={host}")

    assert (done.returncode, done.stdout) == (2, "")
    assert "write a name, or an address without port and brackets" in done.stderr
