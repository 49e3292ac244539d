"""The tables know all that the vendors' newest SDKs can send: a new member or tool of theirs fails here first."""

from __future__ import annotations

import re
import types
import typing
from collections.abc import Iterator
from typing import Any

import pytest
from anthropic.types import message_count_tokens_params, message_create_params, tool_union_param
from anthropic.types.beta import (
    beta_fallback_param,
    beta_request_mcp_server_url_definition_param,
    beta_tool_union_param,
)
from anthropic.types.beta import message_count_tokens_params as beta_message_count_tokens_params
from anthropic.types.beta import message_create_params as beta_message_create_params
from openai.types import completion_create_params as text_completion_params
from openai.types import embedding_create_params, moderation_create_params
from openai.types.beta import beta_tool_param
from openai.types.beta import response_compact_params as beta_response_compact_params
from openai.types.beta import response_create_params as beta_response_create_params
from openai.types.beta.responses import input_token_count_params as beta_input_token_count_params
from openai.types.chat import chat_completion_tool_union_param, completion_create_params
from openai.types.conversations import conversation_create_params, item_create_params
from openai.types.responses import (
    container_auto_param,
    input_token_count_params,
    response_compact_params,
    response_create_params,
    tool_param,
)
from typing_extensions import is_typeddict

from proxy_addons.policy.vendors.endpoints import BodyKind
from proxy_addons.policy.vendors.tools import (
    ANTHROPIC_WEB,
    CONTAINER_MEMBERS,
    CONTAINER_TOOLS,
    FALLBACK_MEMBERS,
    MCP_MEMBERS,
    MEMBERS,
    OWN_TOOLS,
    RESPONSES_WEB,
    WebTool,
)

NO_BODY = {"betas", "extra_headers", "extra_query", "extra_body", "timeout"}
"""Arguments of an SDK that are no members of a body."""


def members_of(*classes: Any) -> set[str]:
    return {name for one in classes for name in one.__annotations__} - NO_BODY


BODIES = {
    BodyKind.MESSAGES: members_of(
        message_create_params.MessageCreateParamsBase,
        message_create_params.MessageCreateParamsStreaming,
        beta_message_create_params.MessageCreateParamsBase,
        message_count_tokens_params.MessageCountTokensParams,
        beta_message_count_tokens_params.MessageCountTokensParams,
    ),
    BodyKind.CHAT: members_of(
        completion_create_params.CompletionCreateParamsBase,
        completion_create_params.CompletionCreateParamsStreaming,
        text_completion_params.CompletionCreateParamsBase,
    ),
    BodyKind.RESPONSES: members_of(
        response_create_params.ResponseCreateParamsBase,
        response_create_params.ResponseCreateParamsStreaming,
        input_token_count_params.InputTokenCountParams,
        response_compact_params.ResponseCompactParams,
        beta_response_create_params.ResponseCreateParamsBase,
        beta_input_token_count_params.InputTokenCountParams,
        beta_response_compact_params.ResponseCompactParams,
        conversation_create_params.ConversationCreateParams,
        item_create_params.ItemCreateParams,
    ),
    BodyKind.CONTENT: members_of(
        moderation_create_params.ModerationCreateParams, embedding_create_params.EmbeddingCreateParams
    ),
}


@pytest.mark.parametrize("kind", BodyKind)
def test_every_member_of_a_body_is_known(kind: BodyKind) -> None:
    assert BODIES[kind] - MEMBERS[kind] == set()


def literals_of(annotation: Any) -> Iterator[str]:
    """The texts that a `type` may be."""
    if typing.get_origin(annotation) is typing.Literal:
        yield from typing.get_args(annotation)
    else:
        for inner in typing.get_args(annotation):
            yield from literals_of(inner)


def entries_of(union: Any) -> Iterator[tuple[str, set[str]]]:
    """Each `type` of a union of typed dictionaries, and the members beside it."""
    for one in typing.get_args(union):
        if isinstance(one, type | types.GenericAlias) or hasattr(one, "__annotations__"):
            hints = typing.get_type_hints(one, include_extras=True)
            for name in literals_of(hints["type"]):
                yield name, set(hints)


