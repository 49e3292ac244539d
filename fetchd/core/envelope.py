"""The untrusted envelope (SPEC 3): the only way fetched text reaches a model.

    <untrusted_input_{nonce}>
    {escaped text}
    </untrusted_input_{nonce}>

Laws of this file
- No text closes the envelope, reopens it, carries the nonce or live chat-template markup.
- Nothing else of the text changes. The close tag is the last line, without a newline after it.
- `CUT_OUT` finds the escaped text again.
"""

import re
from collections.abc import Sequence

NONCE_BYTES = 16
"""Random bytes of a nonce, at the least: 128 bits."""

MARKUP_NAMES: Sequence[str] = (
    "INST",
    "SYSTEM_PROMPT",
    "AVAILABLE_TOOLS",
    "TOOL_CALLS",
    "TOOL_CONTENT",
    "TOOL_RESULTS",
    "CALL_ID",
    "ARGS",
    "THINK",
    "MODEL_SETTINGS",
    "gMASK",
)
"""Control words that chat templates write in brackets, with or without a leading slash (Mistral, GLM).

Templates that write theirs in angle brackets need no row: every `<` is escaped.
"""

CUT_OUT = re.compile(r"<untrusted_input_[0-9a-f]+>\n(.*)\n</untrusted_input_[0-9a-f]+>\Z", re.DOTALL)
"""Finds the escaped text in an envelope."""

_NONCE = re.compile(rf"[0-9a-f]{{{2 * NONCE_BYTES},}}")
_MARKUP = re.compile(rf"\[(?=/?(?:{'|'.join(MARKUP_NAMES)})\])", re.IGNORECASE | re.ASCII)


def render_envelope(text: str, nonce: str) -> str:
    """`text` escaped, between the tags of `nonce`: lowercase hex, fresh a call. Raises ValueError if weak."""
    if _NONCE.fullmatch(nonce) is None:
        raise ValueError(f"a nonce is at least {2 * NONCE_BYTES} lowercase hex digits")
    return f"<untrusted_input_{nonce}>\n{escape_text(text, nonce)}\n</untrusted_input_{nonce}>"


def escape_text(text: str, nonce: str) -> str:
    """`text` as it stands inside the envelope of `nonce`."""
    text = _MARKUP.sub("[ ", text.replace("<", "&lt;"))
    middle = len(nonce) // 2
    broken = f"{nonce[:middle]} {nonce[middle:]}"
    while nonce in text:  # a nonce that overlaps itself can come together again where a copy was broken
        text = text.replace(nonce, broken)
    return text
