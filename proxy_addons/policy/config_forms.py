"""The forms of configuration values: how a key is written, read and written back.

A form reads what `tomllib` or `json` gives and nothing is coerced: `true` is no number, `"5"` is none
either, and a host name, address or range not in its one canonical form is an error that shows that form.

    good   workers = 2   "127.0.0.1:3128"   "[::1]:53"   "168.63.129.16/32"   "*.example.com"
    bad    workers = true   "localhost:3128"   "::1:53"   "168.63.129.17/30"   "Example.COM"
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from typing import Any

from .agents import AGENT_NAME, RESERVED_AGENTS
from .hosts import HostPattern, HostPatternError, parse_host_pattern

type Json = bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None
"""What a document holds: everything JSON can say."""

MAX_ENTRIES = 10_000
"""Entries of any one list: far above any list kept by hand, far below what costs seconds at start."""

MAX_PATH = 4096
"""Characters of a path: PATH_MAX of Linux."""

PROFILE_NAME = re.compile(r"[a-z][a-z0-9_-]{0,31}")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_METHOD = re.compile(r"[A-Z]+(-[A-Z]+)*")


class FormError(ValueError):
    """A value that is not in its form.

    what: what to write, as an imperative; "" leaves it to the key's own description.
    where: the place below the key, such as `[1].port`.
    """

    def __init__(self, what: str = "", where: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.where = where


@dataclass(frozen=True, slots=True)
class Form[T]:
    """`text` follows the word "write"; `read` raises FormError; `dump` gives what `read` reads back."""

    text: str
    read: Callable[[object], T]
    dump: Callable[[T], Json]


def nearest(name: str, known: Iterable[str]) -> str:
    """What to say after "no such key": the known name closest to `name`, or all of them."""
    names = list(known)
    close = get_close_matches(name[:100], names, n=1)
    return f"did you mean {close[0]}?" if close else f"write one of {', '.join(names)}"


def render_toml(value: Json) -> str:
    """A document value as TOML writes it on one line."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{name} = {render_toml(part)}" for name, part in value.items()) + " }"
    if isinstance(value, Sequence):
        return "[" + ", ".join(map(render_toml, value)) + "]"
    return str(value)


# ------------------------------------------------------------------------------------------- single values


