"""`fetchd config check`, `profile list` and `show`: what a configuration says, in effect."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from fetchd.faces.config_cli import config_group, profile_group
from proxy_addons.policy.config import parse_config, render_profile
from proxy_addons.policy.limits import DEFAULT_PROFILE
from tests.kit.corpora import REPOSITORY

FILE = """
gateway.listeners = [{ address = "127.0.0.1:3128" }, { address = "[::1]:3128", profile = "web" }]
gateway.workers = 2
dns.nameservers = ["127.0.0.1:5353", "[::1]"]
[profiles.web]
schemes = ["https", "http"]
allow_hosts = ["docs.rs", "*.docs.rs"]
deny_hosts = ["ads.docs.rs"]
total_timeout = 0.5
exceptions = [{ host = "wiki.docs.rs", address = "10.0.0.7", port = 443 }]
"""


@pytest.fixture(autouse=True)
def _own_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("f.toml").write_text(FILE)


def run(command: click.Command, *args: str) -> Result:
    return CliRunner().invoke(command, args)


def version(profile: str) -> str:
    return parse_config(tomllib.loads(FILE), source="x").profiles[profile].version


def test_check_says_what_the_file_says():
    result = run(config_group, "check", "f.toml")
    assert result.exit_code == 0
    assert result.stdout == (
        "f.toml: valid\n"
        "\n"
        "listens on      profile  for\n"
        "127.0.0.1:3128  default  gateway\n"
        "[::1]:3128      web      gateway\n"
        "127.0.0.1:3129  default  tools\n"
        "127.0.0.1:3130           operator\n"
        "\n"
        "workers      2\n"
        "nameservers  127.0.0.1:5353, [::1]:53\n"
        "CA           made for this installation\n"
        "extra CAs    none\n"
        "search       local\n"
        "\n"
        "profile  version       schemes     methods   hosts                 bytes    seconds\n"
        f"default  {version('default')}  https       GET,HEAD  *                     8388608  20\n"
        f"web      {version('web')}  http,https  GET,HEAD  2 patterns, 1 denied  8388608  0.5\n"
    )


def test_check_without_a_file_checks_what_would_be_used():
    assert run(config_group, "check").stdout.startswith("built-in configuration: valid\n")
    assert run(config_group, "check", "--config", "f.toml").stdout.startswith("f.toml: valid\n")
    Path("config").mkdir()
    Path("config/fetchd.toml").write_text("")
    assert run(config_group, "check").stdout.startswith("config/fetchd.toml: valid\n")


def test_the_environment_names_a_file(monkeypatch):
    monkeypatch.setenv("FETCHD_CONFIG", "f.toml")
    assert run(config_group, "check").stdout.startswith("f.toml: valid\n")


def test_the_shipped_file_passes():
    assert run(config_group, "check", str(REPOSITORY / "config" / "fetchd.toml")).exit_code == 0


def test_a_bad_file_is_one_line_and_status_2():
    Path("f.toml").write_text("gateway.workers = 0")
    for command, args in (
        (config_group, ["check", "f.toml"]),
        (profile_group, ["list", "--config", "f.toml"]),
    ):
        result = run(command, *args)
        assert (result.exit_code, result.stdout) == (2, "")
        assert result.stderr == (
            "Error: f.toml: gateway.workers: write a whole number from 1 to 64, such as workers = 2\n"
        )


def test_list_has_a_row_for_each_profile():
    rows = run(profile_group, "list", "--config", "f.toml").stdout.splitlines()
    assert [row.split()[:2] for row in rows] == [
        ["profile", "version"], ["default", version("default")], ["web", version("web")]
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["default", "web"])
def test_what_show_prints_is_the_profile_again(name):
    text = run(profile_group, "show", name, "--config", "f.toml").stdout
    assert text.splitlines()[0] == f"# version {version(name)}, from f.toml"
    again = parse_config(tomllib.loads(text), source="x").profiles[name]
    assert again == parse_config(tomllib.loads(FILE), source="x").profiles[name]


def test_show_as_json_has_every_limit_and_the_version():
    found = json.loads(run(profile_group, "show", "default", "--json").stdout)
    assert found == {"name": "default", "version": DEFAULT_PROFILE.version, **render_profile(DEFAULT_PROFILE)}


def test_a_profile_that_is_not_there_names_the_nearest():
    result = run(profile_group, "show", "wep", "--config", "f.toml")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == "Error: f.toml has no profile wep; did you mean web?\n"
    assert run(profile_group, "show", "zzz\x1b").stderr == (
        "Error: built-in configuration has no profile zzz\\x1b; it has default\n"
    )


def test_check_says_which_search_provider_cannot_be_used(monkeypatch: pytest.MonkeyPatch):
    Path("f.toml").write_text('[search]\nprovider = "brave"\n[search.brave]\nkey_env = "BRAVE_KEY"\n')
    monkeypatch.delenv("BRAVE_KEY", raising=False)
    result = run(config_group, "check", "f.toml")
    assert result.exit_code == 0
    assert result.stdout.endswith(
        "\nnote: search.brave.key_env: the environment variable BRAVE_KEY is not set;"
        " until then its searches fail with: request failed\n"
    )

    monkeypatch.setenv("BRAVE_KEY", "canary-0123456789")
    result = run(config_group, "check", "f.toml")
    assert "note:" not in result.stdout and "canary" not in result.stdout
