"""The operator's pages over HTTP: what each answers, and that no address makes one fail."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import re
import threading
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote_from_bytes, urlencode

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fetchd.audit_index.interface import Filter, IndexUnavailableError, Row
from fetchd.audit_index.memory import MemoryAuditIndex
from fetchd.faces.audit_page import export
from fetchd.faces.audit_page.export import read_pages, render_csv, render_json
from fetchd.faces.audit_page.live import Pulse
from fetchd.faces.audit_page.questions import KEYS, Question, QuestionError, parse_question
from fetchd.faces.audit_page.timeline import draw_timeline
from fetchd.faces.audit_page.verifying import FRESH, Verification, Verifier, verify_log
from fetchd.faces.audit_page.views import FIELDS
from fetchd.faces.operator_access.sessions import IDLE_SECONDS
from fetchd.store import Blob, StoredRead
from proxy_addons.audit import AuditKeys, AuditLog, CallOutcome, Outcome
from proxy_addons.audit.ask_record import AskRecord
from proxy_addons.audit.reader import parse_log_line
from proxy_addons.audit.search_record import SearchRecord
from proxy_addons.audit.story import tell_story
from proxy_addons.audit.web_record import WebRecord
from tests.fetchd.audit_index.kit import KEYS as AUDIT_KEYS
from tests.fetchd.audit_index.kit import START_NS, Clock, foreign, hop, write_log
from tests.fetchd.faces.audit_page.hostile import write_hostile
from tests.fetchd.faces.audit_page.site import NOW, TOKEN, Site, hidden_fields, open_site
from tests.kit.sync import PATIENCE

AUTH = {"Authorization": f"Bearer {TOKEN}"}
JSON = {**AUTH, "Accept": "application/json"}


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    write_log(tmp_path / "audit")
    async with open_site(tmp_path) as found:
        yield found


async def get(site: Site, path: str, **fields: str) -> httpx.Response:
    async with site.browser() as browser:
        return await browser.get(path, headers={**AUTH, **fields})


# ------------------------------------------------------------------------------------------------ addresses


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/log",
        "/fetch/g1",
        "/fetch/none",
        "/line",
        "/export.csv",
        "/?x=1",
        "/sign-in",
        "/nothing",
        "/log/verify",
    ],
)
async def test_every_answer_has_the_protecting_fields(site: Site, path: str) -> None:
    async with site.browser() as browser:
        answer = await browser.get(path, headers={} if path == "/sign-in" else AUTH)
    assert {name: answer.headers[name] for name in FIELDS} == dict(FIELDS)
    assert "unsafe" not in answer.headers["content-security-policy"]


@pytest.mark.parametrize(
    ("path", "status", "text"),
    [
        ("/nothing", 404, "there is no such page here"),
        ("/log/verify", 405, "this address takes another method"),
        ("/static/nothing.js", 404, "there is no such page here"),
    ],
)
async def test_what_no_route_answers_is_a_page_or_a_problem_document(
    site: Site, path: str, status: int, text: str
) -> None:
    page, document = await get(site, path), await get(site, path, Accept="application/json")
    assert (page.status_code, document.status_code) == (status, status)
    assert text in page.text and '<a href="/">' in page.text
    assert document.json()["detail"] == text
    assert page.headers.get("allow") == ("POST" if status == 405 else None)


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("agnet=bot", "agnet: no such filter; did you mean agent?"),
        ("agent=a&agent=b", "agent: write it once"),
        ("since=yesterday", "since: write a time in UTC, such as 2026-01-31T12:00"),
        ("until=2026-13-01T00:00", "until: write a time in UTC"),
        ("since=2026-01-02T00:00&until=2026-01-02T00:00", "until: write a time after since"),
        ("range=2h", "range: write one of 1h, 24h, 7d, 30d, all"),
        ("rows=51", "rows: write one of 25, 50, 100, 200"),
        ("before=1", "before: use the address of a link"),
        ("host=" + "x" * 256, "host: write at most 255 characters"),
        ("agent=%FF", "write the query percent-encoded, in UTF-8"),
        ("x" * 4_001, "the query is longer than 4000 characters"),
    ],
)
async def test_what_is_no_question_is_400_and_says_what_to_write(site: Site, query: str, text: str) -> None:
    for path in ("/", "/export.csv", "/export.json"):
        answer = await get(site, f"{path}?{query}", Accept="application/json")
        assert answer.status_code == 400, path
        assert text in answer.json()["detail"]
        page = await get(site, f"{path}?{query}")
        assert page.status_code == 400 and "<h1>Bad Request</h1>" in page.text


values = st.text(max_size=20) | st.sampled_from(
    ["bot", "*.example", "refused", "2026-01-01", "2026-01-01T00:00:00.5Z", "0001-01-01", "9999-12-31T23:59", "all",
     "25", "-5.1", "1.2", "999999999999999999.999999999999999999", "١.٢", "\x00", "\ud800"]
)  # fmt: skip
odd_values = (
    st.sampled_from(["decision", "close", "fetch", "refused", "2026-01-01T00:00:00Z", "9999-12-31T23:59:59-14:00"])
    | st.none() | st.booleans() | st.integers() | st.floats() | st.text()
    | st.dictionaries(st.sampled_from(["dns", "connect", "tls", "first_byte", "total"]), st.floats() | st.integers())
)  # fmt: skip
pairs = st.lists(st.tuples(st.sampled_from(KEYS) | st.text(max_size=5), values), max_size=5)
queries = pairs.map(lambda found: urlencode(found, errors="surrogatepass").encode()) | st.binary(max_size=60)


@given(queries)
def test_any_query_is_a_question_or_the_error_of_one(query: bytes) -> None:
    try:
        found = parse_question(query, NOW)
    except QuestionError:
        return
    again = parse_question(found.link("").encode().removeprefix(b"?"), NOW)
    assert (again.filter, again.rows) == (found.filter, found.rows)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(query=queries)
async def test_any_query_is_a_page_or_400(site: Site, query: bytes) -> None:
    text = quote_from_bytes(query, safe="=&%+") if not query.isascii() else query.decode("ascii")
    text = "".join(one for one in text if " " < one < "\x7f" and one != "#")
    for path in ("/", "/export.json", "/line"):
        assert (await get(site, f"{path}?{text}")).status_code in (200, 400, 404), (path, text)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=st.text(max_size=30))
async def test_any_fetch_id_is_a_page_or_404(site: Site, name: str) -> None:
    path = "/fetch/" + quote_from_bytes(name.encode("utf-8", "surrogatepass"), safe="")
    assert (await get(site, path)).status_code in (200, 404, 307)


# ---------------------------------------------------------------------------------------------------- pages


async def test_the_first_page_shows_rows_counts_and_where_to_go_on(site: Site) -> None:
    log = AuditLog.open(site.log, "gateway-5", AUDIT_KEYS, clock=Clock(START_NS))
    for number in range(10):
        hop(log, fetch_id=f"more{number}")
    log.close()
    site.index()
    page = (await get(site, "/?rows=25")).text
    assert page.count('<tr role="row">') == 26
    assert "https://evil.example/" in page and 'href="/fetch/g1"' in page
    assert 'href="/?rows=25&amp;before=' in page
    following = page.partition('id="older" href="')[2].partition('"')[0].replace("&amp;", "&")
    older = (await get(site, following)).text
    assert older.count('<tr role="row">') > 1 and "data-live" not in older
    assert "Nothing matches" in (await get(site, "/?agent=nobody")).text


async def test_a_row_says_why_and_leads_to_all_of_its_agent(site: Site) -> None:
    """The message of the log stands in the row; one that a close line brings takes the place of the first."""
    log = AuditLog.open(site.log, "gateway-5", AUDIT_KEYS, clock=Clock(START_NS))
    hop(log, fetch_id="late", detail="reported <only>", would_refuse="host",
        closing={"verdict": Outcome.REFUSED, "rule": "byte-cap", "detail": "more than 2 bytes"})  # fmt: skip
    hop(log, fetch_id="would", detail="reported <only>", would_refuse="host")
    site.index()
    hop(log, fetch_id="begun", end=False)
    site.index()
    log.close()
    page = (await get(site, "/?rule=host&rows=25")).text
    assert page.count("reported &lt;only&gt;") == 1 and '<span class="rule"><bdi>host</bdi>' in page
    assert "more than 2 bytes" in (await get(site, "/?fetch=late")).text
    assert 'href="/?rule=host&amp;rows=25&amp;agent=bot"' in page
    rows = {row["fetch_id"]: row["detail"] for row in (await get(site, "/export.json")).json()["rows"]}
    assert (rows["g1"], rows["late"], rows["would"], rows["f1"]) == (
        "no", "more than 2 bytes", "reported <only>", "",
    )  # fmt: skip


async def test_a_refused_fetch_says_why_and_what_would_allow_it(site: Site) -> None:
    page = (await get(site, "/fetch/g1")).text
    assert "refused by rule host" in page and "https://evil.example/" in page
    assert "<dt>Message</dt><dd><bdi>no</bdi>" in page and "GET https://evil.example/" in page
    assert page.index("What would allow it") < page.index("Timeline")
    page = (await get(site, "/fetch/g2")).text
    assert "let through, then refused by rule byte-cap" in page
    assert "What would allow it" in page and "[profiles." in page
    assert "receiving" in page and "look-up 1.0 ms" in page


async def test_a_chain_of_hops_is_drawn_one_behind_the_other() -> None:
    """Look-up, connection, TLS, waiting, receiving of each hop; a refusal at the end; all within the picture."""
    start = 1_767_225_600.0
    lines = []
    for number, (begin, total) in enumerate(((0, 100), (110, 50))):
        words = {"kind": "decision", "seq": 2 * number + 1, "hop": number, "verdict": "allowed"}
        at = datetime.fromtimestamp(start + (begin + 10) / 1000, UTC).isoformat()
        lines.append({**words, "time": at, "ms": {"dns": 10, "total": 10}})
        at = datetime.fromtimestamp(start + (begin + total) / 1000, UTC).isoformat()
        ms = {"dns": 10, "connect": 5, "tls": 5, "first_byte": 30, "total": total}
        lines.append(
            {**words, "kind": "close", "decision": words["seq"], "seq": 9 + number, "time": at, "ms": ms}
        )
    at = datetime.fromtimestamp(start + 0.17, UTC).isoformat()
    refused = {"kind": "decision", "seq": 7, "hop": 2, "verdict": "refused", "time": at, "ms": {"total": 0.5}}
    call = {"kind": "fetch", "tool": "web_fetch", "time": at, "ms": 170.0}
    read = [parse_log_line("c", json.dumps(one).encode()) for one in (*lines, refused, call)]
    drawn = draw_timeline(tell_story("x", read))

    assert [lane.name for lane in drawn.lanes] == ["web_fetch", "hop 0", "hop 1", "hop 2"]
    assert [round(lane.start_ms) for lane in drawn.lanes] == [0, 0, 110, 170]
    assert [(one.kind, round(one.ms)) for one in drawn.lanes[1].spans] == [
        ("dns", 10), ("connect", 5), ("tls", 5), ("first_byte", 10), ("rest", 70),
    ]  # fmt: skip
    assert [(one.kind, one.name) for one in drawn.lanes[3].spans] == [("refusal", "judging")]
    spans = [one for lane in drawn.lanes for one in lane.spans]
    assert all(one.left >= 0 and one.left + one.width <= 1_000.01 for one in spans)
    ends = [one.left + one.width for one in drawn.lanes[1].spans]
    assert ends == sorted(ends)


@given(
    st.lists(
        st.dictionaries(
            st.sampled_from(["kind", "time", "hop", "seq", "decision", "ms", "verdict"]), odd_values
        )
    )
)
def test_any_lines_can_be_drawn(lines: list[dict[str, object]]) -> None:
    read = [parse_log_line("c", json.dumps(one).encode()) for one in lines]
    if read:
        drawn = draw_timeline(tell_story("x", read))
        assert all(0 <= one.left <= 1_000 and one.width >= 0 for lane in drawn.lanes for one in lane.spans)


async def test_a_page_that_was_kept_is_shown_with_its_receipt(site: Site) -> None:
    blob = Blob("sha256:" + "ab" * 32, 1234)
    receipt = b'{"id":"fsuccess","note":"<b>"}'
    site.reads["fsuccess"] = StoredRead(
        7, "fsuccess", "bot", "page_read", "2026-01-01T00:00:00Z", "https://a.example/", "https://a.example/", None,
        200, blob, receipt,
    )  # fmt: skip
    page = (await get(site, "/fetch/fsuccess")).text
    assert "fetchd receipt verify" in page and "ab" * 32 in page and "&lt;b&gt;" in page
    rows = (await get(site, "/?kind=fetch")).text
    assert rows.count('class="badge receipt"') == 1


async def test_lines_of_other_kinds_stand_beside_the_hops_of_their_fetch(site: Site) -> None:
    foreign(site.log, [
        {"kind": "vendor", "seq": 1, "time": "2026-01-01T00:04:00Z", "fetch_id": "f1", "agent": "bot", "tokens": 12},
        {"kind": "run", "seq": 2, "time": "2026-01-01T00:04:01Z", "agent": "bot", "steps": {"a": [1]}},
    ])  # fmt: skip
    site.index()
    page = (await get(site, "/fetch/f1")).text
    assert "Line: <bdi>vendor</bdi>" in page and "<bdi>tokens</bdi>" in page and "Hop 0" in page
    line = (await get(site, "/line?chain=odd&seq=2")).text
    assert "{&#34;a&#34;: [1]}" in line
    assert (await get(site, "/line?chain=odd&seq=3")).status_code == 404
    assert 'href="/line?chain=odd&amp;seq=2"' in (await get(site, "/")).text


async def test_searches_answers_of_models_and_runs_are_rows_too(site: Site) -> None:
    who: dict[str, Any] = {"agent": "bot"}
    rules: dict[str, Any] = {"profile": "default", "policy": "default@1"}
    log = AuditLog.open(site.log, "gateway-4", AUDIT_KEYS, clock=Clock(START_NS))
    hop(log, fetch_id="model", method="POST", url="https://api.vendor.example/v1/messages")
    log.append(WebRecord(
        **who, decision=2, fetch_id="model", hop=0, vendor="anthropic", endpoint="messages", web_tools="enforce",
        citations=[("https://cited.example/", True)],
    ))  # fmt: skip
    log.append(SearchRecord(
        **who, **rules, tool="web_search", fetch_id="asked", attempt=1, provider="brave", query="<b>cats</b>",
        outcome=CallOutcome.SUCCESS, rows=3,
    ))  # fmt: skip
    for step in (1, 0):
        log.append(AskRecord(
            **who, **rules, run_id="run-1", step=step, provider="anthropic", model="m", outcome=CallOutcome.SUCCESS,
            search=True, fetch=False, stop="done", input_tokens=5,
        ))  # fmt: skip
    log.close()
    site.index()

    page = (await get(site, "/fetch/model")).text
    assert "Hop 0" in page and "Line: <bdi>web</bdi>" in page and "https://cited.example/" in page
    page = (await get(site, "/fetch/asked")).text
    assert "answered by brave" in page and "&lt;b&gt;cats&lt;/b&gt;" in page
    page = (await get(site, "/fetch/run-1")).text
    assert "<h1>Run <code>" in page and page.count("Line: <bdi>ask</bdi>") == 2 and "<bdi>done</bdi>" in page
    assert re.findall(r'<tr><th scope="row">([^<]*)</th><td><span class="badge good-two">', page) == [
        "1",
        "in all",
    ]
    assert page.count("<bdi>anthropic m</bdi>") == 2
    rows = {row["kind"]: row for row in (await get(site, "/export.json")).json()["rows"]}
    assert (rows["web"]["target"], rows["search"]["method"]) == ("anthropic messages, 1 cited", "web_search")
    assert (rows["ask"]["fetch_id"], rows["ask"]["verdict"]) == ("run-1", "success")


async def test_what_was_refused_or_failed_is_one_filter(site: Site) -> None:
    """A call that the daemon refuses before any hop is a failure, no refusal: both are looked for at once."""
    page = (await get(site, "/?verdict=stopped&rows=25")).text
    assert '<option value="stopped" selected>refused or failed</option>' in page
    assert "Showing <bdi>verdict refused or failed, last 24 hours</bdi>: 5 rows" in page
    assert {"g1", "g2", "g5", "fsoft", "fhard"} == set(re.findall(r'href="/fetch/([^"]*)"', page))


async def test_one_long_address_does_not_push_the_others_out_of_sight(site: Site) -> None:
    log = AuditLog.open(site.log, "gateway-5", AUDIT_KEYS, clock=Clock(START_NS))
    url = "https://long.example/" + "a" * 1_000
    hop(log, fetch_id="long", url=url, verdict=Outcome.REFUSED, rule="host", detail="no " * 150)
    log.close()
    site.index()
    page = (await get(site, "/?fetch=long")).text
    assert f"<bdi>{url[:300]}…</bdi>" in page and f"<bdi>{('no ' * 150)[:300]}…</bdi>" in page
    assert url in (await get(site, "/fetch/long")).text


async def test_steps_of_a_run_are_shown_whatever_a_line_holds(site: Site) -> None:
    odd: list[Any] = ["<b>", None, 1e400, -1, [{"a": "<b>"}], {}, True, "\ud800"]
    names = "step provider model outcome stop failure tools citations outside input_tokens output_tokens ms".split()
    line = {"kind": "ask", "run_id": "odd-run", "time": "2026-01-01T00:04:00Z"}
    lines = [{**line, "seq": number, **dict.fromkeys(names, value)} for number, value in enumerate(odd, 1)]
    foreign(site.log, lines)
    site.index()
    page = await get(site, "/fetch/odd-run")
    assert page.status_code == 200
    assert page.text.count('<tr><th scope="row">') == len(odd) and "<b>&lt;b&gt;" not in page.text
    assert "<b>" not in page.text


async def test_what_cannot_be_read_just_now_is_503_and_says_so(site: Site) -> None:
    (site.folder / "index.db").rename(site.folder / "aside")
    site.index_problem = "the disk <is> full"
    for path in ("/", "/fetch/f1", "/line?chain=x&seq=1", "/export.csv"):
        answer = await get(site, path)
        assert answer.status_code == 503, path
        assert "the index is being made" in answer.text
    page = await get(site, "/log")
    assert page.status_code == 200 and "the disk &lt;is&gt; full" in page.text
    (site.folder / "aside").rename(site.folder / "index.db")
    assert "New lines are not being indexed" in (await get(site, "/")).text
    assert (await get(site, "/healthz")).status_code == 200


async def test_lines_that_were_moved_away_are_a_fetch_no_more(site: Site) -> None:
    for path in site.log.glob("gateway-0-*"):
        path.unlink()
    assert (await get(site, "/fetch/f1")).status_code == 404


async def test_times_that_no_clock_shows_are_shown(site: Site) -> None:
    times = (
        "0001-01-01T00:00:00+14:00",
        "9999-12-31T23:59:59.999999-14:00",
        "9999-12-31T23:59:59.999999Z",
        "never",
    )
    foreign(site.log, [
        {"kind": "run", "seq": number, "time": time, "agent": "odd", "fetch_id": "y" * 200 + str(number)}
        for number, time in enumerate(times)
    ])  # fmt: skip
    site.index()
    page = await get(site, "/?range=all&agent=odd")
    assert page.status_code == 200
    assert {"0001-01-01 00:00:00.000", "9999-12-31 23:59:59.999"} <= set(
        re.findall(r">([^<]*)</time>", page.text)
    )
    rows = (await get(site, "/export.json?range=all&agent=odd")).json()["rows"]
    assert len(rows) == len(times)
    links = re.findall(r'href="(/fetch/y+)"', page.text)
    assert len(links) == len(times)
    assert (await get(site, links[0])).status_code == 200


async def test_what_a_page_asks_by_itself_does_not_keep_its_session(site: Site) -> None:
    """A page left open is signed out after an hour, however much happens; a person's look counts."""
    by_itself = {"Sec-Fetch-Dest": "empty"}
    async with site.browser() as browser:
        await browser.sign_in()
        site.clock.now += IDLE_SECONDS - 1
        assert (await browser.get("/", headers=by_itself)).status_code == 200
        site.clock.now += 1
        assert (await browser.get("/", headers=by_itself)).status_code == 303


