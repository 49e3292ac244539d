"""`fetchd audit prune`: what it removes, what it shows, and what it says when it cannot."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from fetchd.faces.audit_cli import group
from proxy_addons.audit import AuditKeys
from tests.kit.toml import write_toml
from tests.proxy_addons.audit.kit import decision, open_log, series_paths, write_chain


@pytest.fixture
def keys(tmp_path: Path) -> AuditKeys:
    return AuditKeys.load_or_create(tmp_path / "keys")


@pytest.fixture
def audit(tmp_path: Path, keys: AuditKeys) -> Path:
    """A log of two chains in several files, of 2026-01-01."""
    for series in ("gateway-0", "fetch-0"):
        write_chain(tmp_path / "audit", 20, series, rotate_bytes=2200, keys=keys)
    return tmp_path / "audit"


def prune(state: Path, *arguments: str) -> Result:
    config = write_toml(state / "fetchd.toml", {}) if "--config" not in arguments else None
    more = ("--config", str(config)) if config is not None else ()
    return CliRunner().invoke(group, ["prune", "--state-dir", str(state), *more, *arguments])


def files(audit: Path) -> list[str]:
    return [path.name for series in ("fetch-0", "gateway-0") for path in series_paths(audit, series)]


def test_a_dry_run_shows_what_would_go_and_removes_nothing(tmp_path: Path, audit: Path) -> None:
    before = files(audit)
    result = prune(tmp_path, "--dry-run", "--keep-bytes", "0")
    rows = [line.split() for line in result.stdout.splitlines()]

    assert (result.exit_code, files(audit)) == (0, before)
    assert sorted(row[0] for row in rows) == [name for name in before if name not in last_files(before)]
    assert {" ".join(row[-2:]) for row in rows} == {"would go"}


def last_files(names: list[str]) -> list[str]:
    return [max(name for name in names if name.startswith(series)) for series in ("fetch-0", "gateway-0")]


def test_it_removes_and_what_is_left_is_whole(tmp_path: Path, audit: Path) -> None:
    before = files(audit)
    result = prune(tmp_path, "--keep-bytes", "0")
    verified = CliRunner().invoke(group, ["verify", "--state-dir", str(tmp_path)])

    assert (result.exit_code, files(audit)) == (0, last_files(before))
    assert all(line.endswith("removed") for line in result.stdout.splitlines())
    assert verified.exit_code == 0
    assert verified.stdout.count("were removed by retention, as the chain says, signed") == 2


def test_its_json_says_the_same(tmp_path: Path, audit: Path) -> None:
    document = json.loads(prune(tmp_path, "--dry-run", "--keep-bytes", "0", "--json").stdout)

    assert document["dry_run"] is True
    assert [chain["chain"] for chain in document["chains"]] == ["fetch-0", "gateway-0"]
    first = document["chains"][0]["files"][0]
    assert first["file"] == "fetch-0-000001.jsonl"
    assert first["bytes"] == (audit / first["file"]).stat().st_size
    assert first["newest"].startswith("2026-01-01T")


def test_the_limits_of_the_configuration_hold(tmp_path: Path, audit: Path) -> None:
    config = write_toml(tmp_path / "limits.toml", {"audit": {"keep_days": 10}})
    before = files(audit)
    result = prune(tmp_path, "--dry-run", "--config", str(config))

    assert result.exit_code == 0
    assert len(result.stdout.splitlines()) == len(before) - 2


def test_without_limits_it_says_where_to_write_them(tmp_path: Path, audit: Path) -> None:
    result = prune(tmp_path)

    assert result.exit_code == 2
    assert "sets no limit, so all is kept; write keep_days or keep_bytes under [audit]" in result.stderr


def test_a_chain_in_use_stays_and_the_exit_says_so(tmp_path: Path, audit: Path, keys: AuditKeys) -> None:
    log = open_log(audit, "gateway-0", keys)
    log.append(decision())
    result = prune(tmp_path, "--keep-bytes", "0")
    log.close()

    assert result.exit_code == 1
    assert "stays: audit series gateway-0" in result.stdout
    assert "removed" in result.stdout


def test_nothing_to_remove_and_nothing_there(tmp_path: Path, audit: Path) -> None:
    assert prune(tmp_path, "--keep-bytes", str(1 << 40)).stdout == "nothing to remove\n"
    missing = CliRunner().invoke(group, ["prune", "--keep-days", "1", "--state-dir", str(tmp_path / "none")])

    assert (missing.exit_code, "no audit log at" in missing.stderr) == (2, True)
