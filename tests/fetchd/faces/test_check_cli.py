"""`fetchd check`: verdict, rule and exit status; one line out a line in; DNS only where it is asked for."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from fetchd.explaining import lookup
from fetchd.faces.check_cli import MAX_LINE_BYTES, check, decide_lines, read_lines
from proxy_addons.policy.limits import DEFAULT_PROFILE
from tests.kit.corpora import REPOSITORY, corpora
from tests.kit.dns import ScriptedDns

KEYS = ["url", "verdict", "rule", "message", "failure", "host", "port"]
MORE = ["method", "profile", "policy", "mode", "checks", "remedy"]
"""How it came about, for one URL alone."""
BROKEN_PUNYCODE = {"https://xn--/", "https://xn--a/"}
"""The newest URL standard lets these labels through as they stand; refusing them is stricter."""

COMMAND = (sys.executable, "-m", "fetchd.faces.check_cli")


@pytest.fixture(autouse=True)
def _no_config_of_the_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def run(*args: str, stdin: str | bytes | None = None) -> Result:
    return CliRunner().invoke(check, args, input=stdin)


def write_config(text: str) -> str:
    Path("c.toml").write_text(text)
    return "c.toml"


ROWS = [
    # url, rule (None: allowed), message, failure, host, port
    ("https://example.com/a?b#c", None, "", None, "example.com", 443),
    ("https://example.com:80/", None, "", None, "example.com", 80),
    ("https://@example.com/", None, "", None, "example.com", 443),
    ("example.com", "parse", "invalid url", "hard", None, None),
    ("", "parse", "invalid url", "hard", None, None),
    ("http://user@example.com:8080/", "scheme", "scheme not allowed: http", "soft", "example.com", 8080),
    ("mailto:a@b", "scheme", "scheme not allowed: mailto", "soft", None, None),
    ("https://u:p@example.com/", "userinfo", "url must not contain userinfo", "hard", "example.com", 443),
    ("https://example.com:8443/", "port", "port not allowed: 8443", "hard", "example.com", 8443),
    ("https://2130706433/", "ip-literal", "ip literal host not allowed: 127.0.0.1", "hard", "127.0.0.1", 443),
    ("https://[::1]/", "ip-literal", "ip literal host not allowed: ::1", "hard", "[::1]", 443),
]


@pytest.mark.parametrize("row", ROWS, ids=[row[0] or "-" for row in ROWS])
def test_one_url_as_json(row):
    url, rule, *rest = row
    result = run("--json", "--", url)
    found = json.loads(result.stdout)
    assert list(found) == [*KEYS, *MORE]
    assert [found[key] for key in KEYS] == [url, "refused" if rule else "allowed", rule, *rest]
    assert result.exit_code == (1 if rule else 0)


def test_lines_give_the_same_and_status_0():
    result = run("--json", "-", stdin="".join(json.dumps(row[0]) + "\n" for row in ROWS))
    assert result.exit_code == 0
    assert [json.loads(line)["rule"] for line in result.stdout.splitlines()] == [row[1] for row in ROWS]


def test_text_for_people_shows_no_credentials_and_no_query():
    result = run("https://user:secret@10.1/a?token=x#f")
    version = DEFAULT_PROFILE.version
    assert result.stdout.partition("\n\n")[0] == (
        "verdict  refused\n"
        "url      https://10.0.0.1/a\n"
        "rule     userinfo\n"
        "message  url must not contain userinfo\n"
        "failure  hard\n"
        f"policy   default@{version}"
    )
    assert "secret" not in result.stdout and "token" not in result.stdout
    assert result.exit_code == 1
    allowed = run("https://example.com/?q")
    verdict = f"verdict  allowed\nurl      https://example.com/\npolicy   default@{version}"
    assert allowed.stdout.partition("\n\n")[0] == verdict
    assert allowed.exit_code == 0


def test_an_opaque_path_cannot_move_the_cursor():
    assert "\x1b" not in run("x:a\x1b[2Jb").stdout


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(b"\n", id="empty"),
        pytest.param(b"x\n", id="no JSON"),
        pytest.param(b"1\n", id="a number"),
        pytest.param(b"null\n", id="null"),
        pytest.param(b'["https://a.example/"]\n', id="a list"),
        pytest.param(b'"https://a.example/\n', id="a string without end"),
        pytest.param(b'"\xff"\n', id="no UTF-8"),
        pytest.param('"a"'.encode("utf-16") + b"\n", id="UTF-16"),
        pytest.param(b'\xef\xbb\xbf"a"\n', id="a byte order mark"),
        pytest.param(b"[" * 9999 + b"\n", id="nested without end"),
        pytest.param(b"9" * 5000 + b"\n", id="thousands of digits"),
    ],
)
def test_a_line_that_is_no_json_string_is_answered_all_the_same(line):
    result = run("--json", "-", stdin=line + b'"https://a.example/"')
    bad, good = (json.loads(line) for line in result.stdout.splitlines())
    assert bad == {
        "url": None, "verdict": "refused", "rule": "parse", "message": "not a JSON string", "failure": "hard",
        "host": None, "port": None,
    }  # fmt: skip
    assert good["verdict"] == "allowed"
    assert result.exit_code == 0


@pytest.mark.parametrize(
    ("length", "whole"),
    [(MAX_LINE_BYTES, True), (MAX_LINE_BYTES + 1, False), (3 * MAX_LINE_BYTES + 7, False)],
)
def test_a_line_has_a_limit_and_the_next_one_is_read(length, whole):
    line = b'"' + b"a" * (length - 3) + b'"\n'
    lines = list(read_lines(io.BytesIO(line + b"1\n")))
    assert lines == [line if whole else None, b"1\n"]


@given(st.lists(st.binary(max_size=30).filter(lambda line: b"\n" not in line)))
def test_one_finding_for_each_line_whatever_is_in_it(lines):
    found = list(decide_lines(io.BytesIO(b"".join(line + b"\n" for line in lines)), DEFAULT_PROFILE))
    assert len(found) == len(lines)
    assert all(json.loads(one.render_json()) for one in found)


@given(st.text())
def test_any_text_is_a_verdict(url):
    (found,) = decide_lines(io.BytesIO(json.dumps(url).encode()), DEFAULT_PROFILE)
    assert found.url == url
    assert json.loads(found.render_json())["url"] == url


def test_each_line_is_answered_before_the_next_is_written():
    with subprocess.Popen(
        (*COMMAND, "--json", "-"), cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        for url in ("https://a.example/", "https://127.1/"):
            process.stdin.write(json.dumps(url).encode() + b"\n")
            process.stdin.flush()
            assert json.loads(process.stdout.readline())["url"] == url
        process.stdin.close()
        assert process.stdout.read() == b""
    assert process.returncode == 0


def test_every_ssrf_payload_has_the_verdict_of_the_corpus():
    rows = [json.loads(line) for line in corpora("ssrf", "ssrf-payloads.jsonl").read_text().splitlines()]
    assert len(rows) == 1481
    cases = [(row["url"], row["expect"], row["reason"], row["whatwg"]) for row in rows]
    # http rows end at the scheme; their https twins reach the host.
    twins = [row["https_variant"] for row in rows if row.get("https_variant")]
    cases += [(twin["url"], twin["expect"], twin["reason"], {"host": twin["host"]}) for twin in twins]
    done = subprocess.run(
        (*COMMAND, "--json", "-"),
        cwd=REPOSITORY,
        input="".join(json.dumps(url) + "\n" for url, *_ in cases),
        capture_output=True,
        text=True,
        check=True,
    )
    found = [json.loads(line) for line in done.stdout.splitlines()]
    wrong = []
    for (url, expect, reason, whatwg), one in zip(cases, found, strict=True):
        expected = ("refused", reason) if expect == "reject" else ("allowed", None)
        host = (whatwg["host"] or None) if whatwg else None
        if url in BROKEN_PUNYCODE:
            expected, host = ("refused", "parse"), None
        if (one["verdict"], one["rule"], one["host"], one["url"]) != (*expected, host, url):
            wrong.append((url, expected, host, one))
    assert wrong == []


# -------------------------------------------------------------------------------------------------- profiles


def test_the_profile_is_the_named_one_else_the_gateway_s_default():
    config = write_config(
        'gateway.default_profile = "near"\n[profiles.near]\nallow_hosts = ["a.example"]\n'
        '[profiles.far]\nports = [8443]\nmethods = ["POST"]\n'
    )
    url = "https://b.example/"
    assert json.loads(run("--config", config, "--json", url).stdout)["rule"] == "host"
    assert json.loads(run("--config", config, "--profile", "default", "--json", url).stdout)["rule"] is None
    assert json.loads(run("--config", config, "--profile", "far", "--json", url).stdout)["rule"] == "port"
    assert run("--config", config, "--profile", "far", "https://b.example:8443/").stdout.splitlines()[
        2:4
    ] == [
        "rule     method",
        "message  method not allowed: GET",
    ]


@pytest.mark.parametrize(
    ("args", "text"),
    [
        pytest.param(
            ["--profile", "defualt", "https://a.example/"],
            "Error: built-in configuration has no profile defualt; did you mean default?\n",
            id="a profile that is not there",
        ),
        pytest.param(
            ["--config", "nowhere.toml", "https://a.example/"],
            "Error: nowhere.toml: cannot be read: No such file or directory\n",
            id="a configuration that is not there",
        ),
        pytest.param(
            ["-"],
            "Error: - reads JSON strings from standard input; write --json -\n",
            id="lines without --json",
        ),
    ],
)
def test_bad_arguments_are_one_line_and_status_2(args, text):
    result = run(*args)
    assert (result.exit_code, result.stdout, result.stderr) == (2, "", text)


# ------------------------------------------------------------------------------------------------------- DNS


def test_resolve_asks_dns_for_what_is_admitted_and_nothing_else():
    with ScriptedDns() as dns:
        dns.host_addresses("inside.example", "10.0.0.1")
        dns.host_addresses("outside.example", "93.184.216.34")
        config = write_config(
            f'dns.nameservers = ["{dns.host}:{dns.port}"]\n[profiles.p]\ndeny_hosts = ["denied.example"]\n'
        )
        urls = ["https://denied.example/", "http://outside.example/", "https://u@outside.example/", "https://10.0.0.1/",
                "https://outside.example:22/", "https://outside.example"]  # fmt: skip
        options = ("--config", config, "--profile", "p", "--resolve", "--json")
        result = run(*options, "-", stdin="".join(json.dumps(url) + "\n" for url in urls))
        found = [json.loads(line) for line in result.stdout.splitlines()]
        assert [one["rule"] for one in found] == ["host", "scheme", "userinfo", "ip-literal", "port", None]
        assert [list(one) for one in found[:5]] == [KEYS] * 5
        assert {query.name for query in dns.queries} == {"outside.example"}
        assert (found[5]["addresses"], found[5]["dropped"]) == (["93.184.216.34"], [])

        result = run(*options, "https://inside.example./x")
        assert result.exit_code == 1
        one = json.loads(result.stdout)
        assert list(one) == [*KEYS, "addresses", "dropped", *MORE]
        assert (one["rule"], one["failure"]) == ("no-allowed-address", "hard")
        assert one["dropped"] == [{"address": "10.0.0.1", "range": "10.0.0.0/8"}]

        lines = run(*options[:-1], "https://inside.example/").stdout.splitlines()
        assert "dropped  10.0.0.1 in range 10.0.0.0/8" in lines
        count = dns.count()
        assert run("--config", config, "https://inside.example/").exit_code == 0
        assert dns.count() == count


def test_a_resolver_that_cannot_be_run_is_no_verdict(monkeypatch):
    monkeypatch.setattr(lookup, "_COMMAND", (sys.executable, "-c", "raise SystemExit('broken')"))
    result = run("--resolve", "https://a.example/")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == "Error: the resolver ended without an answer: broken\n"
    result = run("--resolve", "--json", "-", stdin='"https://a.example/"\n"https://127.1/"\n')
    assert [json.loads(line)["rule"] for line in result.stdout.splitlines()] == ["internal", "ip-literal"]
    assert result.exit_code == 0


def test_a_rule_that_is_only_monitored_is_said(tmp_path):
    config = tmp_path / "fetchd.toml"
    config.write_text('[profiles.watch]\nmode = "monitor"\ndeny_hosts = ["a.example"]\n')
    arguments = ("--profile", "watch", "--config", str(config))
    found = run("https://a.example/", *arguments)
    assert (found.exit_code, found.stdout.splitlines()[2]) == (
        0,
        "monitor  not enforced, would refuse by host",
    )
    assert json.loads(run("--json", "https://a.example/", *arguments).stdout)["would_refuse"] == "host"
    assert "would_refuse" not in json.loads(run("--json", "https://b.example/", *arguments).stdout)


# ------------------------------------------------------------------------------------------------ explanation

LISTS = """
[profiles.lists]
methods = ["GET", "POST"]
allow_hosts = ["*.example.com", "docs.rs:443"]
deny_hosts = ["bad.example.com"]
[agents.bot]
profile = "lists"
"""
WILD = "*.example.com of allow_hosts matches"
EXPLAINED = [
    # url, method, number of the check that refuses (None: allowed), its text or that of the last
    ("https://a.example.com/", "GET", None, WILD),
    ("https://docs.rs/", "POST", None, "docs.rs:443 of allow_hosts matches"),
    ("https://docs.rs:80/", "GET", 7, "none of 2 patterns of allow_hosts matches"),
    ("https://bad.example.com/", "GET", 7, f"bad.example.com of deny_hosts matches, though {WILD}"),
    ("https://a.example.com/", "PUT", 6, "PUT is not one of GET, POST"),
    ("https://10.1/", "GET", 5, "10.0.0.1 is an IP address"),
    ("https://a.example.com:99/", "PUT", 4, "99 is not one of 80, 443"),
    ("https://u@a.example.com/", "GET", 3, "the URL has a user name or password"),
    ("ftp://a.example.com/", "GET", 2, "ftp is not one of https"),
    ("a.example.com", "GET", 1, "not an absolute URL"),
]  # fmt: skip


@pytest.mark.parametrize(("url", "method", "number", "text"), EXPLAINED)
def test_each_check_is_told_and_the_one_that_refuses(url, method, number, text):
    result = run("--config", write_config(LISTS), "--profile", "lists", "--method", method, "--json", url)
    found = json.loads(result.stdout)
    checks = found["checks"]
    assert [one["number"] for one in checks] == [1, 2, 3, 4, 5, 6, 7]
    passed = 7 if number is None else number - 1
    standings = ["passes"] * passed + ["refuses"] * (number is not None)
    standings += ["not reached"] * (7 - len(standings))
    assert [one["standing"] for one in checks] == standings
    assert checks[(number or 7) - 1]["text"] == text
    assert found["rule"] == (None if number is None else checks[number - 1]["rule"])
    assert (found["remedy"] is None) == (number is None)


def test_what_would_allow_it_does():
    import tomllib

    refused = run("--config", write_config(LISTS), "--profile", "lists", "--json", "https://docs.rs:80/")
    remedy = json.loads(refused.stdout)["remedy"]
    changed = tomllib.loads("\n".join(remedy["toml"]))["profiles"]["lists"]["allow_hosts"]
    mended = LISTS.replace('["*.example.com", "docs.rs:443"]', json.dumps(changed))
    assert run("--config", write_config(mended), "--profile", "lists", "https://docs.rs:80/").exit_code == 0
    text = run("--config", write_config(LISTS), "--profile", "lists", "https://docs.rs:80/").stdout
    assert f"allow_hosts = {json.dumps(changed)}" in text


def test_an_agent_s_own_profile():
    config = write_config(LISTS)
    found = json.loads(run("--config", config, "--agent", "bot", "--json", "https://docs.rs/").stdout)
    assert (found["profile"], found["verdict"]) == ("lists", "allowed")
    nobody = run("--config", config, "--agent", "bto", "https://docs.rs/")
    assert (nobody.exit_code, nobody.stderr) == (2, "Error: there is no agent bto; did you mean bot?\n")
    both = run("--config", config, "--agent", "bot", "--profile", "lists", "https://docs.rs/")
    assert both.exit_code == 2 and "--agent or --profile" in both.stderr


def test_what_is_only_reported_is_told_as_such_and_the_next_check_is_reached():
    config = write_config('[profiles.watch]\nmode = "monitor"\nmethods = ["HEAD"]\nallow_hosts = []\n')
    found = json.loads(run("--config", config, "--profile", "watch", "--json", "https://a.example/").stdout)
    assert [one["standing"] for one in found["checks"]] == ["passes"] * 5 + ["reports"] * 2
    assert found["checks"][6]["text"] == "allow_hosts is empty"
    assert found["remedy"]["set"] == {"allow_hosts": ["a.example"], "methods": ["GET", "HEAD"]}


def test_a_method_that_may_have_a_body_says_how_large():
    config = write_config('[profiles.p]\nmethods = ["POST"]\n')
    lines = run("--config", config, "--profile", "p", "--method", "POST", "https://a.example/").stdout
    assert "note: a body is refused by rule request-cap: request_body is false" in lines


@given(st.text(), st.text(max_size=9))
def test_the_ladder_in_words_agrees_with_the_verdict(url, method):
    from proxy_addons.policy.admission import decide_url
    from proxy_addons.policy.explaining import Standing, explain_ladder

    admission = decide_url(url, method, DEFAULT_PROFILE)
    steps = explain_ladder(admission.target, method, DEFAULT_PROFILE)
    refusing = [step.rule for step in steps if step.standing is Standing.REFUSES]
    assert refusing == ([admission.verdict.rule] if admission.verdict.refused else [])
