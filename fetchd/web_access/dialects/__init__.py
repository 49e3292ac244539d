"""The shapes of asking: one file for each, pure. A dialect (`proxy_addons.policy.vendors`) is a row that one reads.

    messages    Anthropic Messages: anthropic-2025, anthropic
    chat        Chat Completions: openai-chat-2025, openai-chat, openrouter-2025, openrouter
    responses   OpenAI Responses: openai-responses

Each renders a request, parses a whole answer, and assembles the events of a stream to what would have come whole:
there is one reading of an answer, however it came.
"""

from .shapes import Assembler, Shape, shape_of

__all__ = ("Assembler", "Shape", "shape_of")
