"""Which requests to a vendor's host carry a model's request, and what is done with all the others.

A path is met by its last segments, so that a base path before them (`/openai/deployments/NAME/chat/completions`)
changes nothing; what is only let through must be the whole path. Nothing is decoded or corrected: a path that is
written otherwise (`/v1//messages`, `/v1/Messages`, `/v1/%6Dessages`) is one that nobody knows.

    inspected   the body is read: its web tools are held, and the addresses judged that the vendor fetches
    harmless    nothing in it can make the vendor reach the web
    closed      it can, or nobody knows: refused wherever web tools are held
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

from proxy_addons.policy.hosts import HostPattern, parse_host_pattern, walk_suffixes
from proxy_addons.policy.targets import Target

from .dialects import Vendor


class BodyKind(StrEnum):
    """The shape of a model's request, whoever serves it."""

    MESSAGES = "messages"
    CHAT = "chat"
    RESPONSES = "responses"
    CONTENT = "content"
    """No conversation: content of which the vendor makes numbers, a verdict or sound."""


class ErrorShape(StrEnum):
    """In which words a vendor's SDKs read a refusal."""

    ANTHROPIC = "anthropic"
    OPENAI = "openai"
    OPENROUTER = "openrouter"


class Handling(StrEnum):
    """What becomes of a request where web tools are held."""

    INSPECTED = "inspected"
    HARMLESS = "harmless"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One request to a vendor.

    kind: of its body, where that is inspected; of the answer alone, where one is asked for that is not inspected.
    runs: whether the vendor runs tools; where it does not, there is no number of uses to cap.
    """

    vendor: Vendor
    handling: Handling
    kind: BodyKind | None = None
    runs: bool = True

    @property
    def shape(self) -> ErrorShape:
        """The vendor's, but for a model's request in another's shape."""
        if self.kind is BodyKind.MESSAGES:
            return ErrorShape.ANTHROPIC
        return ErrorShape(self.vendor.value)


INSPECTED: Mapping[Vendor, tuple[tuple[str, BodyKind], ...]] = MappingProxyType(
    {
        Vendor.ANTHROPIC: (
            ("v1/messages", BodyKind.MESSAGES),
            ("v1/chat/completions", BodyKind.CHAT),  # the vendor's layer for OpenAI's SDK
        ),
        Vendor.OPENAI: (
            ("chat/completions", BodyKind.CHAT),
            ("completions", BodyKind.CHAT),
            ("responses", BodyKind.RESPONSES),
        ),
        Vendor.OPENROUTER: (
            ("chat/completions", BodyKind.CHAT),
            ("completions", BodyKind.CHAT),
            ("responses", BodyKind.RESPONSES),
            ("messages", BodyKind.MESSAGES),
        ),
    }
)
"""Last segments of the path, and the shape of what is posted there; the first that fits counts."""

INSPECTED_ASIDE: Mapping[Vendor, tuple[tuple[str, BodyKind], ...]] = MappingProxyType(
    {
        Vendor.ANTHROPIC: (("v1/messages/count_tokens", BodyKind.MESSAGES),),
        Vendor.OPENAI: (
            ("responses/input_tokens", BodyKind.RESPONSES),
            ("responses/compact", BodyKind.RESPONSES),
            ("conversations", BodyKind.RESPONSES),
            ("conversations/{id}/items", BodyKind.RESPONSES),
            ("moderations", BodyKind.CONTENT),
        ),
        Vendor.OPENROUTER: (
            ("embeddings", BodyKind.CONTENT),
            ("audio/speech", BodyKind.CONTENT),
            ("audio/transcriptions", BodyKind.CONTENT),
        ),
    }
)
"""The same of what runs no tool. The vendor still fetches the pictures it counts or judges, asks an MCP server for
its tools to count them, and keeps tools that are said to be part of a conversation."""

