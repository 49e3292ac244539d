"""TLS of the tools listener: a certificate of ours, renewed while it serves, or the operator's own."""

from __future__ import annotations

import asyncio
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trustme
from cryptography import x509

from certs.authority import load_or_create_authority
from certs.leaf import RENEWAL
from fetchd.running.tools_tls import OwnLeaf, tools_tls
from proxy_addons.policy.config import Config, parse_config
from tests.certs.test_leaf import NOW

SERVES = {"daemon": {"listen": "127.0.0.1:0", "tls": True, "names": ["fetchd.internal"]}}


def configured(**tables: object) -> Config:
    return parse_config({**SERVES, **tables}, source="test")


async def shown(context: ssl.SSLContext) -> x509.Certificate:
    """The certificate that a client meets now."""
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0, ssl=context)
    trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    async with server:
        port = server.sockets[0].getsockname()[1]
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trusting)
        found = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        writer.close()
    return x509.load_der_x509_certificate(found)


async def test_a_new_one_is_shown_before_the_old_one_ends(tmp_path: Path) -> None:
    authority = load_or_create_authority(tmp_path / "keys", tmp_path / "ca.pem").signing_pem
    clock = [NOW]
    leaf = OwnLeaf(tmp_path / "keys", authority, ["localhost"], [], lambda: clock[0])

    assert leaf.renew() is True
    first, expires = await shown(leaf.context), leaf.expires
    clock[0] = expires - RENEWAL - timedelta(seconds=1)
    assert leaf.renew() is False
    assert await shown(leaf.context) == first
    clock[0] = expires - RENEWAL
    assert leaf.renew() is True

    second = await shown(leaf.context)
    assert second != first
    assert second.not_valid_after_utc > first.not_valid_after_utc
    assert (tmp_path / "keys" / "tools.pem").stat().st_mode & 0o777 == 0o600


async def test_it_has_the_names_of_the_configuration(tmp_path: Path) -> None:
    async with tools_tls(configured(), tmp_path) as context:
        assert context is not None
        found = (await shown(context)).extensions.get_extension_for_class(x509.SubjectAlternativeName).value

    assert found.get_values_for_type(x509.DNSName) == ["localhost", "fetchd.internal"]
    assert [str(one) for one in found.get_values_for_type(x509.IPAddress)] == ["127.0.0.1", "::1"]


async def test_the_operators_own_is_shown_instead(tmp_path: Path) -> None:
    leaf = trustme.CA().issue_cert("fetchd.test")
    leaf.cert_chain_pems[0].write_to_path(tmp_path / "c.pem")
    leaf.private_key_pem.write_to_path(tmp_path / "c.key")
    own = {"listener_certificate": str(tmp_path / "c.pem"), "listener_key": str(tmp_path / "c.key")}

    async with tools_tls(configured(tls=own), tmp_path / "state") as context:
        assert context is not None
        found = await shown(context)

    assert found == x509.load_pem_x509_certificate((tmp_path / "c.pem").read_bytes())
    assert not (tmp_path / "state").exists()


async def test_without_it_the_tools_are_served_plainly(tmp_path: Path) -> None:
    async with tools_tls(parse_config({}, source="test"), tmp_path) as context:
        assert context is None
    assert datetime.now(UTC) > NOW


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1])
async def test_old_versions_are_not_spoken(tmp_path: Path, version: ssl.TLSVersion) -> None:
    async with tools_tls(configured(), tmp_path) as context:
        assert context is not None
        assert context.minimum_version > version
