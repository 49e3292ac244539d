"""The ways from a URL to text: ours whole, trafilatura in one process, the public MCP server for it.

Each is given its best case here: peers are told to skip robots.txt and the guard against private addresses, and ask
for an address, so that their look-ups cost nothing. Ours runs as `fetchd up` does on this machine, with every
safeguard on, and is asked for a name.
"""

import http.client
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any, Protocol, Self

from benchmarks.cpu import read_cpu_seconds
from benchmarks.rounds import LoadFailedError, Sample
from benchmarks.stage import ADDRESS, HOST, Place, end
from tests.kit.installed import Up
from tests.kit.toml import write_toml

PEERS = Path(__file__).resolve().parents[2] / ".venv-peers"
"""Where `make bench-peers` installs."""
CALLS_AT_ONCE = 8
CALL_SECONDS = 60.0


class System(Protocol):
    """A way to the text, as a context. host: what stands in the URLs it is given."""

    name: str
    host: str

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def turn(self, urls: Sequence[str]) -> Sample:
        """Fetch each URL once; raises LoadFailedError."""
        ...


class Daemon:
    """`fetchd up` with a worker and a renderer a core; eight calls at once over its HTTP API."""

    name = "fetchd"
    host = HOST

    def __init__(self, place: Place, port: int) -> None:
        self._folder = place.folder / "daemon"
        self._folder.mkdir()
        config = write_toml(self._folder / "fetchd.toml", _configuration(place, port))
        free = ("--gateway", "127.0.0.1:0", "--tools", "127.0.0.1:0", "--operator", "127.0.0.1:0")
        self._up = Up(self._folder, "--config", str(config), *free)

    def __enter__(self) -> Self:
        self._up.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._up.__exit__()

    def turn(self, urls: Sequence[str]) -> Sample:
        left, lock, failures = iter(urls), threading.Lock(), list[str]()
        threads = [
            threading.Thread(target=self._call_all, args=(left, lock, failures)) for _ in range(CALLS_AT_ONCE)
        ]
        before, started = read_cpu_seconds(self._up.process.pid), time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        seconds = time.perf_counter() - started
        if failures:
            raise LoadFailedError(f"{self.name}: {failures[0]}")
        return Sample(len(urls), seconds, read_cpu_seconds(self._up.process.pid) - before)

    def _call_all(self, urls: Iterator[str], lock: threading.Lock, failures: list[str]) -> None:
        connection = http.client.HTTPConnection(*self._up.tools, timeout=CALL_SECONDS)
        try:
            while not failures:
                with lock:
                    url = next(urls, None)
                if url is None:
                    return
                connection.request("POST", "/v1/tools/web_fetch", json.dumps({"url": url}))
                answer = connection.getresponse()
                told = json.loads(answer.read())
                if answer.status != 200 or told["failure"] is not None:
                    failures.append(str(told)[:400])
        except (OSError, ValueError, http.client.HTTPException) as error:
            failures.append(f"{type(error).__name__}: {error}")
        finally:
            connection.close()


class InProcess:
    """trafilatura's fetch and extract, one page after the other in one process."""

    name = "trafilatura, one process"
    host = ADDRESS

    def __init__(self, place: Place) -> None:
        self._command = [sys.executable, "-m", "benchmarks.pages.in_process", str(place.origin_ca)]

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        return self

    def __exit__(self, *_: object) -> None:
        end(self._process)

    def turn(self, urls: Sequence[str]) -> Sample:
        before = read_cpu_seconds(self._process.pid)
        _send(self._process.stdin, list(urls))
        told = _receive(self._process.stdout, self.name)
        if told["failure"] is not None:
            raise LoadFailedError(f"{self.name}: {told['failure']}")
        return Sample(told["done"], told["seconds"], read_cpu_seconds(self._process.pid) - before)


class McpServerFetch:
    """`mcp-server-fetch` over MCP on stdio, one call at a time: its extraction holds up its event loop."""

    host = ADDRESS

    def __init__(self, place: Place) -> None:
        self._ca = str(place.origin_ca)
        scripts = next(PEERS.glob("lib/*/site-packages/readabilipy/javascript/node_modules"), None)
        self.name = f"mcp-server-fetch, {'Readability.js' if scripts else 'without Node'}"
        self._calls = 0

    @staticmethod
    def find() -> Path | None:
        """Its program; None when it is not installed."""
        program = PEERS / "bin" / "mcp-server-fetch"
        return program if program.exists() else None

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [str(self.find()), "--ignore-robots-txt", "--allow-private-ips"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            env={**os.environ, "SSL_CERT_FILE": self._ca},
        )  # fmt: skip
        client = {"protocolVersion": "2025-06-18", "capabilities": {}}
        self._ask("initialize", {**client, "clientInfo": {"name": "benchmarks", "version": "1"}})
        _send(self._process.stdin, {"jsonrpc": "2.0", "method": "notifications/initialized"})
        return self

    def __exit__(self, *_: object) -> None:
        end(self._process)

    def turn(self, urls: Sequence[str]) -> Sample:
        before, started = read_cpu_seconds(self._process.pid), time.perf_counter()
        for url in urls:
            result = self._ask(
                "tools/call", {"name": "fetch", "arguments": {"url": url, "max_length": 40_000}}
            )
            if result.get("isError"):
                raise LoadFailedError(f"{self.name}: {str(result)[:400]}")
        seconds = time.perf_counter() - started
        return Sample(len(urls), seconds, read_cpu_seconds(self._process.pid) - before)

    def _ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self._calls += 1
        message = {"jsonrpc": "2.0", "id": self._calls, "method": method, "params": params}
        _send(self._process.stdin, message)
        while (told := _receive(self._process.stdout, self.name)).get("id") != self._calls:
            pass
        if "error" in told:
            raise LoadFailedError(f"{self.name}: {told['error']}")
        result: dict[str, Any] = told["result"]
        return result


def _send(stream: IO[str] | None, value: object) -> None:
    assert stream is not None
    stream.write(json.dumps(value) + "\n")
    stream.flush()


def _receive(stream: IO[str] | None, name: str) -> dict[str, Any]:
    assert stream is not None
    line = stream.readline()
    if not line:
        raise LoadFailedError(f"{name} ended")
    told: dict[str, Any] = json.loads(line)
    return told


def _configuration(place: Place, port: int) -> dict[str, Any]:
    return {
        "gateway": {"default_profile": "bench"},
        "dns": {"nameservers": [f"127.0.0.1:{place.dns_port}"]},
        "tls": {"extra_ca": [str(place.origin_ca)]},
        "daemon": {"profile": "bench"},
        "profiles": {"bench": {"ports": [port], "exceptions": [{"host": "*.example", "address": ADDRESS}]}},
    }
