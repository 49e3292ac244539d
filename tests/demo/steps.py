"""What the demo tries, in order, and what must come of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.demo.running import Outcome, Running, outcome_of
from tests.demo.site import METADATA, OTHER, REBIND, SITE, Site


@dataclass(frozen=True, slots=True)
class Step:
    """One try. `rule` None means allowed; `holds` must be in what was read or said."""

    what: str
    rule: str | None
    holds: str
    attempt: Callable[[], Outcome]

    def is_as_expected(self, outcome: Outcome) -> bool:
        expected = "allowed" if self.rule is None else "refused"
        return outcome.verdict == expected and outcome.rule == self.rule and self.holds in outcome.text


def make_steps(site: Site, running: Running) -> list[Step]:
    """Pages first, then attacks."""

    def fetching(url: str) -> Callable[[], Outcome]:
        return lambda: running.fetch(url)

    return [
        Step("fetch an article", None, "# On gates", fetching(site.url("/article"))),
        Step("fetch a JSON document", None, '"rules": 30', fetching(site.url("/data.json"))),
        Step("fetch a text", None, "in two lines", fetching(site.url("/notes"))),
        Step("follow a redirect to another host", None, f"https://{OTHER}", fetching(site.url("/moved"))),
        Step("plain http", "scheme", "scheme not allowed: http", fetching(f"http://{SITE}/")),
        Step("a port of its own", "port", "port not allowed: 22", fetching(f"https://{SITE}:22/")),
        Step("an IP literal in disguise", "ip-literal", "127.0.0.1", fetching("https://0x7f.1/")),
        Step(
            "a name that leads to 169.254.169.254", "no-allowed-address",
            f"host {METADATA} has no allowed address", fetching(site.url("/latest/meta-data/", METADATA)),
        ),
        Step("a rebinding name, first look-up", None, "# On gates", fetching(site.url("/article", REBIND))),
        Step(
            "the same name, now 127.0.0.1", "no-allowed-address",
            f"host {REBIND} has no allowed address", fetching(site.url("/article", REBIND)),
        ),
        Step("a redirect to an internal host", "no-allowed-address", "internal", fetching(site.url("/inward"))),
        Step("a sixth redirect", "redirect-cap", "exceeded max redirects (5)", fetching(site.url("/hop/0"))),
        Step("a gzip bomb of 256 MiB", "byte-cap", "8388608-byte size cap", fetching(site.url("/bomb"))),
        Step("raw bytes in a tunnel", "not-http", "only HTTP", lambda: _raw_bytes(site, running)),
        Step("a fronted request", "authority-mismatch", "Host field", lambda: _fronted(site, running)),
    ]  # fmt: skip


def _raw_bytes(site: Site, running: Running) -> Outcome:
    """SSH through the tunnel to an allowed name."""
    with running.tunnel(f"{SITE}:{site.origin.port}") as tunnel:
        tunnel.send(b"SSH-2.0-OpenSSH_9.9\r\n")
        return outcome_of(tunnel.read_response())


def _fronted(site: Site, running: Running) -> Outcome:
    """CONNECT and TLS for an allowed name, Host for another."""
    authority = f"{SITE}:{site.origin.port}"
    with running.tunnel(authority) as tunnel:
        inside = tunnel.start_tls(SITE, running.ca_path)
        return outcome_of(inside.get("/article", "hidden.example"))