# -------------------------------------------------------------------------------------------- is it whole


async def test_the_log_page_says_what_verify_found_and_when(site: Site) -> None:
    async with site.browser() as browser:
        await browser.sign_in()
        first = await browser.get("/log")
        page = await browser.get("/log")
        assert "checked" in first.text
        assert "whole" in page.text and "checked at" in page.text and "12:" + "a" * 64 in page.text
        finding = {"file": "x.jsonl", "line": 3, "check": "hash", "detail": "the line <was> changed"}
        chain = {**site.verifications[0].chains[0], "ok": False, "finding_count": 5, "findings": [finding]}
        site.verifications.append(Verification(NOW, False, (chain,)))
        again = await browser.send("/log/verify", {"csrf": hidden_fields(page.text)["csrf"]})
        assert (again.status_code, again.headers["location"]) == (303, "/log")
        page = await browser.get("/log")
        assert (
            "broken" in page.text
            and "the line &lt;was&gt; changed" in page.text
            and "and 4 more" in page.text
        )
        assert (await browser.send("/log/verify", {"csrf": "x"})).status_code == 403
        assert (await browser.send("/log/verify", {})).status_code == 400
        assert (await browser.get("/log/verify")).status_code == 405


async def test_verify_runs_apart_and_its_answer_is_kept_for_an_hour(tmp_path: Path) -> None:
    keys = AuditKeys.load_or_create(tmp_path / "keys")
    log = AuditLog.open(tmp_path / "audit", "gateway-0", keys)
    hop(log)
    log.close()
    now = datetime.now(UTC)
    asked = []

    async def run() -> Verification:
        asked.append(1)
        return await verify_log(tmp_path)

    verifier = Verifier(run, lambda: now)
    verifier.refresh()
    verifier.start()
    assert verifier.running
    await verifier.wait()
    assert verifier.last is not None and verifier.last.ok and verifier.last.chains[0]["chain"] == "gateway-0"
    verifier.refresh()
    assert len(asked) == 1
    now = verifier.last.when + FRESH + timedelta(seconds=1)
    path = next((tmp_path / "audit").glob("*.jsonl"))
    path.write_bytes(path.read_bytes().replace(b"example", b"examples"))
    verifier.refresh()
    await verifier.wait()
    assert len(asked) == 2 and not verifier.last.ok and not verifier.last.problem
    await verifier.close()


