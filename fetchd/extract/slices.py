"""The part of a page that a read asked for (SPEC 5), made of the kept body. In this process; it may take long."""

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Never

from fetchd.core.charset import decode_text
from fetchd.core.read_arguments import ExtractMode
from fetchd.core.read_packet import JsonText, dump_json
from proxy_addons.policy.content_types import ContentClass

from .metadata import empty_metadata, extract_metadata
from .page_links import extract_links
from .rendering import render_fallback, render_page
from .tree import PageTooWildError


@dataclass(frozen=True, slots=True)
class SlicePlan:
    """What to make of a body. url: the final one. essence: of its Content-Type, None without one."""

    mode: ExtractMode
    url: str
    content_class: ContentClass
    essence: str | None
    encoding: str
    link_text: bool = False


class SliceError(ValueError):
    """Nothing of that kind can be made of the body; the text says why, in our own words."""


def slice_file(path: Path, plan: SlicePlan) -> object:
    """A str, object or array, as JSON has them. Raises SliceError."""
    return slice_body(path.read_bytes(), plan)


def slice_plainly(path: Path, plan: SlicePlan) -> object:
    """The text of a page that no renderer survives, in linear time. Raises SliceError for every other slice."""
    if plan.mode is not ExtractMode.TEXT or plan.content_class is not ContentClass.HTML:
        raise SliceError("the page is too large, or too intricate, to be taken apart")
    return render_fallback(decode_text(path.read_bytes(), plan.encoding, cut=False)).text


def slice_as_json(path: Path, plan: SlicePlan) -> JsonText:
    """See `slice_file`; as JSON text already, so that whoever asked need not hold the value too."""
    return JsonText(dump_json(slice_file(path, plan)))


def slice_body(body: bytes, plan: SlicePlan) -> object:
    """See `slice_file`."""
    match plan.mode:
        case ExtractMode.JSON:
            return _read_json(body)
        case ExtractMode.METADATA if plan.content_class is not ContentClass.HTML:
            return empty_metadata(plan.essence)
        case ExtractMode.LINKS if plan.content_class is not ContentClass.HTML:
            return []
    text = decode_text(body, plan.encoding, cut=False)
    if plan.mode is ExtractMode.TEXT:
        return render_page(text, plan.url).text if plan.content_class is ContentClass.HTML else text
    try:
        if plan.mode is ExtractMode.METADATA:
            return extract_metadata(text, plan.url, plan.essence)
        return extract_links(text, plan.url, with_text=plan.link_text)
    except PageTooWildError:
        raise SliceError("the page is nested too deeply to be taken apart") from None


def _read_json(body: bytes) -> object:
    """The body as one JSON document (RFC 8259, 8.1: UTF-8; a byte order mark is passed over)."""
    try:
        return json.loads(body.decode("utf-8-sig"), parse_constant=_refuse_constant, parse_float=_read_number)
    except (ValueError, RecursionError):
        raise SliceError("the body is not one JSON document in UTF-8 that can be handed on") from None


def _read_number(text: str) -> float:
    """A number that can be written again: one beyond what a double holds would come out as `Infinity`."""
    number = float(text)
    if not math.isfinite(number):
        raise ValueError("the number is too large")
    return number


def _refuse_constant(name: str) -> Never:
    raise ValueError(f"{name} is not JSON")
