"""How each vendor is reached: its channel and its credential, made once. What cannot be had is said when needed.

Keys stay here: no caller brings one, and none leaves but to the vendor it is for.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from fetchd.channel import Channel, Secret
from fetchd.channel.client import HttpChannel, make_roots
from fetchd.channel.secrets import read_secret_file, read_secret_variable
from fetchd.errors import ChannelError
from proxy_addons.policy.config_ask import VendorConfig
from proxy_addons.policy.vendors.dialects import DIALECTS, Vendor

from .domains import NOTHING_SENT
from .errors import DeclarationError
from .vendor import VendorClient


@dataclass(frozen=True, slots=True)
class Link:
    """The way to one vendor. base: what paths are written after."""

    base: str
    channel: Channel = field(repr=False)
    secret: Secret = field(repr=False)


class VendorLinks:
    """All of them. missing: why there is no way to one, in one line."""

    def __init__(self, links: Mapping[Vendor, Link], missing: Mapping[Vendor, str]) -> None:
        self._links: Final = links
        self._missing: Final = missing

    def connect(self, vendor: VendorConfig, model: str | None = None) -> VendorClient:
        """A client of the vendor in the dialect of its configuration. Raises DeclarationError."""
        link = self._links.get(vendor.name)
        if link is None:
            raise DeclarationError(
                f'provider "{vendor.name}" cannot be asked: {self._missing[vendor.name]}. {NOTHING_SENT}'
            )
        chosen = model or vendor.model
        if chosen is None:
            raise DeclarationError(
                f'provider "{vendor.name}" needs a model: write model in [vendors.{vendor.name}], or name one with'
                f" --model. {NOTHING_SENT}"
            )
        return VendorClient(
            vendor.name.value, chosen, DIALECTS[vendor.dialect], link.base, link.channel, link.secret
        )


@asynccontextmanager
async def open_links(
    vendors: Mapping[Vendor, VendorConfig], extra_ca: Sequence[str], environ: Mapping[str, str]
) -> AsyncIterator[VendorLinks]:
    """A channel for each vendor whose key can be had; leaving closes them. Raises nothing of its own."""
    links: dict[Vendor, Link] = {}
    missing: dict[Vendor, str] = {}
    async with AsyncExitStack() as stack:
        roots: ssl.SSLContext | None = None
        for name, vendor in vendors.items():
            try:
                secret = await asyncio.to_thread(_read_secret, vendor, environ)
                if roots is None:
                    roots = await asyncio.to_thread(make_roots, extra_ca)
                channel = await stack.enter_async_context(HttpChannel(vendor.endpoint, roots))
            except ChannelError as error:
                missing[name] = str(error)
            else:
                links[name] = Link(vendor.endpoint, channel, secret)
        yield VendorLinks(links, missing)


def find_vendor_faults(
    vendors: Mapping[Vendor, VendorConfig], names: Iterable[str], environ: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    """What keeps vendors from being asked: key of the configuration, and what is wrong. Blocks."""
    for name, vendor in vendors.items():
        if name.value in names:
            try:
                _read_secret(vendor, environ)
            except ChannelError as error:
                yield f"vendors.{name}.{'key_file' if vendor.key_file is not None else 'key_env'}", str(error)


def _read_secret(vendor: VendorConfig, environ: Mapping[str, str]) -> Secret:
    if vendor.key_file is not None:
        return read_secret_file(Path(vendor.key_file))
    return read_secret_variable(vendor.key_variable or "", environ)
