"""The load: `python -m benchmarks.load`, one JSON job on standard input, told to go when it says it is warm.

    {"shape": "keepalive", "proxy": ["127.0.0.1", 3128], "host": "a.example", "port": 8443,
     "ca": "ca.pem", "connections": 8, "requests": 2000, "seconds": 60}        (the first line in)
    {"warm": true}                                                             (out)
    go                                                                         (in)
    {"done": 2000, "seconds": 1.93, "failure": null}                           (out)

A thread a connection over blocking sockets: cheap, and a connection has one request under way at a time. Bounded by
the count and by the time, whichever ends first.
"""

import json
import socket
import ssl
import sys
import threading
import time
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

TIMEOUT = 20.0
"""Seconds for any one answer."""
_END = b"\r\n\r\n"


class Shape(StrEnum):
    """What is repeated."""

    ABSOLUTE = "absolute-form, kept alive"
    TUNNEL = "TLS in a tunnel, kept alive"
    NEW_TLS = "new TLS each time"


@dataclass(frozen=True, slots=True)
class Job:
    """What to send where. `ca` verifies the leaf that the proxy shows inside a tunnel."""

    shape: Shape
    proxy: tuple[str, int]
    host: str
    port: int
    ca: str
    connections: int
    requests: int
    seconds: float

    @property
    def authority(self) -> str:
        return f"{self.host}:{self.port}"

    def render(self) -> str:
        """One JSON line."""
        return json.dumps({name: getattr(self, name) for name in self.__slots__})


def parse_job(text: str) -> Job:
    """What `Job.render` wrote."""
    told = json.loads(text)
    return Job(**{**told, "shape": Shape(told["shape"]), "proxy": (told["proxy"][0], told["proxy"][1])})


class BadAnswerError(Exception):
    """The proxy did not answer 200 with a whole body."""


class Exchange:
    """One connection to the proxy."""

    def __init__(self, job: Job, tls: ssl.SSLContext) -> None:
        self._job = job
        target = "/page?q=1" if job.shape is not Shape.ABSOLUTE else f"https://{job.authority}/page?q=1"
        self._request = (
            f"GET {target} HTTP/1.1\r\nHost: {job.authority}\r\nUser-Agent: bench/1\r\nAccept: */*\r\n"
            "Cookie: session=none\r\n\r\n"
        ).encode("ascii")
        self._socket: socket.socket = socket.create_connection(job.proxy, TIMEOUT)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if job.shape is not Shape.ABSOLUTE:
            head = f"CONNECT {job.authority} HTTP/1.1\r\nHost: {job.authority}\r\n\r\n"
            self._socket.sendall(head.encode("ascii"))
            self._read_head()
            self._socket = tls.wrap_socket(self._socket, server_hostname=job.host)

    def get(self) -> None:
        """One request and its whole answer; raises BadAnswerError, OSError."""
        self._socket.sendall(self._request)
        head, body = self._read_head()
        at = head.lower().find(b"\r\ncontent-length:")
        if at < 0:
            raise BadAnswerError("an answer without a length")
        missing = int(head[at + 17 :].partition(b"\r\n")[0]) - len(body)
        while missing > 0:
            data = self._socket.recv(65536)
            if not data:
                raise BadAnswerError("a cut body")
            missing -= len(data)

    def close(self) -> None:
        self._socket.close()

    def _read_head(self) -> tuple[bytes, bytes]:
        data = b""
        while _END not in data:
            more = self._socket.recv(65536)
            if not more:
                raise BadAnswerError(f"closed in a head: {data[:200]!r}")
            data += more
        head, _, body = data.partition(_END)
        if b" 200" not in head[:13]:
            raise BadAnswerError(head[:400].decode("latin-1"))
        return head, body


class Load:
    """All connections of a job."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._tls = ssl.create_default_context(cafile=job.ca)
        self._lock = threading.Lock()
        self._left, self._done = job.requests, 0
        self._failure: str | None = None
        self._kept: list[Exchange] = []

    def warm_up(self) -> None:
        """Open the kept connections and ask each once; for new ones: a few, so that leaves and caches are made."""
        keeps = self._job.shape is not Shape.NEW_TLS
        for _ in range(self._job.connections if keeps else 3):
            exchange = Exchange(self._job, self._tls)
            exchange.get()
            if keeps:
                self._kept.append(exchange)
            else:
                exchange.close()

    def run(self) -> dict[str, Any]:
        """Send everything; what came of it."""
        started = time.perf_counter()
        self._deadline = started + self._job.seconds
        workers: list[Exchange | None] = [*self._kept] or [None] * self._job.connections
        threads = [threading.Thread(target=self._work, args=(kept,)) for kept in workers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        seconds = time.perf_counter() - started
        for exchange in self._kept:
            exchange.close()
        return {"done": self._done, "seconds": seconds, "failure": self._failure}

    def _work(self, kept: Exchange | None) -> None:
        try:
            while self._take():
                exchange = kept or Exchange(self._job, self._tls)
                exchange.get()
                if kept is None:
                    exchange.close()
                with self._lock:
                    self._done += 1
        except (OSError, ValueError, BadAnswerError) as error:
            with self._lock:
                self._failure = self._failure or f"{type(error).__name__}: {error}"
                self._left = 0

    def _take(self) -> bool:
        with self._lock:
            self._left -= 1
            return self._left >= 0 and time.perf_counter() < self._deadline


def main() -> None:
    """Entry of the load process."""
    load = Load(parse_job(sys.stdin.readline()))
    try:
        load.warm_up()
    except (OSError, BadAnswerError) as error:
        print(json.dumps({"warm": False, "failure": f"{type(error).__name__}: {error}"}), flush=True)
        return
    print(json.dumps({"warm": True}), flush=True)
    if sys.stdin.readline():
        print(json.dumps(load.run()), flush=True)


if __name__ == "__main__":
    main()
