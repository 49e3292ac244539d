"""The profiles of config/fetchd.toml in use: their hosts become stand-ins on loopback, all else stays as shipped.

`github.com` is played by `github.com.example`, and so on for every host that a shipped profile names. A client that
by mistake goes past the gateway finds nothing: no such name exists.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

from tests.kit.corpora import REPOSITORY
from tests.kit.dns import ScriptedDns
from tests.kit.exchange import Request
from tests.kit.gateway import ORIGIN_ADDRESS
from tests.kit.mark import Mark
from tests.kit.origin import Origin
from tests.kit.pki import Pki
from tests.kit.toml import write_toml

SHIPPED = REPOSITORY / "config" / "fetchd.toml"
PROFILES: dict[str, dict[str, Any]] = tomllib.loads(SHIPPED.read_text("utf-8"))["profiles"]
"""As shipped: research, coding, llm-only."""
SITE, DENIED = "a.example", "denied.example"
"""A page for the research profile, and a host that no profile here allows."""
HOST_LISTS = ("allow_hosts", "credential_hosts")


def stand_in(host: str) -> str:
    """The name under which a real host is played."""
    return f"{host}.example"


def played_hosts() -> list[str]:
    """The stand-in of every host that a shipped profile names."""
    hosts = {host for limits in PROFILES.values() for name in HOST_LISTS for host in limits.get(name, ())}
    return sorted(stand_in(host) for host in hosts)


def derived_profile(name: str, ports: Sequence[int]) -> dict[str, Any]:
    """A shipped profile with its hosts, ports and address exceptions replaced."""
    limits = PROFILES[name]
    hosts = {key: [stand_in(host) for host in limits[key]] for key in HOST_LISTS if key in limits}
    exceptions = [{"host": "*.example", "address": ORIGIN_ADDRESS}]
    return {**limits, **hosts, "deny_hosts": [DENIED], "ports": list(ports), "exceptions": exceptions}


class ClientStage:
    """DNS, PKI and one TLS origin that plays every host; a listener for each shipped profile."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        enter = self._stack.enter_context
        names = [SITE, *played_hosts()]
        self.pki = Pki(self._folder)
        self.dns = enter(ScriptedDns())
        self.origin = enter(Origin(ORIGIN_ADDRESS, tls=self.pki.server_context(*names)))
        self.forget()
        for name in names:
            self.dns.host_addresses(name, ORIGIN_ADDRESS)
        self.config = write_toml(self._folder / "fetchd.toml", self._document())
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def url(self, path: str = "/", host: str = SITE) -> str:
        return f"https://{host}:{self.origin.port}{path}"

    def forget(self) -> None:
        """Count requests from here on."""
        self._mark = Mark.now(self.origin)

    @property
    def requests(self) -> list[Request]:
        """What the origin was asked since `forget`."""
        return self._mark.requests

    def _document(self) -> dict[str, Any]:
        # The first is for known agents alone: git says who it is only where it must. The others are for clients that
        # take no password from a URL.
        listeners: list[dict[str, Any]] = [{"address": "127.0.0.1:0", "profile": "default"}]
        listeners += [{"address": "127.0.0.1:0", "profile": name, "anonymous": True} for name in PROFILES]
        return {
            "gateway": {"listeners": listeners, "workers": 1},
            "dns": {"nameservers": [f"127.0.0.1:{self.dns.port}"]},
            "tls": {"extra_ca": [str(self.pki.ca_path)]},
            "daemon": {"listen": "127.0.0.1:0"},
            "operator": {"listen": "127.0.0.1:0"},
            "profiles": {name: derived_profile(name, [self.origin.port]) for name in PROFILES},
        }
