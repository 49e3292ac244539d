"""Formulas as one readable line: the TeX they were made from where the page has it, else MathML written out."""

from typing import Final

from lxml.html import HtmlElement

_SOURCES: Final = ("alttext", "data-latex", "data-tex", "data-math", "data-entry")
_MAX_DEPTH: Final = 60
"""Nested MathML; deeper than this the text is enough."""


def formula_markdown(element: HtmlElement) -> str:
    """A `math` element: `$TeX$`, `$$TeX$$` for display, or text such as `x^2 + (a)/(b)`."""
    tex = _source(element)
    if tex:
        mark = "$$" if element.get("display") == "block" or "mode=display" in element.get("mode", "") else "$"
        return f"{mark}{tex}{mark}"
    return " ".join(_written_out(element, 0).split())


def tex_markdown(tex: str, *, display: bool) -> str:
    """TeX between its dollar signs; "" for none."""
    tex = tex.strip()
    mark = "$$" if display else "$"
    return f"{mark}{tex}{mark}" if tex else ""


def _source(element: HtmlElement) -> str:
    for annotation in element.iter("annotation"):
        if "tex" in annotation.get("encoding", "").lower():
            return "".join(annotation.itertext()).strip()
    around = element.getparent()
    for holder in (element, around):
        for name in _SOURCES if holder is not None else ():
            value = holder.get(name)
            if value and value.strip():
                return str(value).strip()
    return ""


def _written_out(element: HtmlElement, depth: int) -> str:
    if depth > _MAX_DEPTH:
        return "".join(element.itertext())
    tag = element.tag
    if tag in ("annotation", "annotation-xml"):
        return element.tail or ""
    inner = [_written_out(child, depth + 1) for child in element if isinstance(child.tag, str)]
    own = element.text or ""
    if tag == "mfrac" and len(inner) == 2:
        text = f"{_group(inner[0])}/{_group(inner[1])}"
    elif tag == "msup" and len(inner) == 2:
        text = f"{inner[0].strip()}^{_group(inner[1])}"
    elif tag == "msub" and len(inner) == 2:
        text = f"{inner[0].strip()}_{_group(inner[1])}"
    elif tag == "msubsup" and len(inner) == 3:
        text = f"{inner[0].strip()}_{_group(inner[1])}^{_group(inner[2])}"
    elif tag in ("munderover", "munder", "mover") and len(inner) > 1:
        signs = {"munderover": "_^", "munder": "_", "mover": "^"}[tag]
        text = inner[0].strip() + "".join(
            sign + _group(part) for sign, part in zip(signs, inner[1:], strict=False)
        )
    elif tag == "msqrt":
        text = f"√({own}{''.join(inner).strip()})"
    elif tag == "mroot" and len(inner) == 2:
        text = f"root({inner[0].strip()}, {inner[1].strip()})"
    elif tag == "mo":
        text = (
            own
            if own.strip() in ("(", ")", "[", "]", "{", "}", ",", "\u2061", "\u2062")
            else f" {own.strip()} "
        )
    elif tag == "mtr":
        text = ", ".join(part.strip() for part in inner) + "; "
    elif tag == "mspace":
        text = " "
    else:
        text = own + "".join(inner)
    tail = element.tail if depth else ""
    return text + (tail or "")


def _group(text: str) -> str:
    text = text.strip()
    return text if len(text) <= 1 or text.isalnum() else f"({text})"
