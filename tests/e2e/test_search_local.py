"""web_search over the pages that a running installation has read: no key, no network (SPEC 7)."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from fetchd.core.envelope import CUT_OUT
from tests.e2e.conftest import Installed
from tests.e2e.stage import post_json
from tests.kit import replies
from tests.kit.processes import poll_until

WEB_SEARCH, PAGE_READ = "/v1/tools/web_search", "/v1/tools/page_read"
PAGE = (
    "<html lang=en><title>On {0}</title><h1>{0}</h1>"
    + "<p>A paragraph that speaks of {0} and is long.</p>" * 20
)


@pytest.fixture(autouse=True)
def _pages(installed: Installed) -> None:
    route = installed.stage.origin.route
    for word in ("quokkas", "wombats", "numbats"):
        route(f"/{word}", replies.page(PAGE.format(word)))
    route("/lost-bilbies", replies.answer(404, PAGE.format("bilbies").encode()))


def search(installed: Installed, query: str, **arguments: object) -> list[dict[str, Any]]:
    reply = post_json(installed.up.tools, WEB_SEARCH, {"query": query, **arguments})
    assert reply.status == 200, reply.document
    text = CUT_OUT.fullmatch(str(reply.document["text"]))
    assert text is not None
    return json.loads(text[1])["results"]


def wait_found(installed: Installed, query: str) -> None:
    poll_until(lambda: bool(search(installed, query)), "found", 20)


def test_a_fetched_page_is_found_with_the_url_to_fetch_it_by(installed: Installed) -> None:
    url = installed.stage.url("/quokkas?id=7")
    assert search(installed, "quokkas") == []
    installed.web_fetch(url, max_chars=10)
    wait_found(installed, "quokkas")

    (row,) = search(installed, "speaking of Quokkas", search_lang="en-GB", freshness="pd")
    assert (row["title"], row["url"], row["site_name"]) == ("On quokkas", url, "a.example")
    assert "speaks of quokkas" in row["description"]
    assert search(installed, "quokkas", search_lang="de") == []
    assert search(installed, "quokkas", exclude_domains=["a.example"]) == []


def test_a_page_read_for_its_links_is_found_by_its_text(installed: Installed) -> None:
    post_json(installed.up.tools, PAGE_READ, {"url": installed.stage.url("/wombats"), "extract": "links"})
    wait_found(installed, "wombats")

    assert search(installed, "wombats")[0]["title"] == "On wombats"


def test_what_was_refused_or_failed_is_not_found(installed: Installed) -> None:
    installed.web_fetch(installed.stage.url("/lost-bilbies"))
    installed.web_fetch(installed.stage.url("/bilbies", "denied.example"))
    installed.web_fetch(installed.stage.url("/quokkas"))
    wait_found(installed, "quokkas")

    assert search(installed, "bilbies") == []


def test_the_command_line_shares_the_index(installed: Installed) -> None:
    """A page that a command has fetched is found by the daemon, and the other way round."""
    config = ("--config", str(installed.stage.config))
    done = installed.up.run("fetch", installed.stage.url("/numbats"), *config)
    assert done.returncode == 0, done.stderr

    assert [row["title"] for row in search(installed, "numbats")] == ["On numbats"]
    found = json.loads(installed.up.run("search", "numbats", "--json", *config).stdout)
    assert "On numbats" in found["text"]
    status = json.loads(installed.up.run("index", "status").stdout)
    assert [row["agent"] for row in status["agents"]] == ["local"]


def test_pages_leave_the_index_with_their_bodies(installed: Installed) -> None:
    post_json(installed.up.tools, PAGE_READ, {"url": installed.stage.url("/wombats?body")})
    wait_found(installed, "wombats")
    with closing(sqlite3.connect(installed.up.state / "fetchd.db", autocommit=True)) as db:
        db.execute("UPDATE blobs SET held_until = 0")  # nobody waits for a read's hold to end
    done = installed.up.run("blob", "gc", "--max-bytes", "0", "--drop-receipted")
    assert done.stderr.endswith("; 0 left (0 bytes)\n"), done.stderr

    assert search(installed, "wombats") == []


def test_a_damaged_index_of_a_running_daemon_mends_itself(installed: Installed) -> None:
    installed.web_fetch(installed.stage.url("/quokkas"))
    wait_found(installed, "quokkas")
    path: Path = installed.up.state / "index" / "agent-local.db"
    with closing(sqlite3.connect(path, autocommit=True)) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    path.write_bytes(b"\xa5" * path.stat().st_size)

    assert [row["title"] for row in search(installed, "quokkas")] == ["On quokkas"]
    assert installed.web_fetch(installed.stage.url("/wombats")).status == 200
