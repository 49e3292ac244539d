"""What the demo tries, in order, and what must come of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.demo.running import ALLOWED, REFUSED, Outcome, add_agent, fetch, open_tunnel, read, read_outcome
from tests.demo.site import METADATA, OTHER, REBIND, SITE, Site
from tests.kit.installed import Up


@dataclass(frozen=True, slots=True)
class Step:
    """One try, and what it must come to: verdict, rule, and `holds` in what was read or said."""

    what: str
    verdict: str
    rule: str | None
    holds: str
    attempt: Callable[[], Outcome]

    def is_as_expected(self, outcome: Outcome) -> bool:
        return (outcome.verdict, outcome.rule) == (self.verdict, self.rule) and self.holds in outcome.text


def make_steps(site: Site, up: Up) -> list[Step]:
    """Pages first, then attacks, then a page read whole and an agent of its own."""

    def page(what: str, holds: str, url: str) -> Step:
        return Step(what, ALLOWED, None, holds, lambda: fetch(up, url))

    def attack(what: str, rule: str, holds: str, url: str) -> Step:
        return Step(what, REFUSED, rule, holds, lambda: fetch(up, url))

    return [
        page("fetch an article", "# On gates", site.url("/article")),
        page("fetch a JSON document", '"rules": 30', site.url("/data.json")),
        page("fetch a text", "in two lines", site.url("/notes")),
        page("follow a redirect to another host", f"https://{OTHER}", site.url("/moved")),
        attack("plain http", "scheme", "scheme not allowed: http", f"http://{SITE}/"),
        attack("a port of its own", "port", "port not allowed: 22", f"https://{SITE}:22/"),
        attack("an IP literal in disguise", "ip-literal", "127.0.0.1", "https://0x7f.1/"),
        attack(
            "a name that leads to 169.254.169.254", "no-allowed-address",
            f"host {METADATA} has no allowed address", site.url("/latest/meta-data/", METADATA),
        ),
        page("a rebinding name, first look-up", "# On gates", site.url("/article", REBIND)),
        attack(
            "the same name, now 127.0.0.1", "no-allowed-address",
            f"host {REBIND} has no allowed address", site.url("/article", REBIND),
        ),
        attack("a redirect to an internal host", "no-allowed-address", "internal", site.url("/inward")),
        attack("a sixth redirect", "redirect-cap", "exceeded max redirects (5)", site.url("/hop/0")),
        attack("a gzip bomb of 256 MiB", "byte-cap", "8388608-byte size cap", site.url("/bomb")),
        Step("raw bytes in a tunnel", REFUSED, "not-http", "only HTTP", lambda: _send_raw_bytes(site, up)),
        Step(
            "a fronted request", REFUSED, "authority-mismatch", "Host field", lambda: _send_fronted(site, up)
        ),
        Step(
            "read a page whole, with a receipt", ALLOWED, None, "receipt holds",
            lambda: read(up, site.url("/article"), [SITE]),
        ),
        Step(
            "a read that leaves its allowlist", REFUSED, "host", f"host {OTHER}, which redirect 1 leads to",
            lambda: read(up, site.url("/moved"), [SITE]),
        ),
        # From here on there is an agent, and whoever leaves out its token is nobody.
        Step(
            "an agent with its token", ALLOWED, None, "# On gates",
            lambda: fetch(up, site.url("/article"), add_agent(up, "reader", "demo")),
        ),
        attack("the same without a token", "identity", "known agents only", site.url("/article")),
    ]  # fmt: skip


def _send_raw_bytes(site: Site, up: Up) -> Outcome:
    """SSH through the tunnel to an allowed name."""
    with open_tunnel(up, f"{SITE}:{site.origin.port}") as tunnel:
        tunnel.send(b"SSH-2.0-OpenSSH_9.9\r\n")
        return read_outcome(tunnel.read_response())


def _send_fronted(site: Site, up: Up) -> Outcome:
    """CONNECT and TLS for an allowed name, Host for another."""
    with open_tunnel(up, f"{SITE}:{site.origin.port}") as tunnel:
        inside = tunnel.start_tls(SITE, up.ca_path)
        return read_outcome(inside.get("/article", "hidden.example"))
