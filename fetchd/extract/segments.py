"""A page cut into blocks: runs of text between block-level boundaries, each with the elements around it."""

import re
from dataclasses import dataclass, field
from typing import Final

from lxml.html import HtmlElement

INLINE: Final = frozenset(
    "a abbr acronym b bdi bdo big cite code data del dfn em font i img ins kbd mark math nobr q rb rp rt rtc "
    "ruby s samp small span strike strong sub sup time tt u var wbr picture source svg input output label "
    "annotation semantics mrow mi mo mn msup msub mfrac msqrt mtext mspace munder mover munderover mstyle "
    "msubsup mtable mtr mtd mroot mpadded mphantom menclose merror mfenced".split()
)
SKIPPED: Final = frozenset(
    "script style template noscript head link meta title iframe object embed svg canvas audio video map area "
    "datalist select option optgroup textarea param track frameset noframes".split()
)
_TOKEN = re.compile(r"[A-Z]?[a-z]{2,}|[A-Z]{2,}")
_SPACES = re.compile(r"\s+")


@dataclass(slots=True, eq=False)
class Frame:
    """A block-level element that holds text. chars, link_chars, blocks: of all that is below it."""

    element: HtmlElement
    tag: str
    parent: "Frame | None"
    depth: int
    tokens: frozenset[str]
    first: int
    chars: int = 0
    link_chars: int = 0
    long_chars: int = 0
    blocks: int = 0
    children: int = 0
    score: float = 0.0


@dataclass(slots=True, eq=False)
class Block:
    """One run of text. slots: (element, whether the tail of it) for each piece; images: those in the run."""

    frame: Frame
    text: str
    link_chars: int
    slots: list[tuple[HtmlElement, bool]]
    images: list[HtmlElement] = field(default_factory=list)
    start: int = 0


@dataclass(slots=True, eq=False)
class Page:
    """Blocks in document order; frames in order of their start tags, the first is the root."""

    blocks: list[Block]
    frames: list[Frame]


def segment_page(root: HtmlElement) -> Page:
    """The blocks of a tree without hidden elements. Linear; no recursion."""
    frame = Frame(root, "html", None, 0, frozenset(), 0)
    frames = [frame]
    blocks: list[Block] = []
    parts: list[str] = []
    slots: list[tuple[HtmlElement, bool]] = []
    images: list[HtmlElement] = []
    link_chars = 0
    links = 0  # depth of <a>
    tokens_of: dict[str, frozenset[str]] = {}
    chars = 0

    def flush() -> None:
        nonlocal parts, slots, images, link_chars, chars
        if parts or images:
            text = _SPACES.sub(" ", "".join(parts)).strip()
            if text or images:
                blocks.append(Block(frame, text, min(link_chars, len(text)), slots, images, chars))
                chars += len(text)
                slots, images = [], []
            parts = []
            link_chars = 0

    # (element, iterator over children, frame to go back to or None for an inline element)
    stack: list[tuple[HtmlElement, "object", Frame | None]] = [(root, iter(root), None)]
    while stack:
        element, children, outer = stack[-1]
        child = next(children, None)  # type: ignore[call-overload]
        if child is not None:
            tag = child.tag
            if type(tag) is not str or tag in SKIPPED:
                tail = child.tail
                if tail:
                    parts.append(tail)
                    slots.append((child, True))
                continue
            if tag in INLINE:
                if tag == "img":
                    images.append(child)
                elif tag == "a":
                    links += 1
                before = None
            elif tag == "br":
                parts.append("\n")
                before = None
            else:
                flush()
                before = frame
                name = f"{child.get('class', '')} {child.get('id', '')} {child.get('role', '')} {child.get('itemprop', '')}"
                tokens = tokens_of.get(name)
                if tokens is None:
                    tokens = frozenset(part.lower() for part in _TOKEN.findall(name[:512]))
                    tokens_of[name] = tokens
                frame.children += 1
                frame = Frame(child, tag, frame, frame.depth + 1, tokens, len(blocks))
                frames.append(frame)
            text = child.text
            if text:
                parts.append(text)
                slots.append((child, False))
                if links:
                    link_chars += len(text)
            stack.append((child, iter(child), before))
            continue
        stack.pop()
        if outer is not None:
            flush()
            frame = outer
        elif element.tag == "a":
            links -= 1
        tail = element.tail
        if tail and stack:
            parts.append(tail)
            slots.append((element, True))
            if links:
                link_chars += len(tail)
    flush()
    for block in blocks:
        holder = block.frame
        holder.chars += len(block.text)
        holder.link_chars += block.link_chars
        holder.blocks += 1
        if len(block.text) > 80 and block.link_chars * 3 < len(block.text):
            holder.long_chars += len(block.text)
    for frame in reversed(frames):
        if frame.parent is not None:
            frame.parent.chars += frame.chars
            frame.parent.link_chars += frame.link_chars
            frame.parent.blocks += frame.blocks
            frame.parent.long_chars += frame.long_chars
    return Page(blocks, frames)
