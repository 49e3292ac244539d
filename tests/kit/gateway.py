"""A real gateway for tests: `python -m proxy_addons` as a process, with origins, DNS and PKI on loopback.

`GatewayProcess` runs one gateway; `World` is the usual stage around it: a scripted DNS server, TLS origins on
loopback addresses let in by exceptions of the profile, and the gateway that judges them.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

from tests.kit.client import RawConnection, open_connection
from tests.kit.dns import ScriptedDns
from tests.kit.origin import Origin
from tests.kit.pki import Pki
from tests.kit.sync import PATIENCE, Watch

SECRET = "0123456789abcdef" * 4
START_SECONDS = 60.0


class GatewayProcess:
    """One gateway on free loopback ports; ends with its context."""

    def __init__(
        self,
        config: Mapping[str, Any],
        state: Path,
        *,
        secret: str = SECRET,
        private: bool = False,
        python: Sequence[str] = ("-P", "-m", "proxy_addons"),
    ) -> None:
        self.state = state
        self._told: dict[str, Any] = {
            "config": dict(config), "source": "test", "state_dir": str(state), "secret": secret,
            "private": private,
        }  # fmt: skip
        self._python = python
        self._watch = Watch()
        self.events: list[dict[str, Any]] = []
        self.errors: list[str] = []

    def __enter__(self) -> Self:
        self.process = subprocess.Popen(
            [sys.executable, *self._python],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(self._told) + "\n")
        self.process.stdin.flush()
        for target in (self._read_events, self._read_errors):
            threading.Thread(target=target, daemon=True).start()
        self._watch.wait_sync(lambda: bool(self.events), "a first word of the gateway", START_SECONDS)
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> int:
        """Close its input, which stops it; the exit code."""
        assert self.process.stdin is not None
        if not self.process.stdin.closed:
            self.process.stdin.close()
        return self.process.wait(PATIENCE * 2)

    @property
    def listeners(self) -> list[tuple[str, int, str]]:
        """Address, port and profile of each listener; fails when the gateway did not start."""
        first = self.events[0]
        assert first["event"] == "ready", (first, self.errors)
        return [(host, port, profile) for host, port, profile in first["listeners"]]

    @property
    def ca_path(self) -> Path:
        return self.state / "ca.pem"

    def open(self, listener: int = 0) -> RawConnection:
        """A client connection to a listener."""
        host, port, _ = self.listeners[listener]
        return open_connection(host, port)

    def wait_event(self, name: str, number: int = 1) -> None:
        """Wait until the gateway has said `name` so many times."""
        self._watch.wait_sync(
            lambda: sum(event["event"] == name for event in self.events) >= number,
            f"event {name}",
            START_SECONDS,
        )

    def reload(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """Have it take the rules of `config`; what it says of that."""
        assert self.process.stdin is not None
        before = self._outcomes()
        self.process.stdin.write(json.dumps({"config": dict(config), "source": "test"}) + "\n")
        self.process.stdin.flush()
        self._watch.wait_sync(
            lambda: len(self._outcomes()) > len(before), "the outcome of a reload", START_SECONDS
        )
        return self._outcomes()[-1]

    def report(self) -> dict[str, Any]:
        """Its numbers: what it says when it is asked for them."""
        assert self.process.stdin is not None
        before = len(self._reports())
        self.process.stdin.write('{"report": true}\n')
        self.process.stdin.flush()
        self._watch.wait_sync(lambda: len(self._reports()) > before, "the numbers", START_SECONDS)
        return self._reports()[-1]

    def _reports(self) -> list[dict[str, Any]]:
        return [event for event in self.events if event["event"] == "report"]

    def _outcomes(self) -> list[dict[str, Any]]:
        return [event for event in self.events if event["event"] in ("reloaded", "refused", "ended")]

    def audit(self) -> list[dict[str, Any]]:
        """Every audit line so far, all chains, by time."""
        lines = []
        for path in sorted((self.state / "audit").glob("*.jsonl")):
            lines += [json.loads(line) for line in path.read_text("utf-8").splitlines() if line.endswith("}")]
        return sorted(lines, key=lambda line: str(line.get("time", "")))

    def decisions(self, **wanted: object) -> list[dict[str, Any]]:
        """Decision lines whose members have these values."""
        return self.lines("decision", **wanted)

    def lines(self, kind: str, **wanted: object) -> list[dict[str, Any]]:
        """Audit lines of a kind whose members have these values."""
        return [
            line for line in self.audit()
            if line.get("kind") == kind and all(line.get(key) == value for key, value in wanted.items())
        ]  # fmt: skip

    def _read_events(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as said:
            for line in said:
                with self._watch:
                    self.events.append(json.loads(line))
        with self._watch:
            self.events.append({"event": "ended"})

    def _read_errors(self) -> None:
        assert self.process.stderr is not None
        with self.process.stderr as said:
            for line in said:
                self.errors.append(line.rstrip())


ORIGIN_ADDRESS = "127.0.0.10"
NAMES = (
    "a.example", "b.example", "c.example", "denied.example", "www.a.example", "xn--bcher-kva.example",
    "xn--strae-oqa.example",
)  # fmt: skip
"""The last one (straße) is a name of IDNA 2008 only."""


class World:
    """DNS, PKI, one TLS origin and one plain origin for NAMES, and a gateway before them.

    The profile `test` allows https on the origin's port (and on 443, where nobody listens); `open` also http,
    uploads, credentials to c.example and WebSocket. Ask for `profiles` to add or change limits.
    """

    def __init__(
        self,
        folder: Path,
        *,
        profiles: Mapping[str, Mapping[str, Any]] | None = None,
        listeners: Sequence[str] = ("test", "open"),
        workers: int = 1,
        alpn: Sequence[str] = ("http/1.1",),
        config: Mapping[str, Any] | None = None,
        python: Sequence[str] = ("-P", "-m", "proxy_addons"),
    ) -> None:
        self._stack = ExitStack()
        self._folder = folder
        self._profiles, self._listeners, self._workers = profiles or {}, listeners, workers
        self._alpn, self._config, self._python = alpn, config or {}, python

    def __enter__(self) -> Self:
        enter = self._stack.enter_context
        self.pki = Pki(self._folder)
        self.dns = enter(ScriptedDns())
        self.origin = enter(Origin(ORIGIN_ADDRESS, tls=self.pki.server_context(*NAMES, alpn=self._alpn)))
        self.plain = enter(Origin(ORIGIN_ADDRESS))
        for name in NAMES:
            self.dns.host_addresses(name, ORIGIN_ADDRESS)
        self.gateway = enter(GatewayProcess(self.config(), self._folder / "state", python=self._python))
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def config(self) -> dict[str, Any]:
        """The configuration the gateway gets, as TOML would give it."""
        test: dict[str, Any] = {
            "ports": [443, 80, self.origin.port, self.plain.port],
            "deny_hosts": ["denied.example"],
            "exceptions": [{"host": "*.example", "address": ORIGIN_ADDRESS}],
        }
        opened = {
            **test,
            "schemes": ["https", "http"],
            "methods": ["GET", "HEAD", "POST", "PUT"],
            "request_body": True,
            "request_cap": 1 << 20,
            "upgrades": ["websocket"],
            "credential_hosts": ["c.example"],
        }
        profiles: dict[str, Any] = {"test": test, "open": opened}
        for name, changes in self._profiles.items():
            profiles[name] = {**profiles.get(name, test), **changes}
        base: dict[str, Any] = {
            "gateway": {
                "listeners": [{"address": "127.0.0.1:0", "profile": name} for name in self._listeners],
                "workers": self._workers,
                "default_profile": "default",
            },
            "dns": {"nameservers": [f"127.0.0.1:{self.dns.port}"]},
            "tls": {"extra_ca": [str(self.pki.ca_path)]},
            "daemon": {"listen": "127.0.0.1:0"},
            "operator": {"listen": "127.0.0.1:0"},
            "profiles": profiles,
        }
        for table, values in self._config.items():
            base[table] = {**base.get(table, {}), **values}
        return base

    def url(self, path: str = "/", host: str = "a.example") -> str:
        """An https URL of the TLS origin."""
        return f"https://{host}:{self.origin.port}{path}"

    def plain_url(self, path: str = "/", host: str = "a.example") -> str:
        """An http URL of the plain origin."""
        return f"http://{host}:{self.plain.port}{path}"

    def authority(self, host: str = "a.example") -> str:
        """host:port of the TLS origin, as CONNECT and Host fields want it."""
        return f"{host}:{self.origin.port}"
