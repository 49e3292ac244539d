"""config/Dockerfile and config/compose.yaml: each passes its own validator, and holds what the guide says of it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import netaddr
import pytest
import yaml

from fetchd.core.client_environment import VARIABLES, client_environment
from fetchd.settings import load_config
from tests.kit.corpora import REPOSITORY

CONFIG = REPOSITORY / "config"
COMPOSE: dict[str, Any] = yaml.safe_load((CONFIG / "compose.yaml").read_text("utf-8"))
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
DOCKERFILE = (CONFIG / "Dockerfile").read_text("utf-8")
COMMANDS = re.sub(r"\\\n\s*", "", re.sub(r"(?m)^#.*\n", "", DOCKERFILE)).splitlines()
STATE = "/var/lib/fetchd"


def run_tool(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A program of this Python environment."""
    program = Path(sys.executable).with_name(name)
    return subprocess.run([program, *arguments], capture_output=True, text=True, check=False)


def mounts(service: str) -> dict[str, tuple[str, str]]:
    """Where → (what, how) of a service's volumes."""
    found = (volume.split(":") for volume in SERVICES[service].get("volumes", []))
    return {where: (what, rest[0] if rest else "rw") for what, where, *rest in found}


# -- compose


def test_the_compose_file_is_valid_by_the_published_schema() -> None:
    done = run_tool(
        "check-jsonschema", "--builtin-schema", "vendor.compose-spec", str(CONFIG / "compose.yaml")
    )

    assert (done.returncode, done.stdout) == (0, "ok -- validation done\n"), done.stdout


def test_the_schema_would_find_a_misspelt_key(tmp_path: Path) -> None:
    wrong = tmp_path / "compose.yaml"
    wrong.write_text((CONFIG / "compose.yaml").read_text("utf-8").replace("networks:", "network:"), "utf-8")

    assert run_tool("check-jsonschema", "--builtin-schema", "vendor.compose-spec", str(wrong)).returncode == 1


def test_the_agents_only_network_leads_nowhere_but_to_the_gateway() -> None:
    inside = [name for name, service in SERVICES.items() if "agents" in service.get("networks", ())]

    assert list(SERVICES["agent"]["networks"]) == ["agents"]
    assert COMPOSE["networks"]["agents"]["internal"] is True
    assert inside == ["gateway", "agent"]
    assert [name for name, service in SERVICES.items() if "outside" in service.get("networks", ())] == [
        "gateway"
    ]


def test_no_service_publishes_a_port_or_shares_the_hosts_network() -> None:
    forbidden = {"ports", "privileged", "cap_add", "devices", "pid", "ipc", "extra_hosts", "links"}

    assert [name for name, service in SERVICES.items() if forbidden & set(service)] == []
    assert {name: service.get("network_mode") for name, service in SERVICES.items()} == {
        "gateway": None, "authority": "none", "agent": None,
    }  # fmt: skip


@pytest.mark.parametrize("name", list(SERVICES))
def test_every_service_is_locked_down(name: str) -> None:
    service = SERVICES[name]

    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["read_only"] is True
    if name != "gateway":  # whose image says it; others' images may have root
        assert not service["user"].startswith(("0", "root"))


@pytest.mark.parametrize("name", ["gateway", "agent"])
def test_what_goes_on_running_cannot_use_up_the_host(name: str) -> None:
    """Memory, processes, and what is written to memory as files."""
    service = SERVICES[name]

    assert service["mem_limit"] and service["pids_limit"] > 0
    assert all("size=" in mounted for mounted in service["tmpfs"])


def test_an_agent_sees_the_authority_read_only_and_nothing_else_of_the_state() -> None:
    assert mounts("agent") == {"/ca": ("authority", "ro")}
    assert mounts("authority")[STATE] == ("state", "ro")
    assert mounts("gateway")[STATE] == ("state", "rw")


def test_an_agents_environment_is_what_env_prints() -> None:
    gateway = SERVICES["gateway"]["networks"]["agents"]["ipv4_address"]
    expected = dict(client_environment(f"http://{gateway}:3128", "/ca/ca.pem", gateway))
    # Java's has a path and a port of its own; agents that need it take it from fetchd env.
    expected.pop("JAVA_TOOL_OPTIONS")

    assert SERVICES["agent"]["environment"] == {**expected, "FETCHD_TOOLS_URL": f"http://{gateway}:3129"}


