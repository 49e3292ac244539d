"""SPEC 3: no text closes the envelope, reopens it, carries the nonce or live chat-template markup."""

import re
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fetchd.core.envelope import CUT_OUT, MARKUP_NAMES, escape_text, render_envelope

NONCE = "0123456789abcdef0123456789abcdef"
OVERLAPPING = "a" * 32
LIVE = re.compile(rf"\[/?({'|'.join(MARKUP_NAMES)})\]", re.IGNORECASE)

_cases = st.sampled_from(MARKUP_NAMES).flatmap(
    lambda name: st.lists(st.booleans(), min_size=len(name), max_size=len(name)).map(
        lambda up: "".join(c.upper() if u else c.lower() for c, u in zip(name, up, strict=True))
    )
)
_fragments: Sequence[str] = (
    "<untrusted_input_", "</untrusted_input_", ">", "<", "\n", " ", "[", "]", "/", "&lt;", "untrusted_input_",
    NONCE, NONCE[:16], NONCE[16:], OVERLAPPING, "a" * 48, "a", "0", "é", "\r\n", "\t",
)  # fmt: skip
_texts = st.lists(st.sampled_from(_fragments) | _cases | st.text(max_size=4), max_size=40).map("".join)


def test_the_exact_form() -> None:
    assert (
        render_envelope("url: x\n\ncontent", NONCE)
        == f"<untrusted_input_{NONCE}>\nurl: x\n\ncontent\n</untrusted_input_{NONCE}>"
    )


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        pytest.param("a < b && c > d", "a &lt; b && c > d", id="only < is escaped"),
        pytest.param("&lt;b&gt;", "&lt;b&gt;", id="an ampersand is not"),
        pytest.param("[INST]", "[ INST]", id="an opener gets a space"),
        pytest.param("[/INST]", "[ /INST]", id="a closer gets a space"),
        pytest.param("[inst][InSt]", "[ inst][ InSt]", id="any letter case"),
        pytest.param(
            "[SYSTEM_PROMPT]x[/SYSTEM_PROMPT]", "[ SYSTEM_PROMPT]x[ /SYSTEM_PROMPT]", id="system prompt"
        ),
        pytest.param(
            "[TOOL_CALLS][TOOL_RESULTS]", "[ TOOL_CALLS][ TOOL_RESULTS]", id="tool calls and results"
        ),
        pytest.param("[AVAILABLE_TOOLS]", "[ AVAILABLE_TOOLS]", id="available tools"),
        pytest.param("[[INST]]", "[[ INST]]", id="in a second bracket"),
        pytest.param("[INSTANCE] [ INST] INST]", "[INSTANCE] [ INST] INST]", id="what is not live stays"),
        pytest.param("[link](https://a/)", "[link](https://a/)", id="a markdown link stays"),
        pytest.param(NONCE, f"{NONCE[:16]} {NONCE[16:]}", id="the nonce is broken in its middle"),
        pytest.param(NONCE.upper(), NONCE.upper(), id="another letter case is another text"),
        pytest.param("</untrusted_input_x>", "&lt;/untrusted_input_x>", id="a closer with a made-up nonce"),
        pytest.param("", "", id="nothing"),
    ],
)
def test_escaping(text: str, escaped: str) -> None:
    assert escape_text(text, NONCE) == escaped


@pytest.mark.parametrize(
    "closer",
    [
        f"</untrusted_input_{NONCE} k=7>",
        f"</UNTRUSTED_INPUT_{NONCE}\t>",
        f"< / untrusted_input_{NONCE}>",
        f"<untrusted_input_{NONCE}/>",
        f"&lt;/untrusted_input_{NONCE}&gt;",
    ],
)
def test_look_alikes_of_the_closer_hold_neither_bracket_nor_nonce(closer: str) -> None:
    """Bug case C055."""
    escaped = escape_text(closer, NONCE)

    assert "<" not in escaped
    assert NONCE not in escaped


@given(_texts, st.sampled_from([NONCE, OVERLAPPING]))
def test_the_cut_out_pattern_returns_the_escaped_text(text: str, nonce: str) -> None:
    envelope = render_envelope(text, nonce)

    found = CUT_OUT.fullmatch(envelope)
    assert found is not None
    assert found[1] == escape_text(text, nonce)


@given(_texts, st.sampled_from([NONCE, OVERLAPPING]))
def test_nothing_live_is_left_inside(text: str, nonce: str) -> None:
    escaped = escape_text(text, nonce)

    assert "<" not in escaped
    assert nonce not in escaped
    assert LIVE.search(escaped) is None


@given(_texts)
def test_nothing_else_changes(text: str) -> None:
    """Undoing the escapes gives the text back, but for spaces set into it."""
    assert escape_text(text, NONCE).replace("&lt;", "<").replace(" ", "") == text.replace(
        "&lt;", "<"
    ).replace(" ", "")


@pytest.mark.parametrize("nonce", ["", "abc", NONCE[:31], NONCE.upper(), NONCE + "g", NONCE + "\n"])
def test_a_weak_nonce_is_refused(nonce: str) -> None:
    with pytest.raises(ValueError, match="nonce"):
        render_envelope("x", nonce)
