"""The proxies as processes: ours, stock mitmdump with the naive script, squid ssl-bump. Each has one EC CA.

All of them verify the origin, bump CONNECT, strip credentials and write a log of hops to disk.
"""

import json
import os
import pwd
import shutil
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from benchmarks.stage import ADDRESS, Place, end
from certs.authority import load_or_create_authority

START_SECONDS = 60.0
SQUID_HELPERS = (Path("/usr/lib/squid/security_file_certgen"), Path("/usr/libexec/security_file_certgen"))
MITMDUMP = Path(sys.executable).with_name("mitmdump")
NAIVE = Path(__file__).with_name("naive.py")


class ProxyStartError(Exception):
    """A proxy did not start; the text is the end of what it said."""


@dataclass(frozen=True, slots=True)
class Running:
    """A proxy that accepts clients. `pid`: the process at the top of its tree. `ca`: what its leaves verify by."""

    name: str
    pid: int
    address: tuple[str, int]
    ca: Path


class Proxy(Protocol):
    """A proxy as a context: it runs within."""

    def __enter__(self) -> Running: ...

    def __exit__(self, *_: object) -> None: ...


class Ours:
    """`python -m proxy_addons`: every safeguard on, audit on disk, names asked of the DNS server."""

    def __init__(
        self,
        place: Place,
        workers: int,
        python: tuple[str, ...] = ("-m", "proxy_addons"),
        *,
        budgets: bool = False,
    ) -> None:
        self._place, self._workers, self._python, self._budgets = place, workers, python, budgets
        self.name = f"fetchd, {workers} worker{'s' if workers > 1 else ''}{', budgets' if budgets else ''}"

    def __enter__(self) -> Running:
        state = self._place.folder / f"fetchd-{self._workers}{'-budgets' if self._budgets else ''}"
        told = {"config": self._config(), "source": "benchmark", "state_dir": str(state)}
        self._process = subprocess.Popen(
            [sys.executable, *self._python], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(told) + "\n")
        self._process.stdin.flush()
        said = json.loads(self._process.stdout.readline() or '{"event": "ended"}')
        if said["event"] != "ready":
            end(self._process)
            raise ProxyStartError(str(said))
        host, port, _ = said["listeners"][0]
        return Running(self.name, self._process.pid, (host, port), state / "ca.pem")

    def __exit__(self, *_: object) -> None:
        end(self._process)

    def _config(self) -> dict[str, object]:
        profile: dict[str, object] = {
            "ports": [self._place.origin_port],
            "exceptions": [{"host": "*.example", "address": ADDRESS}],
        }
        if self._budgets:  # counted, and never spent
            profile |= {"concurrent_hops": 1000, "requests_per_minute": 10_000_000, "bytes_per_day": 1 << 40}
        return {
            "gateway": {
                "listeners": [{"address": "127.0.0.1:0", "profile": "bench"}],
                "workers": self._workers,
                "default_profile": "bench",
            },
            "dns": {"nameservers": [f"127.0.0.1:{self._place.dns_port}"]},
            "tls": {"extra_ca": [str(self._place.origin_ca)]},
            "daemon": {"listen": "127.0.0.1:0"},
            "operator": {"listen": "127.0.0.1:0"},
            "profiles": {"bench": profile},
        }


class _Daemon:
    """A proxy that is ready when its port answers; what it says goes to a file."""

    name: str

    def __init__(self, place: Place, folder: str) -> None:
        self._place, self._folder = place, place.folder / folder
        self._folder.mkdir()
        authority = load_or_create_authority(self._folder / "keys", self._folder / "ca.pem")
        self._ca = authority.certificate_path
        self._port = free_port()

    def _start(self, command: list[str], environment: dict[str, str]) -> Running:
        said = self._folder / "said.txt"
        with said.open("w") as sink:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink, text=True,
                env={**os.environ, **environment},
            )  # fmt: skip
        address = ("127.0.0.1", self._port)
        deadline = time.monotonic() + START_SECONDS
        while not accepts(address):
            if self._process.poll() is not None or time.monotonic() > deadline:
                end(self._process)
                raise ProxyStartError(f"{self.name} did not start: {said.read_text()[-1000:]}")
            time.sleep(0.05)
        return Running(self.name, self._process.pid, address, self._ca)

    def __exit__(self, *_: object) -> None:
        end(self._process)


