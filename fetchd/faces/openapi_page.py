"""The OpenAPI document as one page of HTML: no script, no asset from anywhere, a policy that forbids both."""

import json
from base64 import b64encode
from collections.abc import Iterator, Mapping
from hashlib import sha256
from html import escape
from types import MappingProxyType
from typing import Any, Final

_STYLE: Final = """
:root { color-scheme: light dark; }
body { max-width: 54rem; margin: 2rem auto; padding: 0 1rem; font: 16px/1.5 system-ui, sans-serif; }
code, pre { font-family: ui-monospace, monospace; font-size: 0.9em; overflow-wrap: anywhere; }
pre { white-space: pre-wrap; padding: 0.75rem; border: 1px solid #8886; border-radius: 4px; }
table { border-collapse: collapse; table-layout: fixed; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: 0.25rem 0.75rem 0.25rem 0; overflow-wrap: break-word; }
tr { border-bottom: 1px solid #8884; }
th:nth-child(1) { width: 18%; }
th:nth-child(2) { width: 41%; }
h2 { margin-top: 2.5rem; }
@media (max-width: 40rem) {
  table, tbody, tr, td { display: block; }
  tr:has(th) { display: none; }
  tr { padding: 0.5rem 0; }
  td { padding: 0; }
  td:first-child { font-weight: bold; }
}
"""

_STYLE_DIGEST: Final = b64encode(sha256(_STYLE.encode()).digest()).decode()

PAGE_FIELDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "Content-Security-Policy": (
            f"default-src 'none'; style-src 'sha256-{_STYLE_DIGEST}'; "
            "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        ),
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
    }
)
"""The fields the page is served with."""


def render_page(document: Mapping[str, Any]) -> str:
    """The page of an OpenAPI document with the parts that `openapi.make_document` uses."""
    return "\n".join(_page(document)) + "\n"


def _page(document: Mapping[str, Any]) -> Iterator[str]:
    info = document["info"]
    title = escape(f"{info['title']} {info['version']}")
    yield '<!doctype html><html lang="en"><head><meta charset="utf-8">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f"<title>{title}</title><style>{_STYLE}</style></head><body><main>"
    yield f"<h1>{title}</h1><p>{_prose(info['description'])}</p>"
    yield '<p>The same for programs: <a href="/openapi.json">/openapi.json</a></p>'
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield from _operation(f"{method.upper()} {path}", operation)
    yield "<h2>Schemas</h2>"
    for name, schema in document["components"]["schemas"].items():
        yield from _schema(name, schema)
    yield "</main></body></html>"


def _operation(heading: str, operation: Mapping[str, Any]) -> Iterator[str]:
    yield f"<h2><code>{escape(heading)}</code></h2><p>{_prose(operation['summary'])}</p>"
    if "description" in operation:
        yield f"<p>{_prose(operation['description'])}</p>"
    for media_type, content in operation.get("requestBody", {}).get("content", {}).items():
        yield f"<p>Body, <code>{escape(media_type)}</code>: {_type(content['schema'])}</p>"
        for example in content.get("examples", {}).values():
            yield f"<pre>{escape(json.dumps(example['value']))}</pre>"
    yield "<table><tr><th>Status</th><th>Meaning</th><th>Body</th></tr>"
    for status, response in sorted(operation["responses"].items()):
        bodies = "<br>".join(
            f"<code>{escape(media_type)}</code> {_type(content['schema'])}"
            for media_type, content in response["content"].items()
        )
        yield f"<tr><td>{escape(status)}</td><td>{_prose(response['description'])}</td><td>{bodies}</td></tr>"
    yield "</table>"


def _schema(name: str, schema: Mapping[str, Any]) -> Iterator[str]:
    yield f'<h3 id="{escape(name)}">{escape(name)}</h3>'
    yield "<table><tr><th>Name</th><th>Value</th><th>Meaning</th></tr>"
    for key, value in schema["properties"].items():
        required = "" if key in schema["required"] else "Optional. "
        text = required + value.get("description", "")
        yield f"<tr><td><code>{escape(key)}</code></td><td>{_type(value)}</td><td>{_prose(text)}</td></tr>"
    yield "</table>"


_BOUNDS: Final = (
    ("minimum", "at least {}"),
    ("maximum", "at most {}"),
    ("maxLength", "1 to {} characters"),
    ("maxItems", "at most {} entries"),
)
"""What holds of a value, in words; a string that has a greatest length is not empty either."""


def _type(schema: Mapping[str, Any]) -> str:
    """A schema in a few words."""
    if "$ref" in schema:
        name = escape(schema["$ref"].rpartition("/")[2])
        return f'<a href="#{name}">{name}</a>'
    if "oneOf" in schema:
        return " or ".join(_type(one) for one in schema["oneOf"])
    if "const" in schema:
        return f"<code>{escape(json.dumps(schema['const']))}</code>"
    if "enum" in schema:
        return ", ".join(f"<code>{escape(json.dumps(value))}</code>" for value in schema["enum"])
    if "type" not in schema:
        return "any"
    types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    bounds = [words.format(schema[name]) for name, words in _BOUNDS if name in schema]
    return escape(", ".join([" or ".join(types), *bounds]))


def _prose(text: str) -> str:
    """Escaped; what stands between back-ticks is code."""
    parts = escape(text).split("`")
    return "".join(f"<code>{part}</code>" if at % 2 else part for at, part in enumerate(parts))
