"""TLS of the tools and operator listeners: the operator's own certificate, else one of our CA, renewed in time.

A certificate of ours is made at each start and whenever it comes near its end. It is kept as `keys/tools.pem` and
`keys/operator.pem`, 0600, because OpenSSL reads files; nobody else needs them.
"""

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from certs.authority import load_or_create_authority
from certs.errors import CertificateAuthorityError
from certs.files import write_file
from certs.leaf import RENEWAL, issue_leaf
from fetchd.settings import own_authority
from proxy_addons.policy.config import Config

LEAF_FILE: Final = "tools.pem"
OPERATOR_LEAF_FILE: Final = "operator.pem"
LOOK_SECONDS: Final = 3_600.0
"""Between two looks at the clock; a machine that slept finds out within this time."""

_log = logging.getLogger(__name__)


class OwnLeaf:
    """A certificate of our CA in a context that serves; `renew` puts a new one in its place when it is time."""

    def __init__(
        self,
        keys: Path,
        authority: bytes,
        names: Sequence[str],
        addresses: Sequence[str],
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        file: str = LEAF_FILE,
    ) -> None:
        """authority: what it signs with, key and certificates as PEM. names, addresses: those of the server."""
        self._keys, self._authority, self._now, self._file = keys, authority, now, file
        self._names, self._addresses = names, addresses
        self.context: Final = make_context()
        self.expires = datetime.min.replace(tzinfo=UTC)

    def renew(self) -> bool:
        """Whether a new one was made. Blocks. Raises CertificateAuthorityError, OSError."""
        if self.expires - self._now() > RENEWAL:
            return False
        leaf = issue_leaf(self._authority, self._names, self._addresses, self._now())
        path = self._keys / self._file
        write_file(path, leaf.pem, 0o600)
        self.context.load_cert_chain(path)  # for handshakes from now on
        self.expires = leaf.expires
        return True

    async def keep(self) -> None:
        """Renew in time, for ever."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            try:
                await asyncio.to_thread(self.renew)
            except (CertificateAuthorityError, OSError) as error:
                _log.error("the certificate %s could not be renewed: %s", self._file, error)


@asynccontextmanager
async def tools_tls(config: Config, state_dir: Path) -> AsyncIterator[ssl.SSLContext | None]:
    """The context to serve the tools with; None where they are served plainly.

    Raises CertificateAuthorityError, OSError.
    """
    daemon = config.daemon
    if not daemon.listener.tls:
        yield None
        return
    async with _server_tls(config, state_dir, daemon.endpoint.host, daemon.names, LEAF_FILE) as context:
        yield context


@asynccontextmanager
async def operator_tls(config: Config, state_dir: Path) -> AsyncIterator[ssl.SSLContext | None]:
    """The same for the operator's listener."""
    operator = config.operator
    if not operator.tls:
        yield None
        return
    async with _server_tls(
        config, state_dir, operator.endpoint.host, operator.names, OPERATOR_LEAF_FILE
    ) as context:
        yield context


@asynccontextmanager
async def _server_tls(
    config: Config, state_dir: Path, host: str, names: Sequence[str], file: str
) -> AsyncIterator[ssl.SSLContext]:
    if config.tls.listener_certificate is not None:
        context = make_context()
        context.load_cert_chain(config.tls.listener_certificate, config.tls.listener_key)
        yield context
        return
    addresses = dict.fromkeys(["127.0.0.1", "::1", host])
    keys = state_dir / "keys"
    # Made by the gateway, which has started. Its workers keep the one that they started with, and so do we.
    authority = await asyncio.to_thread(
        load_or_create_authority, keys, state_dir / "ca.pem", own_authority(config)
    )
    leaf = OwnLeaf(
        keys,
        authority.signing_pem,
        list(dict.fromkeys(["localhost", *names])),
        [one for one in addresses if one not in ("0.0.0.0", "::")],  # noqa: S104 (compared, not bound)
        file=file,
    )
    await asyncio.to_thread(leaf.renew)
    keeper = asyncio.create_task(leaf.keep(), name=f"certificate {file}")
    try:
        yield leaf.context
    finally:
        keeper.cancel()
        await asyncio.wait([keeper])


def make_context() -> ssl.SSLContext:
    """A server's context: TLS 1.2 and 1.3, HTTP/1.1."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    return context
