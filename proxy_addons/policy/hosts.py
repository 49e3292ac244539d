"""Host patterns and the rules made of them.

Grammar (SPEC 1.1): `*` | name | `*.` name, each with optional `:port`; whole labels; one canonical form.

    good   *   docs.rs   *.example.com   example.com:8443   xn--bcher-kva.example   *:443
    bad    Example.COM   bücher.example   example.com.   *ample.com   a.*.com   10.0.0.1   https://docs.rs   ""

`name` matches exactly; `*.name` matches subdomains only; deny wins over allow.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from .targets import Target, TargetParseError, parse_target

MAX_NAME: Final = 253
"""Characters of the longest name there is (RFC 1035 2.3.4, without the last dot)."""

_PORT = re.compile(r"[0-9]{1,9}")  # bounded: int() of thousands of digits is an error of its own


class HostPatternError(ValueError):
    """The pattern is not in canonical form; the text names the form to write."""


@dataclass(frozen=True, slots=True)
class HostPattern:
    """One pattern: `suffix` is "" for `*`; `subdomains` for `*.suffix`; `port` None means any."""

    suffix: str
    subdomains: bool
    port: int | None

    def __str__(self) -> str:
        name = ("*." if self.suffix else "*") + self.suffix if self.subdomains else self.suffix
        return name if self.port is None else f"{name}:{self.port}"

    def matches(self, host: str, port: int | None) -> bool:
        """Whether a canonical host name (no trailing dot) and effective port fall under this pattern."""
        if self.port is not None and self.port != port:
            return False
        if not self.subdomains:
            return host == self.suffix
        return not self.suffix or host.endswith(f".{self.suffix}")


ANY_HOST = HostPattern("", True, None)


def parse_host_pattern(text: str) -> HostPattern:
    """One pattern from its text; raises HostPatternError, which names the canonical form where there is one."""
    name, colon, port_text = text.partition(":")
    port: int | None = None
    if colon:
        if not (_PORT.fullmatch(port_text) and 0 < int(port_text) <= 65535):
            raise HostPatternError(_complaint(text))
        if port_text != str(int(port_text)):
            raise HostPatternError(f'host pattern "{text}": write {name}:{int(port_text)}')
        port = int(port_text)
    if name == "*":
        return HostPattern("", True, port)
    subdomains = name.startswith("*.")
    suffix = name[2:] if subdomains else name
    canonical = _canonical_name(suffix)
    if canonical is None:
        raise HostPatternError(_complaint(text))
    if canonical != suffix:
        tail = "" if port is None else f":{port}"
        raise HostPatternError(f'host pattern "{text}": write {"*." if subdomains else ""}{canonical}{tail}')
    return HostPattern(suffix, subdomains, port)


def _canonical_name(name: str) -> str | None:
    """`name` as the WHATWG serializer writes it without a trailing dot; None when it is no DNS name."""
    if not name or "*" in name or any(c in "/\\?#@:" or c.isspace() for c in name):
        return None
    try:
        target = parse_target(f"https://{name}/")
    except TargetParseError:
        return None
    labels = target.dns_name.split(".")
    if (
        target.is_ip_literal
        or not all(0 < len(label) <= 63 for label in labels)
        or len(target.dns_name) > MAX_NAME
    ):
        return None
    return target.dns_name


def _complaint(text: str) -> str:
    return (
        f'host pattern "{text}" is not *, a host name or *.name with optional :port; '
        "write docs.rs or *.docs.rs:443"
    )


@dataclass(frozen=True, slots=True)
class HostRules:
    """Allow and deny patterns; deny wins; nothing allowed means nothing passes."""

    allow: tuple[HostPattern, ...] = (ANY_HOST,)
    deny: tuple[HostPattern, ...] = ()
    _index: tuple[Mapping[str, tuple[HostPattern, ...]], Mapping[str, tuple[HostPattern, ...]]] = field(
        init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "_index", (_by_suffix(self.allow), _by_suffix(self.deny)))

    def admits(self, target: Target) -> bool:
        """Whether the rules let `target` pass."""
        if not self.deny and self.allow == (ANY_HOST,):
            return True
        allow, deny = self._index
        name, port = target.dns_name, target.port
        if self.deny and _first_match(deny, name, port) is not None:
            return False
        return _first_match(allow, name, port) is not None


def matches_any(patterns: Iterable[HostPattern], target: Target) -> bool:
    """Whether any pattern covers `target`; for short lists such as hosts that may receive credentials."""
    return any(pattern.matches(target.dns_name, target.port) for pattern in patterns)


def _by_suffix(patterns: Iterable[HostPattern]) -> Mapping[str, tuple[HostPattern, ...]]:
    table: dict[str, tuple[HostPattern, ...]] = {}
    for pattern in patterns:
        table[pattern.suffix] = (*table.get(pattern.suffix, ()), pattern)
    return MappingProxyType(table)


def _first_match(
    table: Mapping[str, tuple[HostPattern, ...]], name: str, port: int | None
) -> HostPattern | None:
    """Walk the name's own suffixes, so that cost grows with its labels and not with the list."""
    for pattern in table.get("", ()):
        if pattern.matches(name, port):
            return pattern
    for suffix in walk_suffixes(name):
        for pattern in table.get(suffix, ()):
            if pattern.matches(name, port):
                return pattern
    return None


def walk_suffixes(name: str) -> Iterator[str]:
    """A name and those above it, longest first; of one that is too long for any pattern, those that are not.

    A URL can have a name of a hundred thousand labels: all that is above it would be the square of that.
    """
    suffix = name if len(name) <= MAX_NAME else name[-MAX_NAME - 1 :].partition(".")[2]
    while suffix:
        yield suffix
        suffix = suffix.partition(".")[2]
