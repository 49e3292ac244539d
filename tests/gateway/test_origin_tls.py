"""The certificate of an origin is verified, always; what went wrong is told by kind alone."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterator
from typing import Any

import pytest

from tests.gateway.paths import Ask, Entry, send
from tests.kit.exchange import Connection
from tests.kit.gateway import NAMES, ORIGIN_ADDRESS, World
from tests.kit.origin import Origin
from tests.kit.pki import Pki

SECURE = (Entry.ABSOLUTE_HTTPS, Entry.CONNECT_H1, Entry.CONNECT_H2, Entry.TLS_LISTENER)


class PlainOrigin(Origin):
    """Answers a TLS hello as web servers without TLS do."""

    async def _serve_h1(
        self, connection: Connection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        connection.received += await reader.read(65536)
        writer.write(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        await writer.drain()


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[World, dict[str, Origin]]]:
    folder = tmp_path_factory.mktemp("tls")
    pki = Pki(folder)
    contexts: dict[str, ssl.SSLContext] = {
        "wrong name": pki.wrong_name_context(),
        "expired": pki.expired_context(*NAMES),
        "unknown ca": pki.unknown_ca_context(*NAMES),
        "self signed": pki.self_signed_context("a.example"),
        "good": pki.server_context(*NAMES),
    }
    origins = {name: Origin(ORIGIN_ADDRESS, tls=context) for name, context in contexts.items()}
    origins["plain"] = PlainOrigin(ORIGIN_ADDRESS)

    class Stage(World):
        def config(self) -> dict[str, Any]:
            config = super().config()
            for profile in config["profiles"].values():
                profile["ports"] = [*profile["ports"], *(origin.port for origin in origins.values())]
            config["tls"] = {"extra_ca": [*config["tls"]["extra_ca"], str(pki.ca_path)]}
            return config

    folder = tmp_path_factory.mktemp("tls-world")
    try:
        for origin in origins.values():
            origin.start()
        with Stage(folder) as world:
            yield world, origins
    finally:
        for origin in origins.values():
            origin.stop()


@pytest.mark.parametrize("entry", SECURE)
@pytest.mark.parametrize("kind", ["wrong name", "expired", "unknown ca", "self signed"])
def test_a_bad_certificate_is_refused(
    stage: tuple[World, dict[str, Origin]], kind: str, entry: Entry
) -> None:
    world, origins = stage
    origins[kind].forget()
    answer = send(world, entry, Ask(port=origins[kind].port))
    assert (answer.status, answer.header("fetchd-rule")) == (502, "tls-verify")
    assert answer.json()["detail"] == "the certificate of a.example could not be verified"
    assert (origins[kind].accepts, origins[kind].requests) == (1, [])


@pytest.mark.parametrize("entry", SECURE)
def test_a_good_one_of_the_same_authority_passes(
    stage: tuple[World, dict[str, Origin]], entry: Entry
) -> None:
    world, origins = stage
    assert send(world, entry, Ask(port=origins["good"].port)).status == 200


@pytest.mark.parametrize("entry", SECURE)
def test_plain_text_where_tls_is_due_is_a_failed_origin(
    stage: tuple[World, dict[str, Origin]], entry: Entry
) -> None:
    world, origins = stage
    answer = send(world, entry, Ask(port=origins["plain"].port))
    assert (answer.status, answer.header("fetchd-rule")) == (502, "upstream")
    assert b"HTTP" not in origins["plain"].connections[-1].received
