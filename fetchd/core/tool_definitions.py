"""The tools' names, descriptions and parameters, in one table (SPEC 2); every face that publishes them reads it.

Two schemas come out of a row:
- `input_schema` is what a model is told: SPEC 2, word for word. It advises; nothing validates with it.
- `accepted_schema` is what the arguments are really held to, for the OpenAPI document: null stands for "left out",
  and an integer above the maximum is lowered, not refused. That `5.0` is no integer here, JSON Schema cannot say.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from fetchd.search.arguments import MAX_COUNT, MAX_DOMAINS, MAX_QUERY, MAX_TEXT
from fetchd.search.interface import Freshness, SafeSearch
from proxy_addons.policy.limits import MAX_CHARS
from proxy_addons.policy.reading import MAX_ALLOWLIST

from .read_arguments import ExtractMode

type Schema = dict[str, object]


class JsonType(StrEnum):
    """The JSON type of a parameter."""

    STRING = "string"
    STRINGS = "array"
    INTEGER = "integer"
    BOOLEAN = "boolean"


@dataclass(frozen=True, slots=True)
class Parameter:
    """One argument. maximum: the highest value that means something; a larger one is lowered to it, or, where the
    parameter is strict, refused.

    choices: the only values of a string. default: what stands for null, where that is not null. most: entries of an
    array. longest: characters of a string that is not blank.
    """

    name: str
    json_type: JsonType
    description: str
    required: bool = False
    minimum: int | None = None
    maximum: int | None = None
    choices: tuple[str, ...] = ()
    pattern: str | None = None
    default: object = None
    most: int | None = None
    longest: int | None = None
    strict: bool = False

    def limits(self) -> Schema:
        """What its values are held to, beside their type."""
        row: Schema = {}
        if self.minimum is not None:
            row["minimum"] = self.minimum
        if self.choices:
            row["enum"] = list(self.choices)
        if self.pattern is not None:
            row["pattern"] = self.pattern
        if self.json_type is JsonType.STRINGS:
            row["items"] = {"type": "string"}
        if self.most is not None:
            row["maxItems"] = self.most
        if self.longest is not None:
            row |= {"minLength": 1, "maxLength": self.longest}
        return row


@dataclass(frozen=True, slots=True)
class ToolDefinition:
    """One tool, as it is published. closed: unknown arguments are refused, not ignored."""

    name: str
    description: str
    parameters: tuple[Parameter, ...]
    read_only: bool
    open_world: bool
    closed: bool = False

    def input_schema(self) -> Schema:
        """For a model."""
        properties: Schema = {}
        for parameter in self.parameters:
            row: Schema = {"type": parameter.json_type.value, "description": parameter.description}
            row |= parameter.limits()
            if parameter.maximum is not None:
                row["maximum"] = parameter.maximum
            properties[parameter.name] = row
        return self._object(properties)

    def accepted_schema(self) -> Schema:
        """What is accepted; unknown keys are ignored, or refused by a closed tool."""
        properties: Schema = {}
        for parameter in self.parameters:
            name = parameter.json_type.value
            row: Schema = {
                "type": name if parameter.required else [name, "null"],
                "description": parameter.description,
            }
            row |= parameter.limits()
            if parameter.choices and not parameter.required:
                row["enum"] = [*parameter.choices, None]
            if parameter.strict:
                row["maximum"] = parameter.maximum
            elif parameter.default is not None:
                row["default"] = parameter.default
            elif parameter.maximum is not None:
                row["default"] = parameter.maximum
            elif parameter.json_type is JsonType.BOOLEAN:
                row["default"] = False
            properties[parameter.name] = row
        return self._object(properties)

    def _object(self, properties: Schema) -> Schema:
        required = [parameter.name for parameter in self.parameters if parameter.required]
        schema: Schema = {"type": "object", "properties": properties, "required": required}
        return {**schema, "additionalProperties": False} if self.closed else schema


WEB_FETCH: Final = ToolDefinition(
    name="web_fetch",
    description="Fetch a web page and return its main content as markdown.",
    parameters=(
        Parameter("url", JsonType.STRING, "The URL to fetch.", required=True),
        Parameter(
            "max_chars",
            JsonType.INTEGER,
            "Maximum number of characters of text to return for this call. Clamped to the configured ceiling. "
            "Longer text is truncated on a character boundary and the result is flagged as truncated.",
            minimum=1,
            maximum=MAX_CHARS,
        ),
        Parameter("raw", JsonType.BOOLEAN, "Render the whole page instead of its main article."),
    ),
    read_only=True,
    open_world=True,
)

PAGE_READ: Final = ToolDefinition(
    name="page_read",
    description=(
        "Read one public web page whole and return the part asked for, bound to a digest of the page's body, with "
        "its redirects and a signed receipt, so that it can be cited and checked later."
    ),
    parameters=(
        Parameter("url", JsonType.STRING, "The single public HTTP(S) URL to read.", required=True),
        Parameter(
            "allowlist",
            JsonType.STRINGS,
            "Host patterns (docs.rs, *.docs.rs, each with optional :port) for the URL and every redirect target. "
            "Left out: any public host. Empty: none.",
            default=["*"],
            most=MAX_ALLOWLIST,
        ),
        Parameter(
            "extract",
            JsonType.STRING,
            "What to return: readable text, metadata, absolute links, or the body as one JSON document.",
            choices=tuple(ExtractMode),
            default=ExtractMode.TEXT.value,
        ),
        Parameter("link_text", JsonType.BOOLEAN, "With links: return each with its text."),
        Parameter(
            "known_digest",
            JsonType.STRING,
            "Digest of an earlier read; where the page still has it, nothing is extracted again.",
            pattern="^sha256:[0-9a-f]{64}$",
        ),
    ),
    read_only=True,
    open_world=True,
    closed=True,
)

WEB_SEARCH: Final = ToolDefinition(
    name="web_search",
    description="Search the web and return a list of results (title, url, description).",
    parameters=(
        Parameter("query", JsonType.STRING, "What to search for.", required=True, longest=MAX_QUERY),
        Parameter(
            "count",
            JsonType.INTEGER,
            "Maximum number of results.",
            minimum=1,
            maximum=MAX_COUNT,
            strict=True,
        ),
        Parameter(
            "freshness",
            JsonType.STRING,
            "Only results from the past day (pd), week (pw), month (pm) or year (py).",
            choices=tuple(Freshness),
        ),
        Parameter("country", JsonType.STRING, "Country code to target, such as us.", longest=MAX_TEXT),
        Parameter("search_lang", JsonType.STRING, "Language code, such as en.", longest=MAX_TEXT),
        Parameter("safesearch", JsonType.STRING, "SafeSearch level.", choices=tuple(SafeSearch)),
        Parameter(
            "include_domains",
            JsonType.STRINGS,
            "Keep only results from these hostnames.",
            most=MAX_DOMAINS,
        ),
        Parameter(
            "exclude_domains", JsonType.STRINGS, "Drop results from these hostnames.", most=MAX_DOMAINS
        ),
    ),
    read_only=True,
    open_world=True,
    closed=True,
)

TOOLS: Final[Sequence[ToolDefinition]] = (WEB_FETCH, PAGE_READ, WEB_SEARCH)


def render_mcp(tool: ToolDefinition) -> Schema:
    """As an entry of the `tools` of an MCP `tools/list` result."""
    return {
        "name": tool.name,
        "description": tool.description,
        "inputSchema": tool.input_schema(),
        "annotations": {"readOnlyHint": tool.read_only, "openWorldHint": tool.open_world},
    }


def render_anthropic(tool: ToolDefinition) -> Schema:
    """As an entry of the `tools` of an Anthropic Messages request."""
    return {"name": tool.name, "description": tool.description, "input_schema": tool.input_schema()}


def render_openai(tool: ToolDefinition) -> Schema:
    """As an entry of the `tools` of an OpenAI Chat Completions request."""
    function = {"name": tool.name, "description": tool.description, "parameters": tool.input_schema()}
    return {"type": "function", "function": function}


FORMATS: Final[Mapping[str, Callable[[ToolDefinition], Schema]]] = MappingProxyType(
    {"anthropic": render_anthropic, "openai": render_openai, "mcp": render_mcp}
)
"""By the name of whose format it is."""