@pytest.mark.parametrize(
    ("seconds", "problem"), [(30.0, "no audit log at"), (0.0, "it took longer than 0 s")]
)
async def test_what_verify_cannot_do_is_said(tmp_path: Path, seconds: float, problem: str) -> None:
    found = await verify_log(tmp_path, seconds)
    assert not found.ok and problem in found.problem


# -------------------------------------------------------------------------------------------------- exports


async def test_csv_and_json_hold_what_is_filtered_newest_first(site: Site) -> None:
    sheet = await get(site, "/export.csv?agent=bot&kind=hop")
    rows = list(csv.DictReader(io.StringIO(sheet.text)))
    document = (await get(site, "/export.json?agent=bot&kind=hop")).json()

    assert sheet.headers["content-type"] == "text/csv; charset=utf-8; header=present"
    assert sheet.headers["content-disposition"] == 'attachment; filename="fetchd-audit-20260101T001000Z.csv"'
    assert document["next"] is None
    assert [row["fetch_id"] for row in rows] == [row["fetch_id"] for row in document["rows"]]
    assert {row["agent"] for row in rows} == {"bot"} and {row["kind"] for row in rows} == {"hop"}
    first = next(row for row in document["rows"] if row["fetch_id"] == "f1")
    assert (first["time"], first["status"], first["bytes"], first["ms"]) == (
        "2026-01-01T00:00:35.000Z",
        200,
        1000,
        25.5,
    )