def whole(low: int, high: int, of: str = "") -> Form[int]:
    """A whole number from `low` to `high`; `of`: what it counts."""

    def read(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise FormError
        return value

    return Form(f"a whole number{of and f' of {of}'} from {low} to {high}", read, int)


def seconds(low: float, high: float) -> Form[float]:
    """A number of seconds; whole numbers are numbers too."""

    def read(value: object) -> float:
        # Written so that NaN, which TOML can say, is outside.
        if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
            raise FormError
        return float(value)

    return Form(f"a number of seconds from {low:g} to {high:g}", read, float)


def read_flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise FormError("write true or false")
    return value


def read_profile_name(value: object) -> str:
    if not isinstance(value, str) or PROFILE_NAME.fullmatch(value) is None:
        raise FormError("write the name of a profile: a small letter, then small letters, digits, _ and -")
    return value


def read_agent_name(value: object) -> str:
    if not isinstance(value, str) or AGENT_NAME.fullmatch(value) is None or value in RESERVED_AGENTS:
        raise FormError("write the name of an agent: a small letter, then small letters, digits, _ and -")
    return value


def _read_digest(value: object) -> str:
    if not isinstance(value, str) or _DIGEST.fullmatch(value) is None:
        raise FormError(
            "write the SHA-256 of the token, 64 small hex digits; fetchd agent add makes and keeps one for you"
        )
    return value


FLAG: Form[bool] = Form("true or false", lambda value: _bare(read_flag, value), bool)
PROFILE: Form[str] = Form("the name of a profile", read_profile_name, str)
DIGEST: Form[str] = Form("the SHA-256 of a token in hex", _read_digest, str)


def _bare[T](read: Callable[[object], T], value: object) -> T:
    """A value read for a key of its own, whose request says more than the reader can."""
    try:
        return read(value)
    except FormError:
        raise FormError from None


def one_of[E: StrEnum](choices: type[E]) -> Form[E]:
    """One name out of a closed set."""
    quoted = " or ".join(f'"{choice}"' for choice in choices)

    def read(value: object) -> E:
        if not isinstance(value, str) or value not in list(choices):
            raise FormError
        return choices(value)

    return Form(quoted, read, str)


# ---------------------------------------------------------------------------------------- lists and tables


def read_list[T](
    value: object, read: Callable[[object], T], least: int = 0, most: int = MAX_ENTRIES
) -> tuple[T, ...]:
    """Each entry read by `read`; an error says which entry, counted from 0 as in code."""
    if not isinstance(value, list) or len(value) < least:
        raise FormError
    if len(value) > most:
        raise FormError(f"write at most {most} entries")
    entries = []
    for index, entry in enumerate(value):
        try:
            entries.append(read(entry))
        except FormError as error:
            raise FormError(error.what, f"[{index}]{error.where}") from None
    return tuple(entries)


def some_of(*choices: str, least: int) -> Form[frozenset[str]]:
    """A list of names out of a closed set."""
    quoted = [f'"{choice}"' for choice in choices]

    def read_one(value: object) -> str:
        if not isinstance(value, str) or value not in choices:
            raise FormError(f"write {' or '.join(quoted)}")
        return value

    counted = "one or more" if least else "zero or more"
    return Form(
        f"a list of {counted} of {', '.join(quoted)}",
        lambda value: frozenset(read_list(value, read_one, least)),
        sorted,
    )


def read_port(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 65535:
        raise FormError("write a port: a whole number from 1 to 65535")
    return value


def _read_method(value: object) -> str:
    if value == "CONNECT":
        raise FormError("CONNECT opens the tunnel and is no method of a request in it; remove it")
    if not isinstance(value, str) or len(value) > 32 or _METHOD.fullmatch(value) is None:
        raise FormError('write an HTTP method in capitals, such as "POST"')
    return value


def read_host(value: object) -> HostPattern:
    # The longest name has 253 characters; with "*." and ":65535" a pattern has at most 261.
    if not isinstance(value, str) or len(value) > 300:
        raise FormError('write a host pattern such as "docs.rs", "*.docs.rs" or "docs.rs:443"')
    try:
        return parse_host_pattern(value)
    except HostPatternError as error:
        raise FormError(str(error)) from None


PORTS: Form[frozenset[int]] = Form(
    "a list of one or more whole numbers from 1 to 65535",
    lambda value: frozenset(read_list(value, read_port, least=1)),
    sorted,
)
METHODS: Form[frozenset[str]] = Form(
    "a list of one or more HTTP methods in capitals",
    lambda value: frozenset(read_list(value, _read_method, least=1)),
    sorted,
)
HOSTS: Form[tuple[HostPattern, ...]] = Form(
    "a list of host patterns (*, a name or *.name, each with optional :port)",
    lambda value: read_list(value, read_host),
    lambda patterns: [str(pattern) for pattern in patterns],
)


def _read_server_name(value: object) -> str:
    """A name as clients write it in a Host field: a host pattern that is a name alone."""
    pattern = read_host(value)
    if pattern.subdomains or pattern.port is not None:
        raise FormError('write a host name alone, such as "fetchd.internal"')
    return pattern.suffix


SERVER_NAMES: Form[tuple[str, ...]] = Form(
    "a list of host names", lambda value: read_list(value, _read_server_name, most=64), list
)


def _read_path(value: object) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= MAX_PATH or "\0" in value or value.startswith("~"):
        raise FormError('write the path of a PEM file, such as "corporate-ca.pem"; ~ is not expanded')
    return value


PATH: Form[str] = Form("the path of a PEM file, relative to the config file", _read_path, str)
PATHS: Form[tuple[str, ...]] = Form(
    "a list of paths of PEM files, relative to the config file",
    lambda value: read_list(value, _read_path),
    list,
)


def read_table(value: object, example: str, **readers: Callable[[object], Any]) -> dict[str, Any]:
    """An inline table; a reader may end in `_optional`. Unknown and missing names are errors."""
    if not isinstance(value, dict):
        raise FormError(f"write a table such as {example}")
    optional = {name.removesuffix("_optional") for name in readers if name.endswith("_optional")}
    known = {name.removesuffix("_optional"): read for name, read in readers.items()}
    for name in value:
        if name not in known:
            raise FormError(f"no such key; {nearest(name, known)}", f".{name}")
    found = {}
    for name, read in known.items():
        if name not in value:
            if name in optional:
                continue
            raise FormError(f"is missing; write a table such as {example}", f".{name}")
        try:
            found[name] = read(value[name])
        except FormError as error:
            raise FormError(error.what, f".{name}{error.where}") from None
    return found
