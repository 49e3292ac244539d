"""Pictures, embedded media and form controls."""

from typing import Final

from lxml.html import HtmlElement

from .escape import link_target
from .state import Close, RenderState

EMBEDDED: Final = {
    "iframe": "frame",
    "video": "video",
    "audio": "audio",
    "embed": "embedded",
    "object": "object",
}
"""Elements that show something from elsewhere, and the text of the link to it where they have no title."""
_NO_SOURCE: Final = ("data:", "about:", "javascript:")
_LATE: Final = ("data-src", "data-original", "data-lazy-src", "data-url")


def image(state: RenderState, element: HtmlElement) -> None:
    """`img` with its text. Without one it is left out of articles; marked as ornament (alt=""), everywhere."""
    text = " ".join((element.get("alt") or "").split())
    source = _source_of(element)
    if not source or source.startswith(_NO_SOURCE):
        if text and state.everything:
            state.writer.text(text)
    elif text or (state.everything and element.get("alt") is None):
        text = text.replace("[", "\\[").replace("]", "\\]")
        state.writer.raw(f"![{text}]({link_target(state.links.resolve(source))})")


def embedded(state: RenderState, element: HtmlElement) -> Close | None:
    """A link to what is shown; not in articles."""
    if not state.everything:
        return None
    writer = state.writer
    source = element.get("src") or element.get("data") or ""
    if not source:
        inner = element.find("source")
        source = (inner.get("src") or "") if inner is not None else ""
    writer.flush()
    if source and not source.startswith(_NO_SOURCE):
        writer.open_mark("a", state.links.resolve(source))
        writer.text(element.get("title") or EMBEDDED[element.tag])
        writer.close_mark()
        writer.flush()
    return writer.flush if element.tag == "object" else None


def form_input(state: RenderState, element: HtmlElement) -> None:
    """`input`: a task's box, or the text on a button."""
    kind = element.get("type", "text").lower()
    if kind == "checkbox" and state.lists:
        around = element.getparent()
        if any(text and not text.isspace() for text in around.itertext()):
            state.writer.raw("[x] " if element.get("checked") is not None else "[ ] ")
    elif kind in ("submit", "button", "reset") and state.everything:
        state.writer.text(f" {element.get('value', '')} ")


def control(state: RenderState, element: HtmlElement) -> Close | None:
    """`button`, `select`, `textarea`: a paragraph; in articles only buttons, which sometimes hold headings."""
    if not state.everything and element.tag != "button":
        return None
    state.writer.flush()
    return state.writer.flush


def option(state: RenderState, element: HtmlElement) -> Close | None:
    """`option`."""
    if not state.everything:
        return None
    state.writer.text(" ")
    return lambda: state.writer.text(" ")


def _source_of(element: HtmlElement) -> str:
    """src, or where pages that load late keep it."""
    source = (element.get("src") or "").strip()
    if source and not source.startswith("data:"):
        return source
    for name in _LATE:
        late = (element.get(name) or "").strip()
        if late:
            return late
    choices = (element.get("srcset") or element.get("data-srcset") or "").split()
    return choices[0] if choices and not choices[0].startswith("data:") else source
