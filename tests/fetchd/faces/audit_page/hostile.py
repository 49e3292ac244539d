"""What an attacker would like to be shown: every payload in every member of every kind of line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.fetchd.audit_index.kit import foreign

PAYLOADS = [
    "<script>window.intruder = 1</script>",
    '"><img src=/healthz onerror="window.intruder = 2">',
    "'><svg/onload=window.intruder=3>",
    "javascript:window.intruder=4//",
    "</title></textarea></style></script><script>window.intruder = 5</script>",
    "{{ 7 * 1191 }}{% raw %}{{ cycler.__init__.__globals__ }}",
    "&lt;script&gt;window.intruder = 6&lt;/script&gt;",
    '" autofocus onfocus="window.intruder = 7',
    "\u202egnp.elbissoq\u202c\u2066x\u2069\u200b",
    "\x1b[31mred\x00\x07\r\nSet-Cookie: a=b",
    "\ud800\udfff\ufffe\u2028\u2029",
    "<a href='//evil.example'>x</a><base href='//evil.example/'><meta http-equiv=refresh content='0;//evil.example'>",
    '=HYPERLINK("//evil.example")',
    "x" * 3_000,
]
NAMES = (
    "agent profile policy fetch_id method url query_digest verdict rule detail would_refuse media_type redirect_to"
    " tool outcome failure final_url event host provider query model vendor run extraction content_digest text_sha256"
).split()
KINDS = ("decision", "close", "fetch", "event", "search", "vendor", "run")
TIME = "2026-01-01T00:05:{:02d}.000000Z"


def hostile_lines() -> list[Any]:
    lines: list[Any] = []
    for number, payload in enumerate(PAYLOADS):
        for kind in KINDS:
            url = f"https://h.example/{payload}"
            line: dict[str, Any] = dict.fromkeys(NAMES, payload)
            line |= {"url": url if number % 2 else payload, "fetch_id": f"x{number}", "hop": 0, "status": 200}
            line |= {"addresses": {"returned": [payload], "dropped": [{"address": payload, "range": payload}],
                                   "dialled": payload}}  # fmt: skip
            line |= {
                "tls": {"version": payload, "certificate_sha256": payload},
                "ms": {payload: 3, "total": 5},
            }
            line |= {
                "facts": {payload: payload},
                payload: payload,
                "verdict": "allowed" if number % 2 else payload,
            }
            line |= {"kind": kind, "seq": len(lines) + 1, "time": TIME.format(number), "decision": len(lines)}
            lines.append(line)
        lines.append(
            {"kind": payload, "seq": len(lines) + 1, "time": TIME.format(number), payload: [payload]}
        )
        lines.append(json.dumps(payload))
        lines.append(
            {"kind": "decision", "seq": len(lines) + 1, "time": TIME.format(number), "fetch_id": payload}
        )
    return lines


def write_hostile(directory: Path) -> None:
    foreign(directory, hostile_lines(), "hostile")
