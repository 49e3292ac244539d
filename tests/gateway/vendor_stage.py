"""The vendors on loopback behind a real gateway, and what an agent's SDK needs to reach them through it."""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2

from tests.kit import vendors
from tests.kit.gateway import ORIGIN_ADDRESS, World
from tests.kit.origin import Origin

PASS, NARROW, REFUSE, MONITOR = range(4)
"""Listeners, each with a profile of its own."""
KEY = "sk-canary-7f3a91c2"
ALLOWED = ("docs.rs", "*.docs.rs", "crates.io")


class VendorWorld(World):
    """`origin` answers for every vendor; the profiles are the three of `web_tools`, and one that monitors."""

    def __init__(self, folder: Path, *, alpn: Sequence[str] = ("http/1.1",), **config: Any) -> None:
        super().__init__(
            folder, listeners=("passing", "narrowing", "refusing", "watching"), alpn=alpn, **config
        )

    def __enter__(self) -> VendorWorld:
        super().__enter__()
        return self

    def config(self) -> dict[str, Any]:
        config = super().config()
        self.vendor = self._stack.enter_context(
            Origin(ORIGIN_ADDRESS, tls=self.pki.server_context(*vendors.NAMES, alpn=self._alpn))
        )
        exceptions = [{"host": name, "address": ORIGIN_ADDRESS} for name in vendors.NAMES]
        base = {
            "ports": [443, self.vendor.port],
            "methods": ["GET", "POST", "DELETE"],
            "request_body": True,
            "request_cap": 40 << 20,
            "allow_hosts": [*vendors.NAMES, *ALLOWED],
            "credential_hosts": list(vendors.NAMES),
            "exceptions": exceptions,
        }
        config["profiles"] |= {
            "passing": {**base, "web_tools": "pass"},
            "narrowing": {**base, "web_tools": "enforce", "web_tools_max_uses": 3},
            "refusing": {**base, "web_tools": "refuse"},
            "watching": {**base, "web_tools": "enforce", "mode": "monitor"},
        }
        for name in vendors.NAMES:
            self.dns.host_addresses(name, ORIGIN_ADDRESS)
        return config

    def base_url(self, name: str, path: str = "") -> str:
        return f"https://{name}:{self.vendor.port}{path}"

    @contextmanager
    def client(self, listener: int, *, http2: bool = False) -> Iterator[httpx2.Client]:
        """What the SDKs take for their HTTP: through the gateway, trusting its CA alone."""
        host, port, _ = self.gateway.listeners[listener]
        context = ssl.create_default_context(cafile=str(self.gateway.ca_path))
        with httpx2.Client(
            proxy=f"http://{host}:{port}", verify=context, http2=http2, trust_env=False, timeout=30
        ) as client:
            yield client

    def forget(self) -> None:
        self.vendor.forget()

    def sent(self) -> Mapping[str, Any]:
        """The JSON that arrived last at the vendor."""
        value: Mapping[str, Any] = json.loads(self.vendor.requests[-1].body)
        return value

    def web_lines(self, fetch_id: str) -> list[dict[str, Any]]:
        return self.gateway.lines("web", fetch_id=fetch_id)
