"""`fetchd agent` where nothing runs: what it keeps, what it prints, and each mistake in one line."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from fetchd.faces.cli import main
from proxy_addons.policy.agents import digest_token
from tests.fetchd.search.local.kit import open_index, read_text, urls

TOKEN = re.compile(r"fetchd\.([a-z][a-z0-9_-]*)\.[A-Za-z0-9_-]{43}")
CONFIG = """
[daemon]
names = ["fetchd.internal"]
[profiles.research]
[profiles.news]
[agents.written]
profile = "news"
sources = ["172.20.0.5", "172.21.0.0/24"]
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with a configuration; the state is to be in `state`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FETCHD_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("FETCHD_CONFIG", str(tmp_path / "c.toml"))
    (tmp_path / "c.toml").write_text(CONFIG)
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["agent", *arguments], catch_exceptions=False)


def add(name: str, *more: str) -> str:
    """The token of a new agent."""
    done = run("add", name, "--profile", "research", *more)
    assert done.exit_code == 0, done.output
    found = TOKEN.search(done.output)
    assert found is not None and found[1] == name
    return found[0]


def kept(folder: Path) -> dict[str, dict[str, object]]:
    return json.loads((folder / "state" / "agents.json").read_text())


def test_a_token_is_printed_once_and_kept_as_a_digest(folder: Path) -> None:
    token = add("bot", "--source", "10.0.0.7")

    row = kept(folder)["bot"]
    assert row.pop("created")
    assert row == {"profile": "research", "token_sha256": digest_token(token), "sources": ["10.0.0.7"]}
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert [path for path in files if token.encode() in path.read_bytes()] == []
    assert TOKEN.search(run("list").output) is None


def test_no_two_tokens_are_alike(folder: Path) -> None:
    assert len({add(f"bot{number}") for number in range(5)}) == 5


def test_it_says_how_clients_use_it(folder: Path) -> None:
    done = run("add", "bot", "--profile", "research")
    token = TOKEN.search(done.output)
    assert token is not None

    assert f"HTTPS_PROXY=http://bot:{token[0]}@127.0.0.1:3128 " in done.output
    assert f"SSL_CERT_FILE={folder}/state/ca.pem" in done.output
    assert "fetchd up will take its token" in done.output


@pytest.mark.parametrize("form", ["shell", "dotenv", "json"])
def test_with_env_standard_output_is_for_a_program_alone(folder: Path, form: str) -> None:
    done = run("add", "bot", "--profile", "research", "--env", form)
    match form:
        case "json":
            found = json.loads(done.stdout)
        case "dotenv":
            found = dict(line.split("=", 1) for line in done.stdout.splitlines())
        case _:
            script = f'{done.stdout}\nprintf "%s\\0" "$HTTPS_PROXY" "$FETCHD_TOKEN" "$FETCHD_TOOLS_URL"'
            said = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True).stdout
            found = dict(
                zip(("HTTPS_PROXY", "FETCHD_TOKEN", "FETCHD_TOOLS_URL"), said.split("\0"), strict=False)
            )

    token = found["FETCHD_TOKEN"]
    assert kept(folder)["bot"]["token_sha256"] == digest_token(token)
    assert found["HTTPS_PROXY"] == f"http://bot:{token}@127.0.0.1:3128"
    assert found["FETCHD_TOOLS_URL"] == "http://127.0.0.1:3129"
    assert token not in done.stderr and done.stderr.startswith("agent bot added, profile research; ")


def test_rotate_gives_another_token_and_keeps_the_rest(folder: Path) -> None:
    old = add("bot", "--source", "10.0.0.7")
    before = kept(folder)["bot"]
    done = run("rotate", "bot")
    new = TOKEN.search(done.output)

    assert new is not None and new[0] != old
    assert kept(folder)["bot"] == {**before, "token_sha256": digest_token(new[0])}


def test_set_puts_another_profile_in_place_and_keeps_the_rest(folder: Path) -> None:
    token = add("bot", "--source", "10.0.0.7")
    before = kept(folder)["bot"]
    done = run("set", "bot", "--profile", "news")
    assert (done.exit_code, done.output) == (0, "agent bot has profile news; nothing runs\n")
    assert kept(folder)["bot"] == {**before, "profile": "news"}
    assert kept(folder)["bot"]["token_sha256"] == digest_token(token)
    wrong = run("set", "bot", "--profile", "newss")
    assert wrong.exit_code == 2 and "did you mean news?" in wrong.output
    assert run("set", "written", "--profile", "news").exit_code == 2
    assert kept(folder)["bot"]["profile"] == "news"


