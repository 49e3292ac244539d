"""The tables know all that the vendors' newest SDKs can send: a new member or tool of theirs fails here first."""

from __future__ import annotations

import types
import typing
from collections.abc import Iterator
from typing import Any

import pytest
from anthropic.types import message_create_params, tool_union_param
from anthropic.types.beta import beta_fallback_param, beta_tool_union_param
from anthropic.types.beta import message_create_params as beta_message_create_params
from openai.types import completion_create_params as text_completion_params
from openai.types.chat import chat_completion_tool_union_param, completion_create_params
from openai.types.responses import response_create_params, tool_param

from proxy_addons.policy.vendors.endpoints import BodyKind
from proxy_addons.policy.vendors.tools import (
    ANTHROPIC_WEB,
    CONTAINER_TOOLS,
    FALLBACK_MEMBERS,
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
    ),
    BodyKind.CHAT: members_of(
        completion_create_params.CompletionCreateParamsBase,
        completion_create_params.CompletionCreateParamsStreaming,
        text_completion_params.CompletionCreateParamsBase,
    ),
    BodyKind.RESPONSES: members_of(
        response_create_params.ResponseCreateParamsBase, response_create_params.ResponseCreateParamsStreaming
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
CHAT_TOOLS = dict(entries_of(chat_completion_tool_union_param.ChatCompletionToolUnionParam))


def test_every_tool_is_known() -> None:
    assert len(MESSAGES_TOOLS) > 20
    assert set(MESSAGES_TOOLS) - OWN_TOOLS[BodyKind.MESSAGES] - set(ANTHROPIC_WEB) == set()
    own = OWN_TOOLS[BodyKind.RESPONSES] | CONTAINER_TOOLS | {"mcp"}
    assert len(RESPONSES_TOOLS) > 10
    assert set(RESPONSES_TOOLS) - own - set(RESPONSES_WEB) == set()
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


def test_fallbacks_can_set_what_is_known() -> None:
    assert members_of(beta_fallback_param.BetaFallbackParam) == FALLBACK_MEMBERS
