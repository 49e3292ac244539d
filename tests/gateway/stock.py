"""mitmproxy as it comes: its own layers, addons and options, in a process of its own, for proof that probes can fail.

Four things differ from an installed `mitmdump`: names lead to addresses told beforehand, origins are verified against
the CA of the tests, an origin is dialled when a request wants it and not before (with `eager` a client gets no HTTP/2
that its origin does not speak), and an addon of the kind that users write acts on the paths of some probes.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from tests.kit.client import RawConnection, open_connection
from tests.kit.sync import PATIENCE

START_SECONDS = 60.0


class StockProcess:
    """One stock mitmproxy on a free loopback port; ends with its context."""

    def __init__(
        self, folder: Path, ca: Path, names: Mapping[str, str], environment: Mapping[str, str]
    ) -> None:
        self._told = {"confdir": str(folder), "ca": str(ca), "names": dict(names)}
        self._environment = environment
        self.ca_path = folder / "mitmproxy-ca-cert.pem"

    def __enter__(self) -> Self:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.gateway.stock"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            env={**os.environ, **self._environment},
        )  # fmt: skip
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps(self._told) + "\n")
        self.process.stdin.flush()
        self.port = int(self.process.stdout.readline())
        self._reader = threading.Thread(target=self.process.stdout.read, daemon=True)
        self._reader.start()
        return self

    def __exit__(self, *_: object) -> None:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.close()
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:  # it has been made to misbehave
            self.process.kill()
            self.process.wait()
        self._reader.join(PATIENCE)
        self.process.stdout.close()

    def open(self) -> RawConnection:
        return open_connection("127.0.0.1", self.port)


class Naive:
    """What an addon writer does first, at the paths of the probes about it."""

    def requestheaders(self, flow: Any) -> None:
        if flow.request.path.startswith("/strip-nominated"):
            for name in flow.request.headers.get("connection", "").split(","):
                flow.request.headers.pop(name.strip(), None)

    def responseheaders(self, flow: Any) -> None:
        if flow.request.path.startswith("/strip-connection"):
            flow.response.headers.pop("connection", None)
        if flow.request.path.startswith("/metered"):
            seen = 0

            def meter(chunk: bytes) -> bytes:
                nonlocal seen
                seen += len(chunk)
                if chunk and seen > 1024:
                    raise ValueError("over the cap")
                return chunk

            flow.response.stream = meter


class ToldLoop(asyncio.SelectorEventLoop):
    """Names lead where the test says."""

    names: Mapping[str, str]

    async def getaddrinfo(self, host: Any, port: Any, **options: Any) -> Any:
        name = host.decode() if isinstance(host, bytes) else host
        address = self.names.get(str(name).rstrip(".").lower(), name)
        return [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (address, int(port)))]


async def serve(told: dict[str, Any]) -> None:
    """Run until standard input ends."""
    from mitmproxy import options
    from mitmproxy.tools.dump import DumpMaster

    opts = options.Options(listen_host="127.0.0.1", listen_port=0, confdir=told["confdir"])
    opts.ssl_verify_upstream_trusted_ca = told["ca"]
    master = DumpMaster(opts, with_termlog=False, with_dumper=False)
    master.addons.add(Naive(), Announcer(master))
    master.options.update(connection_strategy="lazy")
    loop = asyncio.get_running_loop()
    loop.add_reader(sys.stdin.fileno(), lambda: os.read(0, 4096) or master.shutdown())
    await master.run()


class Announcer:
    """Says the port once the listener is up."""

    def __init__(self, master: Any) -> None:
        self._master = master

    def running(self) -> None:
        server = self._master.addons.get("proxyserver")
        (address,) = server.listen_addrs()
        print(address[1], flush=True)


def main() -> None:
    told = json.loads(sys.stdin.readline())
    ToldLoop.names = told["names"]
    with asyncio.Runner(loop_factory=ToldLoop) as runner:
        runner.run(serve(told))


if __name__ == "__main__":
    main()
