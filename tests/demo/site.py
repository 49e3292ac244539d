"""The demo's site: one TLS origin on loopback, its pages, and names that lead there or somewhere worse."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

from tests.kit import replies
from tests.kit.bodies import Coding, bomb
from tests.kit.dns import Addresses, ScriptedDns
from tests.kit.origin import Origin
from tests.kit.pki import Pki
from tests.kit.toml import write_toml

ADDRESS = "127.0.0.10"
"""Where the site is served; the demo's profile lets its names be dialled there, and nothing else on loopback."""

SITE, OTHER, METADATA, INTERNAL, REBIND = (
    "site.example", "other.example", "metadata.example", "internal.example", "rebind.example",
)  # fmt: skip

BOMB_BYTES = 256 << 20

ARTICLE = """<!doctype html><html><head><title>On gates</title></head><body>
<nav><a href="/">home</a> <a href="/about">about</a></nav>
<article><h1>On gates</h1>
<p>A gate in a wall is where the rules hold: whoever passes is seen, and whoever may not pass stays outside. It is
worth little if there is a second way through the wall.</p>
<h2>What a gatekeeper knows</h2>
<p>He knows the name on the letter, the road it came by and the house it is for, and he looks them up when the letter
passes, not the evening before.</p>
<ul><li>names are judged before they are looked up</li><li>addresses are judged when they are dialled</li></ul>
<p>More in the <a href="/notes">notes</a>.</p></article>
<footer>printed on loopback</footer></body></html>"""


class Site:
    """DNS, certificates and pages; ends with its context."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        enter = self._stack.enter_context
        self.pki = Pki(self._folder)
        self.dns = enter(ScriptedDns())
        names = (SITE, OTHER, METADATA, INTERNAL, REBIND)
        self.origin = enter(Origin(ADDRESS, tls=self.pki.server_context(*names)))
        self._name_hosts()
        self._make_pages()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def url(self, path: str, host: str = SITE) -> str:
        """An https URL of the site."""
        return f"https://{host}:{self.origin.port}{path}"

    def _name_hosts(self) -> None:
        self.dns.host_addresses(SITE, ADDRESS)
        self.dns.host_addresses(OTHER, ADDRESS)
        self.dns.host_addresses(METADATA, "169.254.169.254")
        self.dns.host_addresses(INTERNAL, "10.0.0.5")
        self.dns.host_addresses(REBIND, ADDRESS)
        # A rebinding name: the site's address to the first look-up, this machine's own to every later one.
        self.dns.script(REBIND, "A", Addresses(ADDRESS), Addresses("127.0.0.1"))

    def _make_pages(self) -> None:
        route = self.origin.route
        route("/article", replies.page(ARTICLE))
        route("/data.json", replies.json({"gate": "open", "rules": 30}))
        route("/notes", replies.text("plain words\nin two lines\n"))
        route("/moved", replies.redirect(self.url("/article", OTHER)))
        route("/inward", replies.redirect(self.url("/secret", INTERNAL)))
        for number in range(6):
            route(f"/hop/{number}", replies.redirect(f"/hop/{number + 1}"))
        route("/bomb", replies.body_as_is(bomb(Coding.GZIP, BOMB_BYTES), "gzip"))

    def write_config(self, changes: Mapping[str, Any]) -> Path:
        """A configuration whose `demo` profile lets the site be reached on loopback. changes: of that profile."""
        profile = {
            "ports": [443, self.origin.port],
            "exceptions": [{"host": "*.example", "address": ADDRESS}],
            **changes,
        }
        return write_toml(
            self._folder / "demo.toml",
            {
                "gateway": {
                    "listeners": [{"address": "127.0.0.1:0", "profile": "demo"}],
                    "default_profile": "demo",
                },
                "dns": {"nameservers": [f"127.0.0.1:{self.dns.port}"]},
                "tls": {"extra_ca": [str(self.pki.ca_path)]},
                "daemon": {"listen": "127.0.0.1:0", "profile": "demo"},
                "operator": {"listen": "127.0.0.1:0"},
                "profiles": {"demo": profile},
            },
        )
