"""SPEC 2.1: rows 1 to 5, judged on the head, in their order."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fetchd.core.failures import Message, ToolFailure
from fetchd.core.response import BodyPlan, judge_head
from proxy_addons.policy.codings import Coding
from proxy_addons.policy.content_types import ContentClass

URL = "https://a.example/p"
CAP = 100
HTML, PDF, TEXT = (
    (b"Content-Type", b"text/html"),
    (b"Content-Type", b"application/pdf"),
    (b"Content-Type", b"text/plain"),
)
JSON = (b"content-type", b"application/json")
ODD_CODING = (b"Content-Encoding", b"compress")


def length(number: int) -> tuple[bytes, bytes]:
    return b"Content-Length", b"%d" % number


@pytest.mark.parametrize(
    ("status", "fields", "message"),
    [
        pytest.param(
            404, [PDF, length(CAP + 1), ODD_CODING], Message.STATUS, id="status comes before everything"
        ),
        pytest.param(199, [HTML], Message.STATUS, id="199 is no success"),
        pytest.param(300, [HTML], Message.STATUS, id="300 neither"),
        pytest.param(302, [HTML], Message.STATUS, id="a redirect that is none is a status"),
        pytest.param(304, [], Message.STATUS, id="304"),
        pytest.param(200, [length(CAP + 1), ODD_CODING], Message.NO_TYPE, id="then that there is no type"),
        pytest.param(204, [], Message.NO_TYPE, id="204 is a success without a type"),
        pytest.param(
            200, [(b"Content-Type", b"text/html; x=\xe9")], Message.NO_TYPE, id="a non-ASCII type is none"
        ),
        pytest.param(200, [PDF, length(CAP + 1)], Message.BAD_TYPE, id="then a refused type"),
        pytest.param(200, [(b"Content-Type", b"text")], Message.BAD_TYPE, id="or an unparseable one"),
        pytest.param(200, [(b"Content-Type", b"")], Message.BAD_TYPE, id="or an empty one"),
        pytest.param(200, [PDF, HTML], Message.BAD_TYPE, id="the first of two types counts"),
        pytest.param(200, [(b"Content-Type", b"image/svg+xml")], Message.BAD_TYPE, id="SVG is refused"),
        pytest.param(200, [HTML, length(CAP + 1), ODD_CODING], Message.SIZE, id="then the declared length"),
        pytest.param(200, [JSON, length(CAP + 1)], Message.SIZE, id="of JSON too"),
        pytest.param(200, [HTML, length(CAP), ODD_CODING], Message.BODY, id="then an unknown coding"),
        pytest.param(
            200,
            [HTML, (b"Content-Encoding", b"gzip, gzip"), (b"Content-Encoding", b"br")],
            Message.BODY,
            id="or a third",
        ),
    ],
)
def test_the_first_broken_row_is_told(
    status: int, fields: list[tuple[bytes, bytes]], message: Message
) -> None:
    failure = judge_head(URL, status, fields, CAP)

    assert isinstance(failure, ToolFailure)
    assert failure.message is message


@pytest.mark.parametrize(
    ("fields", "plan"),
    [
        pytest.param([HTML], BodyPlan(ContentClass.HTML, None, ()), id="HTML"),
        pytest.param([HTML, length(CAP)], BodyPlan(ContentClass.HTML, None, ()), id="of exactly the cap"),
        pytest.param(
            [TEXT, length(10**9)], BodyPlan(ContentClass.FLAT, None, ()), id="flat text of any length"
        ),
        pytest.param([HTML, PDF], BodyPlan(ContentClass.HTML, None, ()), id="the first of two types"),
        pytest.param(
            [(b"CONTENT-TYPE", b"text/html; Charset=GBK"), (b"content-encoding", b"gzip, br")],
            BodyPlan(ContentClass.HTML, "GBK", (Coding.GZIP, Coding.BR)),
            id="charset and codings",
        ),
    ],
)
def test_accepted(fields: list[tuple[bytes, bytes]], plan: BodyPlan) -> None:
    assert judge_head(URL, 200, fields, CAP) == plan


def test_the_type_is_shown_verbatim() -> None:
    failure = judge_head(URL, 200, [(b"Content-Type", b"Application/PDF ; x")], CAP)

    assert isinstance(failure, ToolFailure)
    assert failure.text == (
        "content type Application/PDF ; x from https://a.example/p cannot be returned as text; "
        "try an HTML version of the page or a different URL"
    )


_names = st.sampled_from([b"content-type", b"Content-Length", b"content-encoding", b"x"])


@given(st.integers(100, 999), st.lists(st.tuples(_names, st.binary(max_size=20)), max_size=4))
def test_any_head_gives_a_plan_or_a_failure(status: int, fields: list[tuple[bytes, bytes]]) -> None:
    result = judge_head(URL, status, fields, CAP)

    assert isinstance(result, BodyPlan) or result.message in (
        Message.STATUS,
        Message.NO_TYPE,
        Message.BAD_TYPE,
        Message.SIZE,
        Message.BODY,
    )