async def test_no_cell_is_a_formula_and_no_line_is_two(site: Site) -> None:
    write_hostile(site.log)
    agents = (
        "=1+1",
        "+1",
        "-1",
        "@SUM(A1)",
        "\t=1",
        " =1",
        "＝1",
        "'=1",
        "a\r\nb",
        'a"b,c',
        "x;=1+1",
        'x; "=1"',
        "x;a-b",
    )
    line = {"kind": "run", "time": "2026-01-01T00:04:00Z"}
    foreign(
        site.log, [{**line, "seq": n, "agent": text, "fetch_id": text} for n, text in enumerate(agents, 1)]
    )
    site.index()
    answer = await get(site, "/export.csv?range=all")
    rows = list(csv.reader(io.StringIO(answer.text)))
    assert {len(row) for row in rows} == {15}
    cells = [cell for row in rows[1:] for cell in row]
    assert not [cell for cell in cells if cell.lstrip()[:1] in ("=", "+", "-", "@", "＝")]
    assert not [cell for cell in cells if not cell.isprintable()]
    assert {"'=1+1", "'@SUM(A1)", "'＝1", "''=1", "a\\x0d\\x0ab", 'a"b,c', "\\x09=1"} <= {
        row[4] for row in rows
    }
    assert {"x;'=1+1", 'x; "\'=1"', "x;a-b"} <= {row[4] for row in rows}
    # Where the comma is the decimal mark, a spreadsheet ends a cell at each semicolon.
    cells = [cell for row in csv.reader(io.StringIO(answer.text), delimiter=";") for cell in row]
    assert not [cell for cell in cells if cell.lstrip(' "')[:1] in ("=", "+", "-", "@", "＝")]
    assert answer.text.count("\r\n") == len(rows)
    json.loads((await get(site, "/export.json?range=all")).text)


