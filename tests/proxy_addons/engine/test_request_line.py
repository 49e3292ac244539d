"""The request line (RFC 9112, 3): one strict reading."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy_addons.engine.request_line import TargetForm, parse_connect_target, parse_request_line

FORMS = {
    "an absolute https URL": (
        b"GET https://a.example/p?q HTTP/1.1",
        TargetForm.ABSOLUTE,
        "https://a.example/p?q",
    ),
    "an absolute http URL with a port": (
        b"GET http://a.example:8080/ HTTP/1.1",
        TargetForm.ABSOLUTE,
        "http://a.example:8080/",
    ),
    "an absolute URL of HTTP/1.0": (
        b"GET https://a.example/ HTTP/1.0",
        TargetForm.ABSOLUTE,
        "https://a.example/",
    ),
    "an IP literal is for the ladder to refuse": (
        b"GET https://0x7f.1/ HTTP/1.1",
        TargetForm.ABSOLUTE,
        "https://127.0.0.1/",
    ),
    "a URL that does not parse": (b"GET https:// HTTP/1.1", TargetForm.ABSOLUTE, None),
    "a word": (b"GET word HTTP/1.1", TargetForm.ABSOLUTE, None),
    "a path": (b"GET /p?q HTTP/1.1", TargetForm.ORIGIN, None),
    "two slashes are a path": (b"GET //evil.example/ HTTP/1.1", TargetForm.ORIGIN, None),
    "an asterisk": (b"OPTIONS * HTTP/1.1", TargetForm.ASTERISK, None),
    "a CONNECT": (b"CONNECT a.example:443 HTTP/1.1", TargetForm.AUTHORITY, "https://a.example/"),
    "a CONNECT without a port": (b"CONNECT a.example HTTP/1.1", TargetForm.AUTHORITY, None),
    "a CONNECT to a path": (b"CONNECT / HTTP/1.1", TargetForm.AUTHORITY, None),
}


@pytest.mark.parametrize("sentence", FORMS)
def test_forms_of_targets(sentence: str) -> None:
    line, form, href = FORMS[sentence]
    parsed = parse_request_line(line)
    assert parsed is not None and parsed.form is form
    assert (parsed.target.href if parsed.target is not None else None) == href


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"GET", id="a method alone"),
        pytest.param(b"GET /", id="HTTP/0.9"),
        pytest.param(b"GET / HTTP/2.0", id="another major version"),
        pytest.param(b"GET / HTTP/1.2", id="another minor version"),
        pytest.param(b"GET / http/1.1", id="the version in lower case"),
        pytest.param(b"GET  / HTTP/1.1", id="two spaces"),
        pytest.param(b"GET /\tHTTP/1.1", id="a tab"),
        pytest.param(b"GET / a HTTP/1.1", id="a space in the target"),
        pytest.param(b"GET /\x00 HTTP/1.1", id="a NUL"),
        pytest.param(b"GET /\r HTTP/1.1", id="a CR"),
        pytest.param(b" GET / HTTP/1.1", id="a space before"),
        pytest.param(b"GET / HTTP/1.1 ", id="a space after"),
        pytest.param(b"GE(T / HTTP/1.1", id="a method that is no token"),
        pytest.param(b"G" * 33 + b" / HTTP/1.1", id="a method of 33 letters"),
        pytest.param(b"connect a.example:443 HTTP/1.1", id="connect in lower case"),
        pytest.param(b"SSH-2.0-OpenSSH_9.9 x", id="SSH"),
        pytest.param(b"PRI * HTTP/2.0", id="the preface of HTTP/2"),
    ],
)
def test_what_is_no_request_line(line: bytes) -> None:
    assert parse_request_line(line) is None


def test_methods_are_kept_as_sent() -> None:
    line = parse_request_line(b"get https://a.example/ HTTP/1.1")
    assert line is not None and line.method == "get"
    longest = parse_request_line(b"G" * 32 + b" / HTTP/1.1")
    assert longest is not None and longest.method == "G" * 32


@pytest.mark.parametrize(
    ("raw", "href"),
    [
        ("a.example:443", "https://a.example/"),
        ("A.EXAMPLE:443", "https://a.example/"),
        ("a.example:80", "https://a.example:80/"),
        ("a.example:00443", "https://a.example/"),
        ("[::1]:443", "https://[::1]/"),
        ("bücher.example:443", "https://xn--bcher-kva.example/"),
        ("a.example", None),
        ("a.example:", None),
        ("a.example:443:443", None),
        ("a.example:65536", None),
        ("a.example:-1", None),
        ("a.example:443/", None),
        ("a.example:443?x", None),
        ("a.example:443#x", None),
        ("u@a.example:443", None),
        ("u:p@a.example:443", None),
        ("https://a.example:443", None),
        ("a.example\\@b.example:443", None),
        (":443", None),
        ("::1:443", None),
        ("[::1:443", None),
        ("a b:443", None),
        ("", None),
    ],
)
def test_targets_of_connect(raw: str, href: str | None) -> None:
    target = parse_connect_target(raw)
    assert (target.href if target is not None else None) == href


@given(st.binary(max_size=80))
def test_any_bytes_are_read_or_not_and_never_an_error(line: bytes) -> None:
    parsed = parse_request_line(line)
    if parsed is not None:
        rebuilt = f"{parsed.method} {parsed.raw_target} {parsed.version}".encode("utf-8", "surrogateescape")
        assert rebuilt == line


@given(st.sampled_from(["GET", "CONNECT", "P!", "x"]), st.text(max_size=40), st.sampled_from(["1.0", "1.1"]))
def test_a_parsed_line_is_three_words(method: str, target: str, version: str) -> None:
    line = f"{method} {target} HTTP/{version}".encode("utf-8", "surrogatepass")
    parsed = parse_request_line(line)
    bad = any(byte <= 0x20 or byte == 0x7F for byte in target.encode("utf-8", "surrogatepass"))
    assert (parsed is None) == (bad or not target)
