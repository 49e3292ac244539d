"""`fetchd extract`: the content of a saved page, and nothing else."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from fetchd.faces.cli import main

URL = "https://e.example/docs/p.html"
SENTENCE = "The gateway judges every hop before a single byte goes out to the origin. "
PAGE = (
    f"<nav><a href=/>Home</a> <a href=/about>About us</a></nav><article><h1>Gates</h1><p>{SENTENCE * 4}"
    f"<a href=x>hére</a></p><p>{SENTENCE * 3}</p></article><footer>Imprint</footer>"
)


@pytest.fixture
def page(tmp_path: Path) -> Path:
    path = tmp_path / "page.html"
    path.write_text(PAGE, "utf-8")
    return path


def _run(*arguments: str, stdin: bytes | None = None) -> tuple[int, str, str]:
    result = CliRunner().invoke(main, ["extract", *arguments], input=stdin)
    return result.exit_code, result.stdout, result.stderr


def test_the_article(page: Path) -> None:
    code, out, err = _run("--url", URL, str(page))

    assert (code, err) == (0, "")
    assert out.startswith("# Gates\n\n")
    assert "[hére](https://e.example/docs/x)" in out
    assert "Imprint" not in out and "About us" not in out


def test_the_whole_page(page: Path) -> None:
    code, out, _ = _run("--raw", "--url", URL, str(page))

    assert code == 0
    assert "[About us](https://e.example/about)" in out and out.endswith("Imprint\n")


def test_standard_input() -> None:
    assert _run("--url", URL, "-", stdin=PAGE.encode())[1].startswith("# Gates")


def test_there_is_no_ceiling_and_no_envelope(tmp_path: Path) -> None:
    path = tmp_path / "long.html"
    path.write_text(f"<article>{f'<p>{SENTENCE}</p>' * 2000}</article>", "utf-8")

    out = _run("--url", URL, str(path))[1]

    assert out.count(SENTENCE.strip()) == 2000
    assert out == "\n\n".join([SENTENCE.strip()] * 2000) + "\n"


def test_bytes_that_are_no_utf_8_are_replaced(tmp_path: Path) -> None:
    path = tmp_path / "latin.html"
    path.write_bytes(b"<p>caf\xe9</p>")

    assert _run("--url", URL, str(path)) == (0, "caf\ufffd\n", "")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(("--url", "p.html", "-"), "not an absolute URL", id="a relative URL"),
        pytest.param(("-",), "Missing option '--url'", id="no URL"),
        pytest.param(("--url", URL, "/nonexistent"), "does not exist", id="no file"),
    ],
)
def test_bad_input_says_what_to_do(arguments: tuple[str, ...], message: str) -> None:
    code, out, err = _run(*arguments, stdin=b"")

    assert (code, out) == (2, "")
    assert message in err
