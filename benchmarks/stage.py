"""What every proxy is measured against: origin, DNS server, CAs, a scratch folder. Loopback only."""

import subprocess
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import trustme

HOST = "bench.example"
ADDRESS = "127.0.0.10"
STOP_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Place:
    """Where things are. `origin_ca` verifies the origin; `folder` is deleted at the end."""

    folder: Path
    origin_ca: Path
    origin_port: int
    dns_port: int

    @property
    def certificate(self) -> Path:
        """Of HOST and ADDRESS, with its key."""
        return self.folder / "origin.pem"


class Stage:
    """Starts the servers; they end with its context."""

    def __init__(self) -> None:
        self._stack = ExitStack()

    def __enter__(self) -> Place:
        folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="fetchd-bench-")))
        folder.chmod(0o755)  # squid gives its rights away and must still find its files
        authority = trustme.CA(key_type=trustme.KeyType.ECDSA)
        leaf = authority.issue_cert(HOST, ADDRESS, key_type=trustme.KeyType.ECDSA)
        origin_ca, certificate = folder / "origin-ca.pem", folder / "origin.pem"
        authority.cert_pem.write_to_path(str(origin_ca))
        leaf.private_key_and_cert_chain_pem.write_to_path(str(certificate))
        dns = self._stack.enter_context(ServerProcess("benchmarks.nameserver", ADDRESS))
        origin = self._stack.enter_context(ServerProcess("benchmarks.origin", ADDRESS, str(certificate)))
        return Place(folder, origin_ca, origin.port, dns.port)

    def __exit__(self, *_: object) -> None:
        self._stack.close()


class ServerProcess:
    """A module of this package as a process that prints its port and ends with its standard input."""

    def __init__(self, module: str, *arguments: str) -> None:
        self._command = [sys.executable, "-m", module, *arguments]

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())
        return self

    def __exit__(self, *_: object) -> None:
        end(self._process)


def end(process: "subprocess.Popen[str]") -> None:
    """Close its input, then ask, then insist."""
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()
    if process.stdin is None:
        process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