class Mitmdump(_Daemon):
    """Stock `mitmdump` with `naive.py`, as it comes: two lines a flow, here to a file."""

    name = "mitmdump + naive script"

    def __init__(self, place: Place) -> None:
        super().__init__(place, "mitmdump")

    def __enter__(self) -> Running:
        return self._start(
            [
                str(MITMDUMP), "--listen-host", "127.0.0.1", "--listen-port", str(self._port),
                "--set", f"confdir={self._folder / 'keys'}",
                "--set", f"ssl_verify_upstream_trusted_ca={self._place.origin_ca}",
                "--scripts", str(NAIVE),
            ],
            {
                "NAIVE_PORTS": str(self._place.origin_port),
                "NAIVE_DNS": f"127.0.0.1:{self._place.dns_port}",
                "NAIVE_EXCEPT": ADDRESS,
            },
        )  # fmt: skip


class Squid(_Daemon):
    """Debian's `squid-openssl` with ssl-bump and generated leaves.

    Its DNS client only asks port 53, so its one name stands in a hosts file: its look-ups cost nothing here.
    """

    name = "squid ssl-bump"

    def __init__(self, place: Place, host: str) -> None:
        super().__init__(place, "squid")
        self._host = host

    @staticmethod
    def find() -> tuple[str, Path] | None:
        """Program and certificate helper, None when squid with OpenSSL is not installed."""
        program = shutil.which("squid", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
        helper = next((path for path in SQUID_HELPERS if path.exists()), None)
        return (program, helper) if program is not None and helper is not None else None

    def __enter__(self) -> Running:
        found = self.find()
        if found is None:
            raise ProxyStartError("squid with ssl-bump (Debian: squid-openssl) is not installed")
        program, helper = found
        (self._folder / "hosts").write_text(f"{ADDRESS} {self._host}\n")
        made = [str(helper), "-c", "-s", str(self._folder / "leaves"), "-M", "4MB"]
        subprocess.run(made, check=True, capture_output=True)
        config = self._folder / "squid.conf"
        config.write_text(self._config(helper))
        if os.geteuid() == 0:
            _give(self._folder, "proxy")
        return self._start([program, "-N", "-f", str(config)], {})

    def _config(self, helper: Path) -> str:
        folder, key = self._folder, self._folder / "keys" / "mitmproxy-ca.pem"
        return f"""\
http_port 127.0.0.1:{self._port} ssl-bump cert={key} generate-host-certificates=on \
dynamic_cert_mem_cache_size=4MB tls-dh=prime256v1
sslcrtd_program {helper} -s {folder}/leaves -M 4MB
sslcrtd_children 2 startup=1 idle=1
tls_outgoing_options cafile={self._place.origin_ca}
acl hello at_step SslBump1
ssl_bump peek hello
ssl_bump bump all
acl origin_port port {self._place.origin_port}
acl reading method GET HEAD CONNECT
acl literal dstdom_regex ^[0-9.]+$ ^\\[
acl private dst 0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 169.254.0.0/16 172.16.0.0/12 192.168.0.0/16
http_access deny !origin_port
http_access deny !reading
http_access deny literal
http_access deny private
http_access allow localhost
http_access deny all
request_header_access Cookie deny all
request_header_access Authorization deny all
request_header_access Referer deny all
cache deny all
hosts_file {folder}/hosts
access_log stdio:{folder}/access.log
cache_log {folder}/cache.log
pid_filename {folder}/squid.pid
coredump_dir {folder}
visible_hostname localhost
shutdown_lifetime 1 second
workers 1
"""


def free_port() -> int:
    """A port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def accepts(address: tuple[str, int]) -> bool:
    """Whether somebody listens there."""
    try:
        socket.create_connection(address, 1.0).close()
    except OSError:
        return False
    return True


def _give(folder: Path, user: str) -> None:
    owner = pwd.getpwnam(user)
    for path in (folder, *folder.rglob("*")):
        os.chown(path, owner.pw_uid, owner.pw_gid)
