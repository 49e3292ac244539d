"""Look names up and judge the answers, a JSON line in, a JSON line out: what `fetchd check --resolve` asks.

    first line     {"config": <render_document(config)>, "profile": "default"}
    further lines  {"host": "example.com", "port": 443}
    answer         {"allowed": ["93.184.216.34"],
                    "dropped": [{"address": "10.0.0.1", "range": "10.0.0.0/8"}],
                    "rule": null, "message": "", "failure": null}

Resolver and judgement are the gateway's own; nothing is contacted but nameservers. Other input ends the process
with status 2 and one line on standard error.
"""

import asyncio
import json
import sys
from collections.abc import Mapping
from typing import BinaryIO

from proxy_addons.dial import Dialer, Judged
from proxy_addons.own_addresses import Listener, OwnAddresses
from proxy_addons.policy.config import Config, ConfigError, parse_config

from .dns_client import DnsClient
from .nameservers import NameserverError, find_nameservers


class RequestError(ValueError):
    """A line that is not in the form above."""


def render_judged(judged: Judged) -> dict[str, object]:
    """The answer line as a mapping."""
    verdict = judged.verdict
    return {
        "allowed": judged.allowed,
        "dropped": [{"address": address, "range": row} for address, row in judged.report.dropped],
        "rule": verdict.rule,
        "message": verdict.message,
        "failure": verdict.failure,
    }


def select_own_addresses(config: Config) -> OwnAddresses:
    """This machine's addresses and what a gateway of this configuration would listen on."""
    listeners = [one.endpoint for one in (*config.gateway.listeners, config.daemon.listener)]
    return OwnAddresses(Listener(host, port) for host, port in (*listeners, config.operator.endpoint))


def serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Answer until the input ends. Raises RequestError, ConfigError, NameserverError."""
    first = _parse_line(requests.readline())
    document, name = first.get("config"), first.get("profile")
    if not isinstance(document, dict) or not isinstance(name, str):
        raise RequestError('the first line is {"config": …, "profile": …}')
    config = parse_config(document, source="first line")
    if name not in config.profiles:
        raise RequestError(f"there is no profile {name}")
    profile = config.profiles[name]
    resolver = DnsClient(find_nameservers(config.dns.nameservers), profile.lookup_timeout)
    dialer = Dialer(resolver, select_own_addresses(config))
    with asyncio.Runner() as runner:
        while line := requests.readline():
            request = _parse_line(line)
            host, port = request.get("host"), request.get("port")
            if not isinstance(host, str) or not isinstance(port, int):
                raise RequestError('a request is {"host": …, "port": …}')
            judged = runner.run(dialer.judge(host, port, profile))
            answers.write(json.dumps(render_judged(judged)).encode("ascii") + b"\n")
            answers.flush()


def _parse_line(line: bytes) -> Mapping[str, object]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise RequestError("each line is one JSON object")
    return found


def main() -> int:
    """Standard input to standard output; the exit status."""
    try:
        serve(sys.stdin.buffer, sys.stdout.buffer)
    except (RequestError, ConfigError, NameserverError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
