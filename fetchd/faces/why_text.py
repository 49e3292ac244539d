"""What `fetchd why` prints: a fetch as a short story, or as one JSON object.

Nothing that stands in the log reaches the terminal as it is (`escape_text`).
"""

import json
from collections.abc import Iterable, Mapping
from typing import Final

from fetchd.explaining.why import (
    Explanation,
    Standing,
    dialled_address,
    dropped_addresses,
    phases,
    returned_addresses,
    tls_facts,
)
from fetchd.settings import LoadedConfig
from proxy_addons.audit.reader import LogLine
from proxy_addons.audit.rows import describe_search, describe_web
from proxy_addons.audit.story import HopStory, Story

from .config_cli import render_columns
from .remedy_text import remedy_document, render_remedy
from .safe_text import escape_text

_ARGUMENTS: Final = (
    "count", "freshness", "country", "search_lang", "safesearch", "include_domains", "exclude_domains",
)  # fmt: skip
_UNWANTED: Final = frozenset({"prev", "hash"})

type Rows = list[tuple[str, str]]


def render_story(explanation: Explanation, loaded: LoadedConfig | None) -> str:
    """The story for people, several paragraphs of printable ASCII. loaded: None when it cannot be read."""
    story = explanation.story
    head = [
        ("time", _time(story.first)),
        ("agent", story.first.text("agent") or "not in the log"),
        ("profile", _profile(explanation, loaded)),
        ("asked", describe_asked(story)),
    ]
    parts = [f"{escape_text(story.fetch_id)}: {escape_text(describe_ending(story))}", _columns(head)]
    parts += [_render_hop(hop) for hop in story.hops]
    if story.fetch is not None:
        parts.append(_columns(_fetch_rows(story.fetch)))
    parts += [_columns([("web tools", describe_web(line))]) for line in story.webs]
    parts += [_columns(_search_rows(line)) for line in story.searches]
    if story.omitted:
        parts.append(f"{story.omitted} further lines of it are left out")
    parts += _render_remedies(explanation, loaded)
    return "\n\n".join(parts)


def render_list(stories: Iterable[Story]) -> str:
    """A row for each fetch."""
    rows = [("fetch", "time", "agent", "outcome", "rule", "asked")]
    rows += [
        (
            story.fetch_id,
            _time(story.first),
            story.first.text("agent") or "",
            story.outcome,
            story.rule or "",
            describe_asked(story),
        )
        for story in stories
    ]
    return render_columns([tuple(map(escape_text, row)) for row in rows])


def render_json(explanation: Explanation) -> str:
    """One line of printable ASCII."""
    story = explanation.story
    document = {
        "fetch_id": story.fetch_id,
        "time": story.first.time,
        "agent": story.first.text("agent"),
        "profile": explanation.profile,
        "policy_version": explanation.version,
        "profile_now": explanation.standing,
        "policy_version_now": explanation.now,
        "outcome": story.outcome,
        "rule": story.rule,
        "hops": [{"decision": _members(hop.decision), "close": _members(hop.close)} for hop in story.hops],
        "fetch": _members(story.fetch),
        "web": [_members(line) for line in story.webs],
        "searches": [_members(line) for line in story.searches],
        "omitted_lines": story.omitted,
        "hypothetical": explanation.hypothetical,
        "remedy": remedy_document(explanation.remedy),
        "credentials": remedy_document(explanation.credentials),
    }
    return json.dumps(document).replace("\x7f", "\\u007f")


# ---------------------------------------------------------------------------------------------------- parts


def describe_ending(story: Story) -> str:
    """How a fetch ended, in a few words."""
    if story.stopped is not None:
        begun = "let through, then refused" if story.stopped.close is not None else "refused"
        return f"{begun} by rule {story.rule or 'unknown'}"
    if story.outcome == "open":
        return "let through, and its end is not in the log: it is under way, or its gateway was killed"
    if story.fetch is not None and story.rule is not None:
        return f"refused by rule {story.rule}"
    if story.searches:
        asked = story.searches[-1].text("provider")
        return {
            "success": f"answered by {asked or 'a provider'}",
            "hard": f"failed, last at {asked}" if asked else "failed, and no provider was asked",
            "aborted": "dropped by its caller",
        }.get(story.outcome, story.outcome or "not known")
    return {
        "success": "fetched",
        "soft": "no page (a soft failure), and no rule refused it",
        "hard": "failed, and no rule refused it",
        "aborted": "dropped by its caller",
        "allowed": "let through",
    }.get(story.outcome, story.outcome or "not known")


def _profile(explanation: Explanation, loaded: LoadedConfig | None) -> str:
    if explanation.profile is None:
        return "not in the log"
    source = loaded.source if loaded is not None else ""
    since = {
        Standing.SAME: f"as it is in {source}",
        Standing.CHANGED: f"which has changed since: in {source} it is version {explanation.now}",
        Standing.GONE: f"which is not in {source} any more",
        Standing.UNKNOWN: "the configuration of today cannot be read",
    }[explanation.standing]
    return f"{explanation.profile}, version {explanation.version}, {since}"


