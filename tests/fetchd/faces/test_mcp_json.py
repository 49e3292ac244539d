"""Messages with numbers that no reader takes: found, and looked for once from each number's first digit."""

from __future__ import annotations

import pytest

from fetchd.faces.mcp_json import _LONG_INTEGER, MAX_DIGITS, parse_plain


def call(arguments: str) -> bytes:
    return (
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"web_search","arguments":%s}}'
        % arguments.encode()
    )


@pytest.mark.parametrize(
    ("digits", "cut"),
    [
        pytest.param(MAX_DIGITS, False, id="as many as are taken"),
        pytest.param(MAX_DIGITS + 1, True, id="one more"),
        pytest.param(MAX_DIGITS * 2, True, id="twice as many"),
    ],
)
@pytest.mark.parametrize("before", ["", "-", '1,"b":', f'{"7" * MAX_DIGITS},"b":'])
def test_a_long_number_is_found_wherever_it_stands(digits: int, cut: bool, before: str) -> None:
    text = call(f'{{"a":{before}{"9" * digits}}}')

    assert (parse_plain(text).text != text) is cut


def test_a_number_is_looked_at_from_its_first_digit_alone() -> None:
    """From each digit, a megabyte of numbers of 4,000 digits took seconds, in which nobody else was served."""
    digits = b"9" * (MAX_DIGITS + 2)

    assert _LONG_INTEGER.match(digits) is not None
    assert _LONG_INTEGER.match(digits, 1) is None
