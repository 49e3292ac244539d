"""Which of the configured providers can be used, and what an operator is told of the others."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path

import pytest

from fetchd.search.providers.opening import DIALECTS, find_provider_faults, open_providers
from proxy_addons.policy.config import parse_config
from proxy_addons.policy.config_search import REMOTE_PROVIDERS, SearchConfig

KEY = "canary-0123456789"
BRAVE = {"search": {"provider": "brave", "brave": {"key_env": "BRAVE_KEY"}}}


def search(document: Mapping[str, object], base: str = "") -> SearchConfig:
    return parse_config(document, source="test", base=base).search


async def opened(config: SearchConfig, environ: Mapping[str, str]) -> list[str]:
    async with open_providers(config, (), environ) as providers:
        for name, one in providers.items():
            assert one.name == name.value and KEY not in repr(one)
        return [name.value for name in providers]


def test_every_remote_provider_has_its_dialect() -> None:
    assert set(DIALECTS) == set(REMOTE_PROVIDERS)


async def test_without_a_configuration_nobody_is_reached() -> None:
    assert await opened(search({}), {}) == []


async def test_one_with_its_key() -> None:
    assert await opened(search(BRAVE), {"BRAVE_KEY": KEY}) == ["brave"]


async def test_one_beside_the_chain_is_ready_for_a_reload() -> None:
    document = {
        "search": {
            "searxng": {"endpoint": "http://127.0.0.1:8888"},
            "gateway": {"endpoint": "https://search.example", "key_env": "GATEWAY_KEY"},
        }
    }

    assert await opened(search(document), {"GATEWAY_KEY": KEY}) == ["gateway", "searxng"]
    assert await opened(search(document), {}) == ["searxng"]


@pytest.mark.parametrize(
    ("environ", "what"),
    [
        ({}, "the environment variable BRAVE_KEY is not set"),
        ({"BRAVE_KEY": " "}, "the environment variable BRAVE_KEY is empty"),
        ({"BRAVE_KEY": f"{KEY}\nx"}, "holds more than a key"),
    ],
)
async def test_one_without_its_key_is_left_out_and_named(
    environ: dict[str, str], what: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert await opened(search(BRAVE), environ) == []

    assert what in caplog.text and KEY not in caplog.text
    ((key, fault),) = find_provider_faults(search(BRAVE), environ)
    assert key == "search.brave.key_env" and what in fault and KEY not in fault


async def test_a_key_file_beside_the_configuration(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    config = search({"search": {"provider": "brave", "brave": {"key_file": "brave.key"}}}, str(tmp_path))
    (tmp_path / "brave.key").write_text(KEY)
    (tmp_path / "brave.key").chmod(0o644)
    assert await opened(config, {}) == []
    assert "chmod 600" in caplog.text

    (tmp_path / "brave.key").chmod(0o600)
    assert await opened(config, {}) == ["brave"]
    assert list(find_provider_faults(config, {})) == []


async def test_one_that_nobody_asks_for_is_left_out_in_silence(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "fetchd")
    document = {"search": {"brave": {"key_env": "BRAVE_KEY"}}}

    assert await opened(search(document), {}) == []
    assert caplog.text == "" and list(find_provider_faults(search(document), {})) == []


async def test_roots_that_cannot_be_read_leave_out_those_that_need_them(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_providers(search(BRAVE), [str(tmp_path / "none.pem")], {"BRAVE_KEY": KEY}) as providers:
        assert not providers

    assert "tls.extra_ca" in caplog.text