HARMLESS: Mapping[Vendor, frozenset[str]] = MappingProxyType(
    {
        Vendor.ANTHROPIC: frozenset({"v1/files", "v1/complete"}),
        Vendor.OPENAI: frozenset(
            {
                "v1/embeddings", "v1/files", "v1/uploads",
                "v1/uploads/{id}/parts", "v1/uploads/{id}/complete", "v1/uploads/{id}/cancel",
                "v1/responses/{id}/cancel", "v1/batches/{id}/cancel",
                "v1/audio/speech", "v1/audio/transcriptions", "v1/audio/translations",
                "v1/images/generations", "v1/vector_stores", "v1/vector_stores/{id}",
                "v1/vector_stores/{id}/files", "v1/vector_stores/{id}/file_batches", "v1/vector_stores/{id}/search",
            }
        ),
        Vendor.OPENROUTER: frozenset({"api/v1/files"}),
    }
)  # fmt: skip
"""Whole paths that may be written to: embedding, speaking and keeping what the agent itself sends. A file that lists
a batch's requests is harmless until the batch is made, and making one is closed."""

BODYLESS = frozenset({"GET", "HEAD", "OPTIONS", "DELETE"})
"""Methods that pass, as long as they bring no body and ask for no upgrade."""

_PLAIN = re.compile(r"[A-Za-z0-9._~:@-]+")
_ID = "{id}"


DIVERTING = frozenset(
    {
        b"upgrade",
        b"x-http-method-override",
        b"x-http-method",
        b"x-method-override",
        b"x-original-url",
        b"x-rewrite-url",
    }
)
"""Fields by which a server may take another protocol, method or path than the request line says."""


def find_endpoint(vendor: Vendor, method: str, target: Target, *, diverted: bool = False) -> Endpoint:
    """What `method` at `target` is to `vendor`. diverted: a field of it asks for something else."""
    if diverted:
        return Endpoint(vendor, Handling.CLOSED)
    segments = target.path.removeprefix("/").split("/")
    if method in BODYLESS:
        kind = BodyKind.RESPONSES if method == "GET" and _is_kept_response(vendor, segments) else None
        return Endpoint(vendor, Handling.HARMLESS, kind)
    if method != "POST" or not all(map(_PLAIN.fullmatch, segments)):
        return Endpoint(vendor, Handling.CLOSED)
    for runs, table in ((True, INSPECTED), (False, INSPECTED_ASIDE)):
        for tail, kind in table[vendor]:
            if _fits(tail, segments[-len(tail.split("/")) :]):
                return Endpoint(vendor, Handling.INSPECTED, kind, runs)
    if any(_fits(whole, segments) for whole in HARMLESS[vendor]):
        return Endpoint(vendor, Handling.HARMLESS)
    return Endpoint(vendor, Handling.CLOSED)


def _fits(wanted: str, segments: list[str]) -> bool:
    names = wanted.split("/")
    return len(names) == len(segments) and all(
        name in (_ID, segment) for name, segment in zip(names, segments, strict=True)
    )


def _is_kept_response(vendor: Vendor, segments: list[str]) -> bool:
    """Whether the answer of a call that ran in the background is asked for."""
    return vendor is Vendor.OPENAI and len(segments) > 1 and segments[-2] == "responses"


def _patterns(*texts: str) -> tuple[HostPattern, ...]:
    return tuple(map(parse_host_pattern, texts))


DEFAULT_HOSTS: Mapping[Vendor, tuple[HostPattern, ...]] = MappingProxyType(
    {
        Vendor.ANTHROPIC: _patterns("api.anthropic.com", "*.api.anthropic.com"),
        Vendor.OPENAI: _patterns("api.openai.com", "*.api.openai.com"),
        Vendor.OPENROUTER: _patterns("openrouter.ai", "*.openrouter.ai"),
    }
)
"""Where the vendors answer, their regional names among them."""


@dataclass(frozen=True, slots=True)
class VendorHosts:
    """The hosts at which each vendor's API answers, one's own gateways to it among them."""

    patterns: Mapping[Vendor, tuple[HostPattern, ...]] = DEFAULT_HOSTS
    _index: Mapping[str, tuple[tuple[HostPattern, Vendor], ...]] = field(
        init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        index: dict[str, tuple[tuple[HostPattern, Vendor], ...]] = {}
        for vendor, patterns in self.patterns.items():
            for pattern in patterns:
                index[pattern.suffix] = (*index.get(pattern.suffix, ()), (pattern, vendor))
        object.__setattr__(self, "_index", MappingProxyType(index))

    def find(self, target: Target) -> Vendor | None:
        """Whose host it is. Asked of every hop: the name's own suffixes are looked up, longest first."""
        for suffix in (*walk_suffixes(target.dns_name), ""):
            for pattern, vendor in self._index.get(suffix, ()):
                if pattern.matches(target.dns_name, target.port):
                    return vendor
        return None
