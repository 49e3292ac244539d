"""The inputs of page_read (SPEC 5): url, allowlist, extract, link_text, known_digest, in this order.

    {"url": "https://docs.rs/"}                                              → any host, text
    {"url": "…", "allowlist": ["docs.rs", "*.docs.rs"], "extract": "links"}

Other keys are refused by name: a read carries no headers, cookies or credentials. null stands for "left out".
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from proxy_addons.policy.hosts import ANY_HOST, HostPattern, HostPatternError, parse_host_pattern
from proxy_addons.policy.reading import MAX_ALLOWLIST

from .read_failures import ReadFailure, invalid_input, missing_input


class ExtractMode(StrEnum):
    """What of the page is inlined."""

    TEXT = "text"
    METADATA = "metadata"
    LINKS = "links"
    JSON = "json"


INPUTS = ("url", "allowlist", "extract", "link_text", "known_digest")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_MAX_PATTERN = 300


@dataclass(frozen=True, slots=True)
class ReadArguments:
    """A read that may start: `url` exactly as supplied, not judged yet.

    allowlist: hosts of the URL and of every redirect target; empty allows none. link_text: each link with its text.
    """

    url: str
    allowlist: tuple[HostPattern, ...] = (ANY_HOST,)
    extract: ExtractMode = ExtractMode.TEXT
    link_text: bool = False
    known_digest: str | None = None

    @property
    def narrowed(self) -> tuple[HostPattern, ...] | None:
        """The allowlist where it narrows anything, else None."""
        return None if ANY_HOST in self.allowlist else self.allowlist


def parse_read_arguments(text: str | bytes) -> ReadArguments | ReadFailure:
    """The inputs from the JSON text of a call, UTF-8 if bytes; what is no JSON object has no url."""
    try:
        value = json.loads(text.decode("utf-8") if isinstance(text, bytes) else text)
    except (ValueError, RecursionError):
        return missing_input("url")
    return read_read_arguments(value)


def read_read_arguments(value: object) -> ReadArguments | ReadFailure:
    """The inputs from a value that a JSON reader made."""
    if not isinstance(value, Mapping):
        return missing_input("url")
    url = value.get("url")
    if url is None or url == "":
        return missing_input("url")
    if not isinstance(url, str):
        return invalid_input("url", "write a URL as a string")
    for name in value:
        if name not in INPUTS:
            there = f"no such input; there are {', '.join(INPUTS)}"
            return invalid_input(str(name)[:100], there, logged=f"page_read: {there}")
    allowlist = _read_allowlist(value.get("allowlist"))
    if isinstance(allowlist, ReadFailure):
        return allowlist
    extract = value.get("extract")
    if extract is None:
        extract = ExtractMode.TEXT
    if not isinstance(extract, str) or extract not in list(ExtractMode):
        return invalid_input("extract", f"write one of {', '.join(ExtractMode)}")
    link_text = value.get("link_text")
    if link_text is not None and not isinstance(link_text, bool):
        return invalid_input("link_text", "write true or false")
    known = value.get("known_digest")
    if known is not None and not (isinstance(known, str) and _DIGEST.fullmatch(known)):
        return invalid_input("known_digest", "write sha256: and 64 small hex digits")
    return ReadArguments(url, allowlist, ExtractMode(extract), bool(link_text), known)


def _read_allowlist(value: object) -> tuple[HostPattern, ...] | ReadFailure:
    if value is None:
        return (ANY_HOST,)
    if not isinstance(value, list):
        return invalid_input("allowlist", 'write a list of host patterns, such as ["docs.rs", "*.docs.rs"]')
    if len(value) > MAX_ALLOWLIST:
        return invalid_input("allowlist", f"write at most {MAX_ALLOWLIST} patterns")
    patterns = []
    for index, one in enumerate(value):
        if not isinstance(one, str) or len(one) > _MAX_PATTERN:
            return invalid_input(f"allowlist[{index}]", 'write a host pattern, such as "docs.rs"')
        try:
            patterns.append(parse_host_pattern(one))
        except HostPatternError as error:
            where = f"allowlist[{index}]"
            return invalid_input(
                where, str(error), logged=f"page_read: {where}: not a host pattern as it is written"
            )
    return tuple(dict.fromkeys(patterns))