def describe_asked(story: Story) -> str:
    hop = next((hop for hop in story.hops if hop.decision is not None), None)
    if hop is not None:
        return f"{hop.first.text('method') or ''} {hop.first.text('url') or 'no URL that could be read'}"
    if story.fetch is not None:
        return f"{story.fetch.text('tool') or ''} {story.fetch.text('url') or 'no URL that could be read'}"
    if story.searches:
        line = story.searches[0]
        query = line.text("query") or line.text("query_digest") or "arguments that could not be read"
        return f"{line.text('tool') or 'search'} {query}"
    return "not in the log"


def _render_hop(hop: HopStory) -> str:
    first, last = hop.first, hop.last
    rows = [
        (f"hop {_number(first, 'hop')}", f"{first.text('method') or ''} {first.text('url') or ''}".strip())
    ]
    rows.append(("verdict", _verdict(hop)))
    if hop.refused and (message := last.text("detail")):
        rows.append(("message", message))
    elif message := last.text("detail"):
        rows.append(("ended", message))
    if (would := first.text("would_refuse")) is not None:
        rows.append(("reported", f"rule {would} would have refused it"))
    if returned := returned_addresses(hop):
        rows.append(("resolved", ", ".join(returned)))
    rows += [("dropped", f"{address} in range {row}") for address, row in dropped_addresses(hop)]
    if dialled := dialled_address(hop):
        rows.append(("dialled", dialled))
    if tls := tls_facts(hop):
        rows.append(("TLS", f"{tls[0]}, certificate sha256 {tls[1]}"))
    if last.number("status") is not None:
        kind = last.text("media_type")
        by = "the origin" if hop.close is not None else "the gateway"
        rows.append(("status", f"{_number(last, 'status')} of {by}{f', {kind}' if kind else ''}"))
    if last.number("wire_bytes") is not None:
        rows.append(
            ("bytes", f"{_number(last, 'wire_bytes')} on the wire, {_number(last, 'decoded_bytes')} decoded")
        )
    if spent := phases(last):
        rows.append(
            ("ms", ", ".join(f"{name.replace('_', ' ')} {value:,.1f}" for name, value in spent.items()))
        )
    return _columns(rows)


def _verdict(hop: HopStory) -> str:
    if hop.decision is None:
        return f"{hop.last.text('verdict') or 'unknown'}; its decision line is missing"
    if not hop.refused:
        return "allowed, no end in the log" if hop.open else "allowed"
    rule = hop.last.text("rule") or "unknown"
    return f"allowed, then refused by rule {rule}" if hop.close is not None else f"refused by rule {rule}"


def _fetch_rows(fetch: LogLine) -> Rows:
    ended = [fetch.text("outcome") or "unknown", fetch.text("failure"), fetch.text("detail")]
    rows = [(fetch.text("tool") or "fetch", ": ".join(part for part in ended if part))]
    if final := fetch.text("final_url"):
        rows.append(("final URL", final))
    if extraction := fetch.text("extraction"):
        cut = ", cut at max_chars" if fetch.members.get("truncated") is True else ""
        rows.append(("extraction", f"{extraction}{cut}"))
    if fetch.number("bytes") is not None:
        rows.append(("bytes", f"{_number(fetch, 'bytes')} decoded"))
    if (spent := fetch.number("ms")) is not None:
        rows.append(("ms", f"{spent:,.1f}"))
    return rows


def _search_rows(line: LogLine) -> Rows:
    """One provider that was asked, or the call that reached none."""
    attempt = line.number("attempt")
    ended = [line.text("outcome") or "unknown", line.text("failure"), line.text("detail")]
    rows = [
        (f"attempt {int(attempt)}" if attempt else "search", describe_search(line)),
        ("outcome", ": ".join(part for part in ended if part)),
    ]
    given = [f"{name} {_shown(value)}" for name in _ARGUMENTS if (value := line.members.get(name))]
    if given:
        rows.append(("asked for", ", ".join(given)))
    if (spent := line.number("credits")) is not None:
        rows.append(("credits", f"{spent:g}"))
    if (spent := line.number("ms")) is not None:
        rows.append(("ms", f"{spent:,.1f}"))
    return rows


def _shown(value: object) -> str:
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


def _render_remedies(explanation: Explanation, loaded: LoadedConfig | None) -> list[str]:
    file = str(loaded.path) if loaded is not None and loaded.path is not None else "a configuration file"
    parts = []
    if (remedy := explanation.remedy) is not None:
        begin = "It was let through, for the profile only reports. " if explanation.hypothetical else ""
        parts.append(begin + render_remedy(remedy, "To allow it", file))
    if (remedy := explanation.credentials) is not None:
        parts.append(
            "The origin asked for a login. If the agent sent one, it was removed.\n"
            + render_remedy(remedy, "To let it through", file)
        )
    return parts


def _members(line: LogLine | None) -> Mapping[str, object] | None:
    if line is None:
        return None
    return {"chain": line.chain, **{k: v for k, v in line.members.items() if k not in _UNWANTED}}


def _columns(rows: Rows) -> str:
    return render_columns([(label.ljust(10), escape_text(text)) for label, text in _escaped(rows)])


def _escaped(rows: Rows) -> Rows:
    return [(escape_text(label), text) for label, text in rows]


def _time(line: LogLine) -> str:
    return line.time.removesuffix("Z").replace("T", " ")[:23] + " UTC"


def _number(line: LogLine, name: str) -> str:
    value = line.number(name)
    return "?" if value is None else f"{int(value):,}" if name != "status" else str(int(value))