def test_the_configuration_knows_the_agent_by_its_address_and_nobody_else_of_the_network() -> None:
    loaded = load_config(CONFIG / "compose.toml", {})
    (bot,) = loaded.config.agents.values()
    (network,) = COMPOSE["networks"]["agents"]["ipam"]["config"]
    subnet = netaddr.IPNetwork(network["subnet"])
    sources = netaddr.IPSet(str(source) for source in bot.sources)
    addresses = {name: SERVICES[name]["networks"]["agents"]["ipv4_address"] for name in ("gateway", "agent")}

    assert addresses["agent"] in sources
    assert addresses["gateway"] not in sources
    assert all(address in subnet for address in addresses.values())
    assert sources.issubset(netaddr.IPSet([subnet]))
    assert loaded.config.operator.endpoint.host == "127.0.0.1"
    assert loaded.config.audit.stdout and loaded.config.audit.keep_bytes
    assert SERVICES["gateway"]["logging"]["options"]["max-size"]


def test_health_is_asked_alike_in_the_image_and_in_compose() -> None:
    command = next(one for one in COMMANDS if one.startswith("HEALTHCHECK ")).partition(" CMD ")[2]
    asked = SERVICES["gateway"]["healthcheck"]

    assert asked["test"] == ["CMD", *yaml.safe_load(command)]
    assert SERVICES["authority"]["depends_on"] == {"gateway": {"condition": "service_healthy"}}


# -- the image


def test_hadolint_finds_nothing_in_the_dockerfile() -> None:
    done = run_tool("hadolint", str(CONFIG / "Dockerfile"))

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_hadolint_would_find_something(tmp_path: Path) -> None:
    wrong = tmp_path / "Dockerfile"
    wrong.write_text(DOCKERFILE.replace("WORKDIR /source", "WORKDIR source"), "utf-8")

    assert "DL3000" in run_tool("hadolint", str(wrong)).stdout


def test_the_image_runs_as_a_number_that_is_not_root() -> None:
    users = [command.split()[1] for command in COMMANDS if command.startswith("USER ")]

    assert users == ["10001:10001"]
    assert COMMANDS.index("USER 10001:10001") > max(
        index for index, command in enumerate(COMMANDS) if command.startswith(("RUN", "COPY"))
    )


def test_what_goes_into_the_image_is_pinned_and_named() -> None:
    """The base by a tag, all of Python's packages by digest, and only files that the build may see."""
    seen = {
        line[1:]
        for line in (CONFIG / "Dockerfile.dockerignore").read_text("utf-8").splitlines()
        if line[:1] == "!"
    }
    copied = [
        source
        for command in COMMANDS
        if command.startswith("COPY ") and "--from" not in command
        for source in command.split()[1:-1]
    ]
    installs = [command for command in COMMANDS if "pip install" in command]

    assert set(copied) == seen
    assert [source for source in copied if not (REPOSITORY / source).exists()] == []
    assert [command for command in COMMANDS if command.startswith("FROM ")] == [
        "FROM ${PYTHON_IMAGE} AS build", "FROM ${PYTHON_IMAGE}",
    ]  # fmt: skip
    assert len(installs) == 2
    assert all("--require-hashes" in command or "--no-index" in command for command in installs)


def test_no_file_of_an_image_or_of_compose_holds_a_secret_or_names_a_registry() -> None:
    for path in (CONFIG / "Dockerfile", CONFIG / "compose.yaml", *(CONFIG / "kubernetes").iterdir()):
        text = path.read_text("utf-8")
        assert re.findall(r"fetchd\.[a-z][a-z0-9_-]*\.[A-Za-z0-9_-]{20,}|PRIVATE KEY", text) == []
        assert re.findall(r"(?:image: |PYTHON_IMAGE=)[\w-]+\.[\w.-]+/\S+", text) == []


def test_the_environment_of_every_client_is_in_the_table() -> None:
    """A variable added to the table is a variable that these files have to get."""
    assert {variable.name for variable in VARIABLES} - set(SERVICES["agent"]["environment"]) == {
        "JAVA_TOOL_OPTIONS"
    }
