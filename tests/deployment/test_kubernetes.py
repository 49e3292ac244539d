"""config/kubernetes: valid by the published schemas, strictly, and an agent is let out to the gateway alone."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from fetchd.core.client_environment import client_environment
from fetchd.settings import load_config
from tests.kit.corpora import REPOSITORY

FOLDER = REPOSITORY / "config" / "kubernetes"
FILES = sorted(FOLDER.glob("*.yaml"))
OBJECTS: list[dict[str, Any]] = [one for file in FILES for one in yaml.safe_load_all(file.read_text("utf-8"))]
VERSIONS = ["1.30", "1.37"]
"""Old and new; what stands between agrees with both."""
VERSION = tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))["project"]["version"]


def find(kind: str, name: str) -> dict[str, Any]:
    (found,) = (one for one in OBJECTS if (one["kind"], one["metadata"]["name"]) == (kind, name))
    return found


def pod(name: str) -> dict[str, Any]:
    """The pod's spec of a deployment."""
    return find("Deployment", name)["spec"]["template"]["spec"]


def labels(name: str) -> dict[str, str]:
    return find("Deployment", name)["spec"]["template"]["metadata"]["labels"]


def validate(*files: Path, version: str) -> subprocess.CompletedProcess[str]:
    program = Path(sys.executable).with_name("kubernetes-validate")
    return subprocess.run(
        [program, "--strict", "--quiet", "-k", version, *files], capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_every_manifest_is_valid_by_the_published_schemas(version: str) -> None:
    done = validate(*FILES, version=version)

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_schemas_would_find_a_misspelt_key(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.yaml"
    text = (FOLDER / "20-network-policies.yaml").read_text("utf-8")
    wrong.write_text(text.replace("policyTypes", "policyKinds"), "utf-8")

    assert validate(wrong, version=VERSIONS[-1]).returncode != 0


# -- who reaches whom


def allowed_egress(pod_labels: dict[str, str]) -> list[tuple[Any, list[tuple[str, int]]]]:
    """What the policies that select a pod let it reach: (peers, ports). Nothing more, once one of them selects it."""
    rules = []
    for policy in (one for one in OBJECTS if one["kind"] == "NetworkPolicy"):
        wanted = policy["spec"]["podSelector"].get("matchLabels", {})
        if wanted.items() <= pod_labels.items() and "Egress" in policy["spec"]["policyTypes"]:
            rules += policy["spec"].get("egress", [])
    return [(rule["to"], [(port["protocol"], port["port"]) for port in rule["ports"]]) for rule in rules]


def allowed_ingress(pod_labels: dict[str, str]) -> list[tuple[Any, list[tuple[str, int]]]]:
    rules = []
    for policy in (one for one in OBJECTS if one["kind"] == "NetworkPolicy"):
        wanted = policy["spec"]["podSelector"].get("matchLabels", {})
        if wanted.items() <= pod_labels.items() and "Ingress" in policy["spec"]["policyTypes"]:
            rules += policy["spec"].get("ingress", [])
    return [(rule["from"], [(port["protocol"], port["port"]) for port in rule["ports"]]) for rule in rules]


GATEWAY_POD = {"podSelector": {"matchLabels": {"app.kubernetes.io/name": "fetchd"}}}
AGENT_POD = {"podSelector": {"matchLabels": {"role": "agent"}}}
DOORS = [("TCP", 3128), ("TCP", 3129)]


def test_whoever_has_no_policy_of_its_own_reaches_nobody() -> None:
    assert find("NetworkPolicy", "default-deny")["spec"] == {
        "podSelector": {}, "policyTypes": ["Ingress", "Egress"],
    }  # fmt: skip
    assert allowed_egress({"app": "something else"}) == []
    assert allowed_ingress({"app": "something else"}) == []


def test_an_agent_reaches_the_gateway_and_the_tools_and_no_resolver() -> None:
    assert allowed_egress(labels("bot")) == [([GATEWAY_POD], DOORS)]
    assert allowed_ingress(labels("bot")) == []


def test_the_gateway_takes_agents_in_and_shows_nobody_the_operators_listener() -> None:
    assert allowed_ingress(labels("fetchd")) == [([AGENT_POD], DOORS)]
    assert [port["port"] for port in find("Service", "egress")["spec"]["ports"]] == [3128, 3129]


def test_the_gateway_reaches_dns_and_the_public_network_alone() -> None:
    (dns, dns_ports), (blocks, ports) = allowed_egress(labels("fetchd"))

    assert dns_ports == [("UDP", 53), ("TCP", 53)]
    assert dns[0]["podSelector"] == {"matchLabels": {"k8s-app": "kube-dns"}}
    assert ports == [("TCP", 80), ("TCP", 443)]
    assert {"10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16"} <= set(
        blocks[0]["ipBlock"]["except"]
    )


# -- the pods


@pytest.mark.parametrize("name", ["fetchd", "bot"])
def test_no_pod_has_a_privilege_or_a_token_of_the_cluster(name: str) -> None:
    spec = pod(name)
    (container,) = spec["containers"]

    assert spec["automountServiceAccountToken"] is False
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]},
    }  # fmt: skip
    assert container["resources"]["limits"]["memory"]


def test_the_image_is_the_version_of_this_repository() -> None:
    assert pod("fetchd")["containers"][0]["image"] == f"fetchd:{VERSION}"


def test_an_agents_environment_is_what_env_prints() -> None:
    host = "$(EGRESS_SERVICE_HOST)"
    (container,) = pod("bot")["containers"]
    found = {one["name"]: one.get("value") for one in container["env"]}
    token = found.pop("FETCHD_TOKEN", "missing")
    proxy = f"http://bot:$(FETCHD_TOKEN)@{host}:3128"
    expected = dict(client_environment(proxy, "/ca/ca.pem", host))
    expected.pop("JAVA_TOOL_OPTIONS")
    expected |= {
        "https_proxy": "$(HTTPS_PROXY)", "HTTP_PROXY": "$(HTTPS_PROXY)", "http_proxy": "$(HTTPS_PROXY)",
        "no_proxy": "$(NO_PROXY)", "FETCHD_TOOLS_URL": f"http://{host}:3129",
    }  # fmt: skip

    assert token is None, "the token comes from a Secret"
    assert found == expected
    assert pod("bot").get("dnsPolicy") == "None"


def test_the_configuration_is_valid_and_its_agent_shut_out_until_it_has_a_token(tmp_path: Path) -> None:
    path = tmp_path / "fetchd.toml"
    path.write_text(find("ConfigMap", "fetchd")["data"]["fetchd.toml"], "utf-8")
    loaded = load_config(path, {})

    assert loaded.config.agents["bot"].token_sha256 == "0" * 64
    assert loaded.config.operator.endpoint.host == "127.0.0.1"
    claim = find("PersistentVolumeClaim", "fetchd-state")["spec"]["resources"]["requests"]["storage"]
    assert loaded.config.audit.stdout and loaded.config.audit.keep_bytes
    assert (
        loaded.config.audit.keep_bytes + loaded.config.store_max_bytes < int(claim.removesuffix("Gi")) << 30
    )