MESSAGES_TOOLS = {
    **dict(entries_of(tool_union_param.ToolUnionParam)),
    **dict(entries_of(beta_tool_union_param.BetaToolUnionParam)),
}
RESPONSES_TOOLS = dict(entries_of(tool_param.ToolParam))
BETA_RESPONSES_TOOLS = dict(entries_of(beta_tool_param.BetaToolParam))
CHAT_TOOLS = dict(entries_of(chat_completion_tool_union_param.ChatCompletionToolUnionParam))


def test_every_tool_is_known() -> None:
    assert len(MESSAGES_TOOLS) > 20
    assert set(MESSAGES_TOOLS) - OWN_TOOLS[BodyKind.MESSAGES] - set(ANTHROPIC_WEB) == set()
    own = OWN_TOOLS[BodyKind.RESPONSES] | {*CONTAINER_TOOLS, "mcp"}
    assert len(RESPONSES_TOOLS) > 10
    assert set(RESPONSES_TOOLS) - own - set(RESPONSES_WEB) == set()
    assert BETA_RESPONSES_TOOLS == RESPONSES_TOOLS
    assert set(CHAT_TOOLS) == OWN_TOOLS[BodyKind.CHAT]


@pytest.mark.parametrize("name", [*ANTHROPIC_WEB, *RESPONSES_WEB])
def test_every_member_of_a_web_tool_is_known(name: str) -> None:
    row: WebTool = ANTHROPIC_WEB[name] if name in ANTHROPIC_WEB else RESPONSES_WEB[name]
    there = MESSAGES_TOOLS[name] if name in ANTHROPIC_WEB else RESPONSES_TOOLS[name]

    assert there - row.known == set()
    if name in ANTHROPIC_WEB:
        assert row.known == there


def test_web_tools_are_all_those_that_sound_like_one() -> None:
    sounding = {name for name in {**MESSAGES_TOOLS, **RESPONSES_TOOLS} if name.startswith("web")}
    assert sounding == {*ANTHROPIC_WEB, *RESPONSES_WEB}


def test_the_members_of_what_reaches_out_are_known() -> None:
    server = beta_request_mcp_server_url_definition_param.BetaRequestMCPServerURLDefinitionParam
    assert members_of(server) == MCP_MEMBERS[BodyKind.MESSAGES]
    assert RESPONSES_TOOLS["mcp"] == MCP_MEMBERS[BodyKind.RESPONSES]
    containers = members_of(
        container_auto_param.ContainerAutoParam, tool_param.CodeInterpreterContainerCodeInterpreterToolAuto
    )
    assert containers == CONTAINER_MEMBERS
    for tool, member in CONTAINER_TOOLS.items():
        assert member in RESPONSES_TOOLS[tool]


def test_fallbacks_can_set_what_is_known() -> None:
    assert members_of(beta_fallback_param.BetaFallbackParam) == FALLBACK_MEMBERS


# ------------------------------------------------------------------------------------- addresses, wherever they stand

ROOTS = (
    message_create_params.MessageCreateParamsBase,
    beta_message_create_params.MessageCreateParamsBase,
    beta_message_count_tokens_params.MessageCountTokensParams,
    completion_create_params.CompletionCreateParamsBase,
    text_completion_params.CompletionCreateParamsBase,
    response_create_params.ResponseCreateParamsBase,
    input_token_count_params.InputTokenCountParams,
    response_compact_params.ResponseCompactParams,
    beta_response_create_params.ResponseCreateParamsBase,
    beta_input_token_count_params.InputTokenCountParams,
    beta_response_compact_params.ResponseCompactParams,
    conversation_create_params.ConversationCreateParams,
    item_create_params.ItemCreateParams,
    moderation_create_params.ModerationCreateParams,
    embedding_create_params.EmbeddingCreateParams,
)
SOUNDING = re.compile("ur[il]|link|domain|network|connector|tunnel|host|endpoint|webhook|callback|source")

