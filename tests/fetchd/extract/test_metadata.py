"""What a page says of itself: which source wins, and what counts as nothing."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fetchd.extract.metadata import FIELDS, empty_metadata, extract_metadata

URL = "https://a.example/dir/page?x=1"
OG = '<meta property="og:title" content="Og"><meta property="og:description" content="Og about">'
LD = (
    '<script type="application/ld+json">{"@type": "Article", "headline": "Ld", "description": "Ld about",'
    ' "inLanguage": "de", "url": "/ld"}</script>'
)

ROWS: dict[str, tuple[str, str, Any, str | None]] = {
    "the page's own title": (f"<title>Own</title>{OG}{LD}", "title", "Own", "html"),
    "white space is run together": ("<title>\n Own \t title\n</title>", "title", "Own title", "html"),
    "references are read": ("<title>A &amp; B</title>", "title", "A & B", "html"),
    "the title of a drawing is none": (
        f"<body><svg><title>Drawing</title></svg>{OG}", "title", "Og", "open-graph",
    ),
    "an empty title is none": (f"<title> </title>{OG}", "title", "Og", "open-graph"),
    "Open Graph before JSON-LD": (f"{LD}{OG}", "title", "Og", "open-graph"),
    "Open Graph under name": ('<meta name="og:title" content="N">', "title", "N", "open-graph"),
    "JSON-LD when nothing else": (LD, "title", "Ld", "json-ld"),
    "JSON-LD's name": (
        '<script type="application/ld+json">[{"name": "N"}]</script>', "title", "N", "json-ld",
    ),
    "JSON-LD in a graph": (
        '<script type="application/ld+json">{"@graph": [{"x": 1}, {"headline": "G"}]}</script>',
        "title", "G", "json-ld",
    ),
    "JSON-LD that is no JSON": ('<script type="application/ld+json">{</script>', "title", None, None),
    "no title anywhere": ("<p>x", "title", None, None),
    "a description": ('<meta name="Description" content=" About ">', "description", "About", "html"),
    "the first description": (
        '<meta name="description" content="1"><meta name="description" content="2">',
        "description", "1", "html",
    ),
    "an empty description is none": (
        f'<meta name="description" content="">{OG}', "description", "Og about", "open-graph",
    ),
    "a canonical URL is absolute": (
        '<link rel="canonical" href="/c?y=2">', "canonical", "https://a.example/c?y=2", "html",
    ),
    "rel is a list of words in any case": (
        '<link rel="alternate CANONICAL" href="c">', "canonical", "https://a.example/dir/c", "html",
    ),
    "a canonical URL against the base": (
        '<base href="https://b.example/x/"><link rel="canonical" href="c">',
        "canonical", "https://b.example/x/c", "html",
    ),
    "a canonical URL that is no page": ('<link rel="canonical" href="javascript:1">', "canonical", None, None),
    "a fragment is no canonical URL": ('<link rel="canonical" href="#x">', "canonical", None, None),
    "canonical by Open Graph": (
        '<meta property="og:url" content="/o">', "canonical", "https://a.example/o", "open-graph",
    ),
    "canonical by JSON-LD": (LD, "canonical", "https://a.example/ld", "json-ld"),
    "canonical by JSON-LD, as an object": (
        '<script type="application/ld+json">{"mainEntityOfPage": {"@id": "/m"}}</script>',
        "canonical", "https://a.example/m", "json-ld",
    ),
    "the declared language": ('<html lang="en-GB"><p>x', "language", "en-GB", "html"),
    "a language with an underscore": ('<html lang="pt_BR"><p>x', "language", "pt-BR", "html"),
    "a language that is none": ('<html lang="&quot;&gt;"><p>x', "language", None, None),
    "language by Open Graph": ('<meta property="og:locale" content="fr_FR">', "language", "fr-FR", "open-graph"),
    "language by JSON-LD": (LD, "language", "de", "json-ld"),
}  # fmt: skip


@pytest.mark.parametrize("sentence", ROWS)
def test_first_source_that_says_it(sentence: str) -> None:
    html, name, value, source = ROWS[sentence]
    found = extract_metadata(html, URL, "text/html")
    assert found[name] == value
    sources = found["sources"]
    assert isinstance(sources, dict)
    assert sources.get(name) == source


def test_keys_are_always_the_same_and_in_order() -> None:
    keys = [*FIELDS, "content_type", "sources"]
    for found in (
        extract_metadata("", URL, "text/html"),
        empty_metadata("application/pdf"),
        empty_metadata(None),
    ):
        assert list(found) == keys
    assert empty_metadata(None)["sources"] == {}
    assert empty_metadata("application/pdf")["sources"] == {"content_type": "header"}


@given(st.text(max_size=300))
def test_any_text_in_a_page_gives_strings_or_null(text: str) -> None:
    page = f'<title>{text}</title><meta name="description" content="{text}"><script type="application/ld+json">{text}'
    found = extract_metadata(page, URL, "text/html")
    assert all(value is None or isinstance(value, str) for key, value in found.items() if key != "sources")
