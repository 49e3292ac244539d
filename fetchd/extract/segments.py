"""A page cut into blocks: runs of text between block-level boundaries, each with the elements around it."""

import re
from collections.abc import Iterator
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
_WORD = re.compile(r"[A-Z]?[a-z]{2,}|[A-Z]{2,}")
_MAX_NAMES: Final = 512
LONG_CHARS: Final = 80
"""Characters of a block that counts as long text."""
_SPACES = re.compile(r"\s+")


@dataclass(slots=True, eq=False)
class Frame:
    """A block-level element. chars, link_chars, long_chars, blocks: of all that is in it; the blocks are those
    from `first` on. tokens: words in its class, id, role and itemprop. score: see surroundings.best_frame."""

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
    cutter = _Cutter(root)
    stack: list[tuple[HtmlElement, Iterator[HtmlElement]]] = [(root, iter(root))]
    while stack:
        element, children = stack[-1]
        child = next(children, None)
        if child is None:
            stack.pop()
            cutter.end(element)
            if stack and element.tail:
                cutter.add(element, element.tail, is_tail=True)
        elif type(child.tag) is str and child.tag not in SKIPPED:
            cutter.begin(child)
            if child.text:
                cutter.add(child, child.text, is_tail=False)
            stack.append((child, iter(child)))
        elif child.tail:
            cutter.add(child, child.tail, is_tail=True)
    return cutter.page()


class _Cutter:
    __slots__ = (
        "_blocks",
        "_chars",
        "_frame",
        "_frames",
        "_images",
        "_link_chars",
        "_links",
        "_names",
        "_parts",
        "_slots",
    )

    def __init__(self, root: HtmlElement) -> None:
        self._frame = Frame(root, "html", None, 0, frozenset(), 0)
        self._frames = [self._frame]
        self._blocks: list[Block] = []
        self._names: dict[str, frozenset[str]] = {}
        self._parts: list[str] = []
        self._slots: list[tuple[HtmlElement, bool]] = []
        self._images: list[HtmlElement] = []
        self._links = 0  # that are open
        self._link_chars = 0
        self._chars = 0

    def add(self, element: HtmlElement, text: str, *, is_tail: bool) -> None:
        """A piece of text."""
        self._parts.append(text)
        self._slots.append((element, is_tail))
        if self._links:
            self._link_chars += len(text)

    def begin(self, element: HtmlElement) -> None:
        """An element starts; a block-level one ends the run before it."""
        tag = element.tag
        if tag in INLINE:
            if tag == "a":
                self._links += 1
            elif tag == "img":
                self._images.append(element)
        elif tag == "br":
            self._parts.append("\n")
        else:
            self._flush()
            frame = self._frame
            frame.children += 1
            self._frame = Frame(
                element, tag, frame, frame.depth + 1, self._words_of(element), len(self._blocks)
            )
            self._frames.append(self._frame)

    def end(self, element: HtmlElement) -> None:
        """An element ends."""
        frame = self._frame
        if element is frame.element:
            self._flush()
            self._frame = frame.parent or frame
        elif element.tag == "a":
            self._links -= 1

    def page(self) -> Page:
        """All of it, with the sums of each frame."""
        for block in self._blocks:
            frame, size = block.frame, len(block.text)
            frame.chars += size
            frame.link_chars += block.link_chars
            frame.blocks += 1
            if size > LONG_CHARS and block.link_chars * 3 < size:
                frame.long_chars += size
        for frame in reversed(self._frames):
            around = frame.parent
            if around is not None:
                around.chars += frame.chars
                around.link_chars += frame.link_chars
                around.blocks += frame.blocks
                around.long_chars += frame.long_chars
        return Page(self._blocks, self._frames)

    def _flush(self) -> None:
        text = _SPACES.sub(" ", "".join(self._parts)).strip()
        if text or self._images:
            link_chars = min(self._link_chars, len(text))
            self._blocks.append(Block(self._frame, text, link_chars, self._slots, self._images, self._chars))
            self._chars += len(text)
            self._slots, self._images = [], []
        self._parts = []
        self._link_chars = 0

    def _words_of(self, element: HtmlElement) -> frozenset[str]:
        get = element.get
        names = f"{get('class', '')} {get('id', '')} {get('role', '')} {get('itemprop', '')}"
        words = self._names.get(names)
        if words is None:
            words = frozenset(part.lower() for part in _WORD.findall(names[:_MAX_NAMES]))
            self._names[names] = words
        return words