FETCHED = "judged: the vendor fetches it"
HELD = "held with the tool that it stands in"
SAID = "data of an earlier turn, or a name: nobody fetches it"
ADDRESSES = {
    "URLImageSource.url": FETCHED,
    "URLPDFSource.url": FETCHED,
    "RequestMCPServerURLDefinition.url": FETCHED,
    "Mcp.server_url": FETCHED,
    "ChatCompletionContentPartImage.image_url": FETCHED,
    "ModerationImageURLInput.image_url": FETCHED,
    "ImageURL.url": FETCHED,
    "ImageGenerationInputImageMask.image_url": FETCHED,
    "OutputImage.url": FETCHED,
    "ResponseComputerToolCallOutputScreenshot.image_url": FETCHED,
    "ResponseInputFileContent.file_url": FETCHED,
    "ResponseInputFile.file_url": FETCHED,
    "ResponseInputImageContent.image_url": FETCHED,
    "ResponseInputImage.image_url": FETCHED,
    "Mcp.connector_id": HELD,
    "Mcp.tunnel_id": HELD,
    "CodeInterpreterContainerCodeInterpreterToolAuto.network_policy": HELD,
    "ContainerAuto.network_policy": HELD,
    "ContainerNetworkPolicyAllowlist.allowed_domains": HELD,
    "ContainerNetworkPolicyAllowlist.domain_secrets": HELD,
    "ContainerNetworkPolicyDomainSecret.domain": HELD,
    "Filters.allowed_domains": HELD,
    "WebFetchTool.allowed_domains": HELD,
    "WebFetchTool.blocked_domains": HELD,
    "WebFetchTool.url_sources": HELD,
    "WebSearchTool.allowed_domains": HELD,
    "WebSearchTool.blocked_domains": HELD,
    "ImageBlock.source": "an object of its own, which has a type",
    "RequestDocumentBlock.source": "an object of its own, which has a type",
    "DocumentBlock.source": "an object of its own, which has a type",
    "InlineSkill.source": "Base64",
    "BrowserToolsetConfigs.read_network": "the agent's own browser",
    "BrowserStateChangeDownloadCompleted.url": SAID,
    "BrowserStateChangeDownloadFailed.url": SAID,
    "BrowserStateChangeDownloadStarted.url": SAID,
    "BrowserStateTabEntry.url": SAID,
    "CitationSearchResultLocation.source": SAID,
    "CitationWebSearchResultLocation.url": SAID,
    "SearchResultBlock.source": SAID,
    "WebFetchBlock.url": SAID,
    "WebSearchResultBlock.url": SAID,
    "ActionFind.url": SAID,
    "ActionOpenPage.url": SAID,
    "ActionSearch.sources": SAID,
    "ActionSearchSource.url": SAID,
    "ActionFindInPage.url": SAID,
    "AnnotationURLCitation.url": SAID,
    "MultiAgentCallOutputOutputAnnotationURLCitation.url": SAID,
}
"""What sounds like an address in the types of a request, by class and member, and what becomes of it."""
NOT_THE_NAME = re.compile("^Beta|^Tool(?=Mcp|Code|Image)|[0-9]{8}|Param$")


def dictionaries_in(annotation: Any, seen: set[type]) -> Iterator[type]:
    """The typed dictionaries that a value of this type may hold, at any depth, each once."""
    for inner in typing.get_args(annotation):
        yield from dictionaries_in(inner, seen)
    if is_typeddict(annotation) and annotation not in seen:
        seen.add(annotation)
        yield annotation
        for hint in typing.get_type_hints(annotation, include_extras=True).values():
            yield from dictionaries_in(hint, seen)


def test_whatever_sounds_like_an_address_has_been_looked_at() -> None:
    seen: set[type] = set()
    found = [one for root in ROOTS for one in dictionaries_in(root, seen)]
    names = {
        f"{NOT_THE_NAME.sub('', one.__name__)}.{name}"
        for one in found
        for name in one.__annotations__
        if SOUNDING.search(name)
    }
    assert len(found) > 500
    assert names == set(ADDRESSES)
