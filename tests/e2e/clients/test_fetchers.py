"""curl, wget and git, and what each shows of a refusal."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from tests.e2e.clients.agent import Agent, read_refusal
from tests.e2e.clients.sites import TAGS, serve_git
from tests.e2e.clients.stage import DENIED, PROFILES, ClientStage, stand_in
from tests.kit import replies
from tests.kit.tools import require_tool

GITHUB = stand_in("github.com")
NOT_ALLOWED = f"host not allowed: {DENIED}"


# -- curl and wget, reading


@dataclass(frozen=True, slots=True)
class Fetcher:
    """How a program fetches a page, with nothing said on its command line of proxy or CA."""

    command: tuple[str, ...]
    refused: int
    """Its exit status when the gateway says 403."""
    reason: str
    """What it says then on standard error."""
    tunnel: int
    """Its exit status when the tunnel itself is refused."""
    tunnel_reason: str


FETCHERS = [
    pytest.param(
        Fetcher(
            ("curl", "-sS", "--fail-with-body"), 22, "The requested URL returned error: 403",
            56, "CONNECT tunnel failed, response 403",
        ),
        id="curl",
    ),
    pytest.param(
        Fetcher(
            ("curl", "-sS", "--fail-with-body", "--http1.1"), 22, "The requested URL returned error: 403",
            56, "CONNECT tunnel failed, response 403",
        ),
        id="curl over HTTP/1.1",
    ),
    pytest.param(
        Fetcher(
            ("wget", "-nv", "-O", "-", "--tries=1", "--content-on-error"), 8, f"ERROR 403: {NOT_ALLOWED}.",
            4, "Proxy tunneling failed: port not allowed: 22",
        ),
        id="wget",
    ),
]  # fmt: skip


@pytest.mark.parametrize("fetcher", FETCHERS)
def test_a_fetcher_reads_a_page(reader: Agent, fetcher: Fetcher) -> None:
    require_tool(fetcher.command[0])
    done = reader.run(*fetcher.command, reader.stage.url("/page"))

    assert (done.returncode, done.stdout) == (0, "hello /page\n"), done.stderr
    assert None in reader.rules("/page")


@pytest.mark.parametrize("fetcher", FETCHERS)
def test_a_fetcher_shows_why_a_host_is_refused(reader: Agent, fetcher: Fetcher) -> None:
    require_tool(fetcher.command[0])
    done = reader.run(*fetcher.command, reader.stage.url("/", DENIED))

    assert done.returncode == fetcher.refused
    assert fetcher.reason in done.stderr
    refusal = read_refusal(done.stdout)
    assert (refusal["rule"], refusal["detail"]) == ("host", NOT_ALLOWED)


@pytest.mark.parametrize("fetcher", FETCHERS)
def test_a_fetcher_shows_of_a_refused_tunnel(reader: Agent, fetcher: Fetcher) -> None:
    require_tool(fetcher.command[0])
    done = reader.run(*fetcher.command, "https://a.example:22/")

    assert (done.returncode, done.stdout) == (fetcher.tunnel, "")
    assert fetcher.tunnel_reason in done.stderr


def test_curl_shows_the_reason_of_a_refused_tunnel_when_verbose(reader: Agent) -> None:
    done = reader.run(require_tool("curl"), "-sSv", "https://a.example:22/")

    assert "< HTTP/1.1 403 port not allowed: 22" in done.stderr


def test_curl_sends_a_body_in_every_way_it_has(coder: Agent) -> None:
    """With Expect: 100-continue, in chunks and compressed; the origin gets what was sent."""
    require_tool("curl")
    body = "x" * 100_000
    (coder.home / "body").write_text(body)
    ways = {
        "length": (),
        "expect": ("-H", "Expect: 100-continue", "--expect100-timeout", "60"),
        "chunked": ("-H", "Transfer-Encoding: chunked"),
        "both": (
            "-H",
            "Transfer-Encoding: chunked",
            "-H",
            "Expect: 100-continue",
            "--expect100-timeout",
            "60",
        ),
    }
    for way, fields in ways.items():
        for version in ("--http1.1", "--http2"):
            path = f"/post/{way}{version}"
            done = coder.run(
                "curl", "-sS", version, *fields, "--data-binary", "@body", coder.stage.url(path, GITHUB)
            )
            assert (done.returncode, done.stdout) == (0, f"hello {path}\n"), done.stderr
            (request,) = [r for r in coder.stage.requests if r.target == path]
            assert request.body.decode() == body


def test_a_large_file_is_for_the_coding_profile(coder: Agent, reader: Agent) -> None:
    """One byte more than `research` takes."""
    size = PROFILES["research"]["byte_cap"] + 1
    coder.stage.origin.route("/large", replies.answer(200, bytes(size), "application/octet-stream"))
    command = (require_tool("curl"), "-sS", "-w", "%{response_code} %{size_download}", "-o", "large")

    done = coder.run(*command, coder.stage.url("/large", GITHUB))
    assert (done.stdout, done.stderr) == (f"200 {size}", "")

    done = reader.run(*command, reader.stage.url("/large"))
    assert done.stdout.startswith("502 ")
    assert read_refusal((reader.home / "large").read_text())["rule"] == "byte-cap"


# -- git


@pytest.fixture(scope="module")
def _repository(served: tuple[ClientStage, object], tmp_path_factory: pytest.TempPathFactory) -> None:
    serve_git(served[0].origin, "project", tmp_path_factory.mktemp("repositories"))


PACK_REQUESTS = "/project.git/git-upload-pack"


@pytest.mark.usefixtures("_repository")
@pytest.mark.parametrize(
    ("settings", "field", "value"),
    [
        pytest.param((), "content-encoding", "gzip", id="its request compressed"),
        pytest.param(
            ("http.postBuffer=65536", "http.version=HTTP/1.1"), "transfer-encoding", "chunked",
            id="its request longer than its buffer, in chunks",
        ),
    ],
)  # fmt: skip
def test_git_clones(coder: Agent, settings: tuple[str, ...], field: str, value: str) -> None:
    require_tool("git")
    options = [part for setting in settings for part in ("-c", setting)]
    url = coder.stage.url("/project.git", GITHUB)

    done = coder.run("git", *options, "clone", "--quiet", url, "copy")

    assert (done.returncode, done.stderr) == (0, "")
    assert (coder.home / "copy" / "file.txt").read_text() == str(TAGS - 1)
    tags = coder.run("git", "-C", "copy", "tag", "--list").stdout.split()
    assert len(tags) == TAGS
    posts = [r for r in coder.stage.requests if r.path == PACK_REQUESTS]
    assert {request.method for request in posts} == {"POST"}
    assert value in {found for request in posts for found in request.values(field)}


@pytest.mark.usefixtures("_repository")
def test_git_fetches_what_is_new(coder: Agent) -> None:
    require_tool("git")
    url = coder.stage.url("/project.git", GITHUB)
    done = coder.run("git", "clone", "--quiet", "--depth", "1", "--no-tags", url, "copy")
    assert (done.returncode, done.stderr) == (0, "")

    done = coder.run("git", "-C", "copy", "fetch", "--quiet", "--unshallow")

    assert (done.returncode, done.stderr) == (0, "")
    assert coder.run("git", "-C", "copy", "rev-list", "--count", "HEAD").stdout == f"{TAGS}\n"


def test_git_shows_that_a_host_is_refused_and_why_only_in_its_trace(coder: Agent) -> None:
    require_tool("git")
    url = coder.stage.url("/refused.git", DENIED)

    done = coder.run("git", "clone", url)

    assert done.returncode == 128
    assert done.stderr.endswith("The requested URL returned error: 403\n")
    assert coder.rules("/refused.git/info/refs") == ["host"]
    assert "fetchd-rule: host" in coder.run("git", "ls-remote", url, GIT_TRACE_CURL="1").stderr
    tunnel = coder.run("git", "ls-remote", "https://a.example:22/refused.git")
    assert tunnel.stderr.endswith("CONNECT tunnel failed, response 403\n")


def test_git_cannot_log_in(coder: Agent) -> None:
    """The profile lets no host have a password, so that nothing can be pushed."""
    require_tool("git")
    who = replies.answer(401, b"who?", "text/plain", [("www-authenticate", 'Basic realm="git"')])
    coder.stage.origin.route("/private.git/info/refs", who)

    done = coder.run("git", "ls-remote", coder.stage.url("/private.git", f"me:secret@{GITHUB}"))

    assert done.returncode == 128
    assert "Authentication failed" in done.stderr
    asked = coder.stage.requests
    assert [request.values("authorization") for request in asked] == [[], []]
