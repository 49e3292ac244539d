"""Where configuration and state are found; files that cannot be used are one line each."""

from __future__ import annotations

import itertools
import os
import re
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest
import trustme
from hypothesis import given
from hypothesis import strategies as st

from fetchd.agent_store import StoredAgents, write_agents
from fetchd.settings import (
    MAX_CONFIG_BYTES,
    STEADY_READS,
    LoadedConfig,
    _parse_toml,
    find_config,
    find_state_dir,
    load_again,
    load_config,
    read_steady,
)
from proxy_addons.policy.addresses import SHIPPED_EXTRAS
from proxy_addons.policy.config import ConfigError, parse_config
from proxy_addons.policy.config_schema import AGENT_KEYS, LIMITS, SETTINGS, Key, render_default
from proxy_addons.policy.hosts import ANY_HOST
from proxy_addons.policy.limits import DEFAULT_PROFILE
from tests.kit.corpora import REPOSITORY

SHIPPED = REPOSITORY / "config" / "fetchd.toml"
DOCS = REPOSITORY / "docs" / "configuration.md"


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(path: Path, text: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


# --------------------------------------------------------------------------------------------------- finding


@pytest.mark.parametrize(
    ("option", "environ", "there", "found"),
    [
        pytest.param("a.toml", {"FETCHD_CONFIG": "b.toml"}, True, "a.toml", id="--config comes first"),
        pytest.param(None, {"FETCHD_CONFIG": "b.toml"}, True, "b.toml", id="then FETCHD_CONFIG"),
        pytest.param(None, {"FETCHD_CONFIG": ""}, True, "config/fetchd.toml", id="empty is not set"),
        pytest.param(None, {}, True, "config/fetchd.toml", id="then ./config/fetchd.toml"),
        pytest.param(None, {}, False, None, id="else built in"),
        pytest.param("a.toml", {}, False, "a.toml", id="a named file need not be there to be the one"),
    ],
)
def test_the_configuration_is_found(option, environ, there, found):
    if there:
        write(Path("config/fetchd.toml"), "")
    result = find_config(Path(option) if option else None, environ)
    assert result == (Path(found) if found else None)


@pytest.mark.parametrize(
    ("option", "environ", "found"),
    [
        pytest.param("s", {"FETCHD_STATE": "/t"}, "{cwd}/s", id="--state-dir comes first"),
        pytest.param(None, {"FETCHD_STATE": "t", "XDG_STATE_HOME": "/x"}, "{cwd}/t", id="then FETCHD_STATE"),
        pytest.param(None, {"XDG_STATE_HOME": "/x", "HOME": "/h"}, "/x/fetchd", id="then XDG_STATE_HOME"),
        pytest.param(
            None, {"XDG_STATE_HOME": "x", "HOME": "/h"}, "/h/.local/state/fetchd", id="which is not relative"
        ),
        pytest.param(None, {"FETCHD_STATE": "", "HOME": "/h"}, "/h/.local/state/fetchd", id="then home"),
    ],
)
def test_the_state_is_found(option, environ, found):
    assert str(find_state_dir(Path(option) if option else None, environ)) == found.format(cwd=Path.cwd())


def test_without_a_home_the_state_must_be_named():
    with pytest.raises(ConfigError) as caught:
        find_state_dir(None, {})
    assert (
        str(caught.value)
        == "environment: HOME: is not set; name a directory with --state-dir or FETCHD_STATE"
    )


def test_no_file_is_the_built_in_configuration():
    loaded = load_config(None, {})
    assert loaded.config == parse_config({}, source="x")
    assert (loaded.source, loaded.path) == ("built-in configuration", None)


# --------------------------------------------------------------------------------------------------- loading

BAD = {
    "not there": (None, "cannot be read: No such file or directory"),
    "a wrong line": (
        b"[gateway]\nworkers 2\n",
        "is not TOML: Expected '=' after a key in a key/value pair (at line 2, column 9)",
    ),
    "the end comes too soon": (b"[gateway]\nworkers =", "is not TOML: Invalid value (at line 2, the last)"),
    "a key twice": (
        b"[gateway]\nworkers = 1\nworkers = 2\n",
        "is not TOML: Cannot overwrite a value (at line 3, column 12)",
    ),
    "Latin-1 on line 3": (b"#\n#\n# \xe9\n", "is not UTF-8 (at line 3); save it as UTF-8"),
    "UTF-16": ("a = 1".encode("utf-16"), "is not UTF-8 (at line 1); save it as UTF-8"),
    "a byte order mark": (
        b"\xef\xbb\xbf[gateway]\n",
        "begins with a byte order mark (at line 1); save it as UTF-8 without one",
    ),
    "nested without end": (
        b"a = " + b"[" * 20_000,
        "is nested too deeply; no key needs more than three levels",
    ),
    "larger than any": (b"#" * (MAX_CONFIG_BYTES + 1), f"is larger than {MAX_CONFIG_BYTES} bytes"),
    "an unknown key": (b"[gateway]\nworker = 1\n", "gateway.worker: no such key; did you mean workers?"),
    "a date where a number belongs": (
        b"[gateway]\nworkers = 2026-01-01\n",
        "gateway.workers: write a whole number from 1 to 64, such as workers = 2",
    ),
}


@pytest.mark.parametrize(("content", "text"), BAD.values(), ids=BAD)
def test_a_file_that_cannot_be_used_is_one_line(content, text):
    if content is not None:
        write(Path("f.toml"), content)
    with pytest.raises(ConfigError) as caught:
        load_config(Path("f.toml"), {})
    assert str(caught.value) == f"f.toml: {text}"


def test_a_number_of_thousands_of_digits_is_an_error_of_the_file():
    write(Path("f.toml"), b"a = " + b"1" * 5000)
    with pytest.raises(ConfigError, match=r"^f\.toml: is not TOML: Exceeds the limit"):
        load_config(Path("f.toml"), {})


def test_a_directory_and_a_pipe_are_no_files(directory):
    os.mkfifo("pipe")
    for name in (".", "pipe"):
        with pytest.raises(ConfigError, match=rf"^{re.escape(name)}: is not a regular file$"):
            load_config(Path(name), {})


def test_a_dangling_link_is_not_passed_over():
    Path("config").mkdir()
    Path("config/fetchd.toml").symlink_to("nowhere")
    with pytest.raises(ConfigError, match=r"^config/fetchd\.toml: cannot be read: No such file"):
        load_config(None, {})


def test_a_path_that_no_system_has():
    with pytest.raises(ConfigError, match="cannot be read"):
        load_config(Path("a\0b"), {})
    with pytest.raises(ConfigError, match="cannot be read: File name too long"):
        load_config(Path("a" * 5000), {})


def test_roots_are_relative_to_the_file_and_must_be_certificates(directory, monkeypatch):
    write(directory / "etc" / "f.toml", 'tls.extra_ca = ["ca.pem"]')
    monkeypatch.chdir("/")
    file, root = directory / "etc" / "f.toml", directory / "etc" / "ca.pem"
    with pytest.raises(ConfigError) as caught:
        load_config(file, {})
    assert str(caught.value) == f"{file}: tls.extra_ca[0]: {root} cannot be read: No such file or directory"
    write(root, "-----BEGIN CERTIFICATE-----\n")
    with pytest.raises(ConfigError) as caught:
        load_config(file, {})
    assert str(caught.value) == f"{file}: tls.extra_ca[0]: {root} holds no PEM certificate that can be read"
    trustme.CA().cert_pem.write_to_path(root)
    assert load_config(file, {}).config.tls.extra_ca == (str(root),)


@given(st.binary(max_size=200) | st.text(alphabet='[]{}.=",\n #a1_-\\', max_size=60).map(str.encode))
def test_any_bytes_are_a_mapping_or_a_config_error(data):
    try:
        mapping = _parse_toml(data, "x")
    except ConfigError as error:
        line = str(error)
    else:
        assert mapping == tomllib.loads(data.decode())
        return
    assert line.startswith(("x: is", "x: begins"))


# ---------------------------------------------------------------------------------- the shipped file and docs


def test_the_shipped_file_is_valid_and_has_the_defaults():
    loaded = load_config(SHIPPED, {}).config
    built_in = parse_config({}, source="x")
    assert (loaded.gateway, loaded.dns, loaded.tls) == (built_in.gateway, built_in.dns, built_in.tls)
    assert (loaded.daemon, loaded.operator) == (built_in.daemon, built_in.operator)
    assert loaded.search == built_in.search
    assert loaded.asking == built_in.asking
    assert set(loaded.profiles) == {"default", "research", "coding", "llm-only"}
    assert loaded.profiles["default"] == DEFAULT_PROFILE
    for name in set(loaded.profiles) - {"default"}:
        assert loaded.profiles[name].blocked_extra == SHIPPED_EXTRAS
        assert loaded.profiles[name].exceptions == ()


def test_a_shipped_profile_that_takes_bodies_or_credentials_names_its_hosts():
    """None lets anybody on the internet be posted to, and none sends a key where it does not send everything."""
    for profile in load_config(SHIPPED, {}).config.profiles.values():
        everybody = any(pattern == ANY_HOST for pattern in profile.hosts.allow)
        assert not (everybody and (profile.request_body or profile.credential_hosts))
        assert set(profile.credential_hosts) <= set(profile.hosts.allow)


def test_the_docs_describe_each_shipped_profile():
    section = DOCS.read_text().partition("\n## The shipped profiles\n")[2].partition("\n## ")[0]
    described = re.findall(r"^\| \*\*`([a-z-]+)`\*\* \|", section, re.MULTILINE)
    assert described == [name for name in tomllib.loads(SHIPPED.read_text())["profiles"] if name != "default"]


def test_the_shipped_file_shows_every_limit_with_its_default():
    # The built-in profile stands there commented out; what is left of a "# key = value" line is TOML.
    block = SHIPPED.read_text().partition("# [profiles.default]\n")[2].partition("\n[profiles.research]")[0]
    lines = re.findall(r"^# ([a-z_]+ = .*)$", block, re.MULTILINE)
    shown = tomllib.loads("\n".join(lines))
    # One that has no default is shown with its example.
    assert shown == {
        key.name: key.default if key.default is not None else tomllib.loads(f"x = {key.example}")["x"]
        for key in LIMITS
    }


@pytest.mark.parametrize("key", SETTINGS, ids=lambda key: f"{key.table}.{key.name}")
def test_the_shipped_file_shows_every_setting(key: Key):
    section = SHIPPED.read_text().partition(f"[{key.table}]\n")[2].partition("\n[")[0]
    assert re.search(rf"^(# )?{key.name} = ", section, re.MULTILINE)


@pytest.mark.parametrize("key", [*SETTINGS, *AGENT_KEYS, *LIMITS], ids=lambda key: f"{key.table}.{key.name}")
def test_the_docs_have_the_row_of_every_key(key: Key):
    section = DOCS.read_text().partition(f"\n## [{key.table}]\n")[2].partition("\n## ")[0]
    assert f"| `{key.name}` | {key.form.text} | `{render_default(key)}` | {key.doc} |\n" in section


def test_the_docs_have_no_row_of_a_key_that_is_not():
    rows = re.findall(r"^\| `([a-z0-9_]+)` \|", DOCS.read_text(), re.MULTILINE)
    assert sorted(rows) == sorted(key.name for key in (*SETTINGS, *AGENT_KEYS, *LIMITS))


# ------------------------------------------------------------------------------- agents of the state, and a reload


def test_agents_of_the_state_are_beside_those_of_the_file():
    write(Path("f.toml"), "[agents.one]\n[profiles.news]\n")
    stored = StoredAgents("s/agents.json", {"two": {"profile": "news", "created": "2026"}})
    loaded = load_config(Path("f.toml"), {}, stored)
    assert {name: agent.profile for name, agent in loaded.config.agents.items()} == {
        "one": "default",
        "two": "news",
    }
    assert loaded.stored is stored


@pytest.mark.parametrize(
    ("table", "text"),
    [
        (
            {"one": {}},
            "f.toml: agents.one: is in s/agents.json too; remove this table, or: fetchd agent revoke one",
        ),
        (
            {"two": {"x": 1}},
            "s/agents.json: agents.two.x: no such key; write one of profile, token_sha256, sources",
        ),
        (
            {"two": {"profile": "x"}},
            "f.toml: agents.two.profile: there is no profile x; add [profiles.x] or write one",
        ),
    ],
)
def test_what_is_wrong_with_them_names_their_file(table, text):
    write(Path("f.toml"), "[agents.one]\n")
    with pytest.raises(ConfigError) as caught:
        load_config(Path("f.toml"), {}, StoredAgents("s/agents.json", table))
    assert str(caught.value).startswith(text)


def test_a_reload_reads_the_same_file_and_the_agents_of_now(tmp_path):
    file = tmp_path / "f.toml"
    write(file, "[profiles.news]\n")
    before = load_config(file, {})
    write(file, "[profiles.other]\n")
    write_agents(tmp_path, StoredAgents("", {"two": {"profile": "other"}}))
    now = load_again(before, tmp_path)
    assert set(now.config.profiles) == {"default", "other"} | ({"page_read"} & set(now.config.profiles))
    assert set(now.config.agents) == {"two"}
    # What was built in stays so, whatever file has come since.
    Path("config").mkdir()
    write(Path("config/fetchd.toml"), "[profiles.found]\n")
    built_in = load_again(LoadedConfig(before.config, "built-in configuration", None), tmp_path / "none")
    assert "found" not in built_in.config.profiles


@pytest.mark.parametrize("text", ["", "# nothing\n", "\n\n"])
def test_a_file_that_lost_every_key_is_a_mistake_and_one_that_never_had_any_is_none(tmp_path, text):
    file = tmp_path / "f.toml"
    write(file, "[profiles.news]\n")
    before = load_config(file, {})
    write(file, text)
    with pytest.raises(ConfigError, match="has no key at all any more"):
        load_again(before, tmp_path)
    assert load_again(load_config(file, {}), tmp_path).empty


def test_a_file_is_steady_when_two_reads_agree(tmp_path, monkeypatch):
    contents = iter([b"a", b"ab", b"abc", b"abc", b"never"])
    monkeypatch.setattr("fetchd.settings._read_bounded", lambda path, source: next(contents))
    monkeypatch.setattr("fetchd.settings.STEADY_SECONDS", 0)
    assert read_steady(tmp_path, "f.toml") == b"abc"
    numbers = itertools.count()
    monkeypatch.setattr("fetchd.settings._read_bounded", lambda path, source: b"%d" % next(numbers))
    with pytest.raises(ConfigError, match="keeps changing"):
        read_steady(tmp_path, "f.toml")
    assert next(numbers) == STEADY_READS + 1


def test_a_reload_waits_for_a_file_that_is_being_written(tmp_path, monkeypatch):
    """Each state of it is a configuration; it is written a piece at a time, between the reads."""
    file, text = tmp_path / "f.toml", "[profiles.a]\n[profiles.b]\n[profiles.c]\n"
    before = load_config(write(file, text), {})
    write(file, "")
    pieces = iter(text.splitlines(keepends=True))

    def write_on(_seconds):
        with file.open("a") as end:
            end.write(next(pieces, ""))

    monkeypatch.setattr("fetchd.settings.time", SimpleNamespace(sleep=write_on))
    assert {"a", "b", "c"} <= set(load_again(before, tmp_path).config.profiles)
