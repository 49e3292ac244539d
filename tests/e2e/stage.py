"""A small internet on loopback: names, a TLS site and a plain one, and a configuration that lets them be reached."""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

from tests.kit.dns import ScriptedDns
from tests.kit.exchange import Request
from tests.kit.gateway import NAMES, ORIGIN_ADDRESS
from tests.kit.installed import COMMAND_SECONDS
from tests.kit.mark import Mark
from tests.kit.origin import Origin
from tests.kit.pki import Pki
from tests.kit.toml import write_toml

SITE, MOVING = "a.example", "c.example"
OTHER_ADDRESS = "127.0.0.11"
"""Where MOVING may move to: the same port, and nothing else is served there."""
WHOLE_SECONDS = 3.0
"""The time limit of profile `brief`."""
SMALL_CAP = 4096
"""The byte cap of profile `small`."""


class Stage:
    """DNS, PKI and origins; ends with its context. `listeners` are the profiles of the gateway's listeners."""

    def __init__(self, folder: Path, listeners: tuple[str, ...] = ("test", "open")) -> None:
        self._folder, self._listeners = folder, listeners
        self._stack = ExitStack()
        self._marks: dict[Origin, Mark] = {}

    def __enter__(self) -> Self:
        enter = self._stack.enter_context
        self.pki = Pki(self._folder)
        self.dns = enter(ScriptedDns())
        self.origin = enter(Origin(ORIGIN_ADDRESS, tls=self.pki.server_context(*NAMES)))
        self.elsewhere = enter(Origin(OTHER_ADDRESS, self.origin.port, tls=self.pki.server_context(MOVING)))
        self.plain = enter(Origin(ORIGIN_ADDRESS))
        for name in NAMES:
            self.dns.host_addresses(name, ORIGIN_ADDRESS)
        self.config = write_toml(self._folder / "fetchd.toml", self._document())
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def url(self, path: str = "/", host: str = SITE) -> str:
        return f"https://{host}:{self.origin.port}{path}"

    def plain_url(self, path: str = "/", host: str = SITE) -> str:
        return f"http://{host}:{self.plain.port}{path}"

    def forget(self) -> None:
        """Count from here on. Connections of earlier tests may live on, so they are remembered and left out."""
        for origin in (self.origin, self.elsewhere, self.plain):
            self._marks[origin] = Mark.now(origin)
        self.dns.forget_queries()

    def accepts(self, origin: Origin) -> int:
        """Connections to `origin` since `forget`."""
        return self._mark(origin).accepts

    def requests(self, origin: Origin) -> list[Request]:
        """Requests to `origin` since `forget`, in order of connections."""
        return self._mark(origin).requests

    def wait_requests(self, origin: Origin, number: int) -> list[Request]:
        """Wait until so many have come since `forget`."""
        origin._watch.wait_sync(
            lambda: len(self.requests(origin)) >= number, f"{number} requests", COMMAND_SECONDS
        )
        return self.requests(origin)

    def _mark(self, origin: Origin) -> Mark:
        return self._marks.get(origin) or Mark(origin)

    def _document(self) -> dict[str, Any]:
        test: dict[str, Any] = {
            "ports": [443, 80, self.origin.port, self.plain.port],
            "deny_hosts": ["denied.example"],
            "exceptions": [
                {"host": "*.example", "address": ORIGIN_ADDRESS},
                {"host": MOVING, "address": OTHER_ADDRESS},
            ],
        }
        return {
            "gateway": {
                "listeners": [{"address": "127.0.0.1:0", "profile": name} for name in self._listeners],
                "workers": 1,
                "default_profile": "test",
            },
            "dns": {"nameservers": [f"127.0.0.1:{self.dns.port}"]},
            "tls": {"extra_ca": [str(self.pki.ca_path)]},
            "daemon": {"listen": "127.0.0.1:0", "profile": "test"},
            "operator": {"listen": "127.0.0.1:0"},
            "profiles": {
                "test": test,
                "open": {**test, "schemes": ["https", "http"]},
                "brief": {**test, "total_timeout": WHOLE_SECONDS},
                "small": {**test, "byte_cap": SMALL_CAP},
            },
        }


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer of the tools' HTTP API."""

    status: int
    document: Mapping[str, Any]

    @property
    def content(self) -> str:
        """What stands within the envelope."""
        return "\n".join(self.document["text"].split("\n")[1:-1])


def post_json(
    address: tuple[str, int],
    path: str,
    arguments: object,
    headers: Mapping[str, str] = MappingProxyType({}),
    tls: ssl.SSLContext | None = None,
) -> Reply:
    """POST `arguments` to the tools listener."""
    connection = (
        http.client.HTTPConnection(*address, timeout=COMMAND_SECONDS)
        if tls is None
        else http.client.HTTPSConnection(*address, timeout=COMMAND_SECONDS, context=tls)
    )
    try:
        fields = {"Content-Type": "application/json", **headers}
        connection.request("POST", path, json.dumps(arguments), fields)
        answer = connection.getresponse()
        return Reply(answer.status, json.loads(answer.read()))
    finally:
        connection.close()