async def test_an_export_is_bounded_and_says_where_to_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export, "PAGE", 4)
    index = MemoryAuditIndex()
    for seq in range(1, 12):
        line = {"kind": "run", "seq": seq, "time": f"2026-01-01T00:00:{seq:02d}Z", "agent": "a"}
        index.take("c", 1, seq, json.dumps(line).encode())

    async def ask(query: str, most: int) -> dict[str, object]:
        question = parse_question(query.encode(), NOW)
        first = await index.find(question.filter, before=question.before, limit=4)
        parts = [part async for part in render_json(read_pages(index, question, first, most))]
        found: dict[str, object] = json.loads(b"".join(parts))
        return found

    seen: list[object] = []
    query = "agent=a"
    for _ in range(10):
        document = await ask(query, 5)
        seen += [row["seq"] for row in document["rows"]]  # type: ignore[attr-defined]
        if document["next"] is None:
            break
        query = f"agent=a&before={document['next']}"
    assert seen == list(range(11, 0, -1))
    assert (await ask("agent=a", 100))["next"] is None
    assert await ask("agent=nobody", 5) == {"rows": [], "next": None}


async def test_rows_of_an_export_are_written_out_beside_the_calls_of_agents(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The event loop that writes a thousand rows serves nobody meanwhile."""
    threads = set()
    written = export._values

    def write(row: Row) -> list[object]:
        threads.add(threading.get_ident())
        return written(row)

    monkeypatch.setattr(export, "_values", write)
    row = Row(1, 1, "c", 1, "run", "a", "", "", "", "", "", None, None, None, "")
    for render in (render_csv, render_json):
        pages = read_pages(MemoryAuditIndex(), Question(Filter(), {}), [row] * 3, 10)
        assert [part async for part in render(pages)]
    assert threads and threading.get_ident() not in threads


async def test_an_export_that_breaks_off_does_not_end_well() -> None:
    class Broken(MemoryAuditIndex):
        async def find(self, *_: object, **__: object) -> list[Row]:
            raise IndexUnavailableError("gone")

    row = Row(1, 1, "c", 1, "run", "a", "", "", "", "", "", None, None, None, "")
    pages = read_pages(Broken(), Question(Filter(), {}), [row] * export.PAGE, 10_000)
    with pytest.raises(IndexUnavailableError):
        _ = [part async for part in render_csv(pages)]


# ----------------------------------------------------------------------------------------------------- live


async def test_open_pages_are_told_of_changes_and_of_nothing_else(site: Site) -> None:
    async with site.browser() as browser, browser.client.stream("GET", "/live", headers=AUTH) as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        lines = stream.aiter_lines()

        async def next_change() -> int:
            async with asyncio.timeout(PATIENCE):
                async for line in lines:
                    assert not line or line.startswith(("retry:", "event: change", "data: ", ": beat"))
                    if line.startswith("data: "):
                        return int(line.removeprefix("data: "))
            raise AssertionError

        first = await next_change()
        log = AuditLog.open(site.log, "gateway-8", AUDIT_KEYS, clock=Clock(START_NS))
        hop(log, fetch_id="secret")
        log.close()
        site.index()
        assert await next_change() > first


async def test_who_asks_for_the_head_of_a_stream_is_not_kept_waiting(site: Site) -> None:
    async with site.browser() as browser:
        answer = await browser.client.head("/live", headers=AUTH)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")


async def test_a_stream_ends_with_its_session(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fetchd.faces.audit_page.live.BEAT", 1)
    async with site.browser() as browser:
        await browser.sign_in()
        async with browser.client.stream("GET", "/live") as stream:
            said = []
            async with asyncio.timeout(PATIENCE):
                async for line in stream.aiter_lines():
                    said.append(line)
                    site.tokens.clear()
    assert "event: signed-out" in said


async def test_streams_are_bounded_and_nobody_is_looked_up_for_nobody(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fetchd.faces.audit_page.live.MOST_PAGES", 0)
    refused = await get(site, "/live")
    assert (refused.status_code, refused.headers["retry-after"]) == (503, "10")

    looks = []

    class Counted(MemoryAuditIndex):
        async def status(self):
            looks.append(1)
            return await super().status()

    pulse = Pulse(Counted(), 0.001)
    following = pulse.follow()
    assert await anext(following) == 0
    await following.aclose()  # type: ignore[attr-defined]
    assert pulse.waiting == 0 and len(looks) >= 1


async def test_the_outcome_of_a_hop_that_ends_later_is_seen(site: Site) -> None:
    """A close line in a later batch changes the row; another hop's does not."""
    log = AuditLog.open(site.log, "gateway-6", AUDIT_KEYS, clock=Clock(START_NS))
    hop(log, fetch_id="slow", verdict=Outcome.ALLOWED, end=False, url="https://slow.example/")
    site.index()
    assert (await get(site, "/export.json?fetch=slow")).json()["rows"][0]["verdict"] == "open"
    hop(log, fetch_id="other")
    log.close()
    site.index()
    assert (await get(site, "/export.json?fetch=slow")).json()["rows"][0]["verdict"] == "open"
