"""Code blocks: their text with its indentation, without line numbers and buttons, and their language."""

import re
from typing import Final

from lxml.html import HtmlElement

_LANGUAGE = re.compile(
    r"(?:^|\s)(?:language|lang|highlight-source|highlight-text|highlight|sourceCode|brush:?|code|hljs|prism|syntax)"
    r"[-_: ]+([A-Za-z0-9+#.-]+)(?=[\s;]|$)"
)
_BARE_LANGUAGE: Final = frozenset(
    "bash c clojure cpp c++ cs csharp c# css dart diff docker dockerfile elixir elm erlang fortran fsharp go "
    "graphql groovy haskell html http ini java javascript js json json5 jsonc jsx julia kotlin latex less lisp "
    "lua makefile markdown md matlab nginx nix objc objectivec ocaml perl php plaintext powershell proto "
    "protobuf ps1 python py r rb ruby rs rust sass scala scheme scss sh shell sql swift text toml ts tsx "
    "typescript vb verilog vhdl vim vue wasm xml yaml yml zig zsh console lean".split()
)
_NO_LANGUAGE: Final = frozenset(
    "block wrapper container toolbar body box none null auto highlight highlighter code pre line lines numbers "
    "line-numbers content inline nohighlight nocode default copy button header rouge".split()
)
_NUMBERS = re.compile(
    r"(?:^|[\s_-])(?:line-?num(?:ber)?s?|linenos?|lineno|gutter|ln-num|linenodiv|hljs-ln-n|react-syntax-highlighter-line-number"
    r"|copy(?:-?(?:btn|button|code))?|sr-only|visually-hidden)(?:[\s_-]|$)",
    re.IGNORECASE,
)
_SKIPPED: Final = frozenset("script style template noscript svg textarea select".split())
_LINES: Final = frozenset("div p li tr figure ol ul".split())


def code_text(element: HtmlElement) -> str:
    """The text of a code block. `br` and block elements inside end lines.

    Buttons are left out, but where nothing else stands in it: one that is never closed holds the rest of the page.
    """
    element = _without_header(element)
    return _collect(element, buttons=False) or _collect(element, buttons=True)


def _collect(element: HtmlElement, *, buttons: bool) -> str:
    parts: list[str] = []
    if element.text:
        parts.append(element.text)
    stack = [(element, iter(element), False)]
    while stack:
        current, children, is_line = stack[-1]
        child = next(children, None)
        if child is None:
            stack.pop()
            if is_line:
                parts.append("\x00")  # a line ends here, unless one just did
            if stack and current.tail:
                parts.append(current.tail)
            continue
        tag = child.tag
        if tag == "br":
            parts.append("\n")
        elif (
            isinstance(tag, str)
            and tag not in _SKIPPED
            and (tag != "button" or buttons or not _is_label(child))
            and not is_line_number(child)
            and not _is_header(child)
        ):
            line = tag in _LINES
            if line:
                parts.append("\x00")
            if child.text:
                parts.append(child.text)
            stack.append((child, iter(child), line))
            continue
        if child.tail:
            parts.append(child.tail)
    text = "".join(parts).replace("\r\n", "\n").replace("\r", "\n").replace("\xa0", " ")
    if "\x00" in text:
        text = _LINE_ENDS.sub(lambda ends: "\n" * max(1, ends[0].count("\n")), text)
    return "\n".join(line.rstrip() for line in text.strip("\n").split("\n")).strip("\n")


def _without_header(element: HtmlElement) -> HtmlElement:
    """The one `code` in a `pre` when beside it there is but a short label, the language say."""
    inner = element.findall(".//code")
    if len(inner) != 1 or (inner[0].getparent() is element and len(element) == 1):
        return element
    own = len("".join(inner[0].itertext()).strip())
    around = len("".join(element.itertext()).strip())
    has_text = (element.text or "").strip() or (inner[0].tail or "").strip()
    return inner[0] if own and around - own <= _MAX_LABEL and not has_text else element


_MAX_LABEL: Final = 40
_LINE_ENDS = re.compile(r"(?:\n?\x00)+\n?")


_HEADER = re.compile(r"(?:header|toolbar)(?:\s|$)", re.IGNORECASE)


def _is_label(button: HtmlElement) -> bool:
    size = 0
    for text in button.itertext():
        size += len(text.strip())
        if size > _MAX_LABEL:
            return False
    return True


def _is_header(element: HtmlElement) -> bool:
    return element.tag in ("div", "header") and _HEADER.search(element.get("class") or "") is not None


def is_line_number(element: HtmlElement) -> bool:
    """A gutter, a line number, or a button that copies."""
    name = element.get("class")
    if name and _NUMBERS.search(name):
        return True
    style = element.get("style")
    return style is not None and "user-select" in style and "none" in style and not element.get("data-line")


def code_language(element: HtmlElement) -> str:
    """The language that a `pre`, a `code` in it or up to three elements around it name; "" for none."""
    candidates = [element]
    inner = element.find(".//code")
    if inner is not None:
        candidates.insert(0, inner)
    around = element.getparent()
    for _ in range(3):
        if around is None or around.tag in ("body", "article", "main", "section"):
            break
        candidates.append(around)
        around = around.getparent()
    for candidate in candidates:
        for attribute in (
            "data-lang",
            "data-language",
            "data-code-language",
            "lang" if candidate.tag in ("pre", "code") else "",
        ):
            value = candidate.get(attribute, "").strip().lower() if attribute else ""
            if value and _is_language(value):
                return value
        name = (candidate.get("class") or "")[:512]
        for found in _LANGUAGE.finditer(name):
            language = found[1].strip(".-").lower()
            if _is_language(language):
                return language
    for candidate in candidates[:2]:
        for word in (candidate.get("class") or "")[:512].split():
            if word.lower() in _BARE_LANGUAGE:
                return word.lower()
    return ""


def _is_language(name: str) -> bool:
    return (
        len(name) <= 30
        and name not in _NO_LANGUAGE
        and name.isascii()
        and " " not in name
        and "`" not in name
    )