def test_revoke_removes_it_and_its_name_can_be_used_again(folder: Path) -> None:
    add("bot")
    assert run("revoke", "bot").output == "agent bot revoked; nothing runs\n"
    assert kept(folder) == {}
    add("bot")


@pytest.mark.parametrize("revoked", [True, False], ids=["revoked", "taken out of the file"])
def test_another_agent_of_the_name_does_not_find_what_the_first_has_read(folder: Path, revoked: bool) -> None:
    state = folder / "state"

    async def read_page() -> None:
        async with open_index(state) as index:
            await index.texts.add([read_text("word", agent=agent) for agent in ("bot", "other")])
            assert len(await urls(index, "word", "bot")) == 1

    async def find(agent: str) -> int:
        async with open_index(state) as index:
            return len(await urls(index, "word", agent))

    add("bot")
    asyncio.run(read_page())
    if revoked:
        run("revoke", "bot")
        assert not (state / "index" / "agent-bot.db").exists()
    else:
        (state / "agents.json").unlink()
    add("bot")

    assert asyncio.run(find("bot")) == 0
    assert asyncio.run(find("other")) == 1


def test_a_damaged_store_keeps_no_token_alive(folder: Path) -> None:
    add("bot")
    (folder / "state" / "fetchd.db").write_bytes(b"no database at all" * 100)
    done = run("revoke", "bot")

    assert done.exit_code == 0 and kept(folder) == {}
    assert "can still be had by the next one" in done.output
    assert "mend that, and then add the next one" in done.output


def test_list_has_those_of_the_file_too(folder: Path) -> None:
    add("bot", "--source", "10.0.0.7")
    rows = [re.split(r"  +", line) for line in run("list").output.splitlines()]
    created = str(kept(folder)["bot"]["created"])

    assert rows == [
        ["agent", "profile", "token", "sources", "created", "from"],
        ["written", "news", "no", "172.20.0.5, 172.21.0.0/24", "-", f"{folder}/c.toml"],
        ["bot", "research", "yes", "10.0.0.7", created[:10], "state"],
    ]
    assert json.loads(run("list", "--json").output)[1] == {
        "agent": "bot", "profile": "research", "token": True, "sources": ["10.0.0.7"], "created": created,
        "from": "state",
    }  # fmt: skip


def test_without_agents_it_says_how_to_add_one(folder: Path) -> None:
    (folder / "c.toml").write_text("")
    assert run("list").output == "no agents; add one with: fetchd agent add NAME --profile PROFILE\n"
    assert json.loads(run("list", "--json").output) == []


@pytest.mark.parametrize(
    ("config", "said"),
    [
        pytest.param("", True, id="the first"),
        pytest.param("[agents.other]\n", False, id="there is another"),
        pytest.param(
            '[gateway]\nlisteners = [{ address = "127.0.0.1:1", anonymous = true }]\n[daemon]\nanonymous = true\n',
            False,
            id="all are served in any case",
        ),
        pytest.param("[daemon]\nanonymous = true\n", True, id="at one of two listeners"),
    ],
)
def test_the_first_agent_ends_what_needed_no_token_and_that_is_said(
    folder: Path, config: str, said: bool
) -> None:
    (folder / "c.toml").write_text(config + "[profiles.research]\n")
    first = run("add", "a", "--profile", "research").output

    assert ("This is the first agent: " in first) is said
    assert "the first agent" not in run("add", "b", "--profile", "research").output


WRONG = {
    "a name that is taken": (
        ["add", "bot", "--profile", "news"],
        "there is an agent bot already; for a new token: fetchd agent rotate bot",
    ),
    "a name of the file": (
        ["add", "written", "--profile", "news"], "there is an agent written already, in {folder}/c.toml",
    ),
    "no name": (
        ["add", "Bot", "--profile", "news"],
        ("Bot is no name for an agent; write a small letter, then small letters, digits, _ and -, 32 at most,"
        " not local or unknown"),
    ),
    "one that moves the cursor": (
        ["add", "a\x1b[2J\n", "--profile", "news"],
        ("a\\x1b[2J\\n is no name for an agent; write a small letter, then small letters, digits, _ and -,"
        " 32 at most, not local or unknown"),
    ),
    "a reserved one": (
        ["add", "local", "--profile", "news"],
        ("local is no name for an agent; write a small letter, then small letters, digits, _ and -, 32 at most,"
        " not local or unknown"),
    ),
    "an unknown profile": (
        ["add", "new", "--profile", "reserch"], "{folder}/c.toml has no profile reserch; did you mean research?",
    ),
    "no profile at all": (
        ["add", "new", "--profile", "X Y"],
        "{folder}/c.toml has no profile X Y; it has default, research, news",
    ),
    "a source that is none": (
        ["add", "new", "--profile", "news", "--source", "10.0.0.7/24"],
        '{folder}/state/agents.json: agents.new.sources[0]: write "10.0.0.0/24"',
    ),
    "a source of another": (
        ["add", "new", "--profile", "news", "--source", "172.20.0.5"],
        ("{folder}/c.toml: agents.new.sources[0]: 172.20.0.5/32 is a source of written already;"
        " write a range of this agent's own"),
    ),
    "nobody to revoke": (["revoke", "bat"], "there is no agent bat; did you mean bot?"),
    "nobody to rotate": (["rotate", "zzz"], "there is no agent zzz; it has bot"),
    "one of the file to revoke": (
        ["revoke", "written"],
        "agent written is in {folder}/c.toml; change it there, and run fetchd reload",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("arguments", "message"), WRONG.values(), ids=WRONG)
def test_a_mistake_is_one_line_and_changes_nothing(folder: Path, arguments: list[str], message: str) -> None:
    add("bot")
    before = kept(folder)
    done = run(*arguments)

    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr == f"Error: {message.format(folder=folder)}\n"
    assert kept(folder) == before


def test_a_damaged_file_is_one_line_for_every_command(folder: Path) -> None:
    add("bot")
    (folder / "state" / "agents.json").write_text("{")
    for arguments in (["list"], ["revoke", "bot"], ["add", "x", "--profile", "news"]):
        done = run(*arguments)
        assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
        assert "agents.json: is damaged" in done.stderr


class TestFarListener:
    """A listener that other machines reach needs an agent: which comes first?"""

    @pytest.fixture(autouse=True)
    def far(self, folder: Path) -> None:
        (folder / "c.toml").write_text('[daemon]\nlisten = "0.0.0.0:3129"\n')

    def test_without_agents_the_configuration_says_how_to_add_one(self) -> None:
        done = CliRunner().invoke(main, ["config", "check"])
        assert done.exit_code == 2
        assert "fetchd agent add NAME" in done.stderr

    def test_the_first_agent_makes_it_valid(self, folder: Path) -> None:
        done = run("add", "bot", "--profile", "default")
        assert done.exit_code == 0
        assert CliRunner().invoke(main, ["config", "check"]).exit_code == 0
        assert "FETCHD_TOOLS_URL=http://127.0.0.1:3129 " in done.output

    def test_a_profile_that_is_not_there_is_named_before_that(self) -> None:
        assert "profile nowhere" in run("add", "bot", "--profile", "nowhere").stderr

    def test_the_last_one_cannot_be_revoked_and_can_be_rotated(self, folder: Path) -> None:
        run("add", "bot", "--profile", "default")
        before = kept(folder)
        done = run("revoke", "bot")

        assert done.exit_code == 2
        assert done.stderr.startswith("Error: bot is needed: ")
        assert done.stderr.endswith("; to end its token alone: fetchd agent rotate bot\n")
        assert kept(folder) == before
        assert run("rotate", "bot").exit_code == 0


def test_a_token_can_be_revoked_although_the_configuration_is_broken(folder: Path) -> None:
    add("bot")
    (folder / "c.toml").write_text("[gateway\n")
    assert run("add", "new", "--profile", "default").exit_code == 2
    assert run("revoke", "bot").exit_code == 0
    assert kept(folder) == {}


def test_all_commands_see_the_agents_of_the_state(folder: Path) -> None:
    """An agent whose profile is gone is an error of every command that reads the configuration."""
    add("bot")
    (folder / "c.toml").write_text("[profiles.news]\n")
    for command in (["config", "check"], ["check", "https://a.example/"], ["profile", "list"], ["up"],
                    ["fetch", "https://a.example/", "--no-start"]):  # fmt: skip
        done = CliRunner().invoke(main, command)
        assert done.exit_code == 2
        assert "agents.bot.profile: there is no profile research" in done.stderr
