"""`fetchd receipt list | show | verify | key` as a person and a script meet them."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from fetchd.faces import receipt_cli
from fetchd.store import AuditPosition, StoreKeys, open_page_store
from proxy_addons.audit import AuditKeys, AuditLog, CallOutcome, FetchRecord
from tests.fetchd.store.kit import blob_of, keep, page_read

PAGES = {1: b"first page", 2: b"second page", 3: b"third page"}
FAILED = 4
IDS = {number: page_read(number).id for number in (*PAGES, FAILED)}


async def fill(state: Path) -> None:
    log = AuditLog.open(state / "audit", "daemon", AuditKeys.load_or_create(state / "keys"))
    facts: dict[str, Any] = {
        "tool": "page_read", "profile": "page_read", "policy": "page_read@0123abcd",
        "url": "https://a.example/start", "outcome": CallOutcome.SUCCESS, "status": 200,
    }  # fmt: skip
    async with open_page_store(state) as store:
        for number, body in PAGES.items():
            agent = "alice" if number < 3 else "bob"
            await keep(store, body)
            head = log.append_line(FetchRecord(fetch_id=IDS[number], agent=agent, **facts))
            place = AuditPosition("daemon", head.seq, head.hash)
            await store.seal(page_read(number, body, agent=agent, fetch=place, decision=None, redirects=()))
        await store.note(page_read(FAILED, PAGES[1]))
    log.close()


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """Three reads of two agents, and one that failed after its page was kept."""
    asyncio.run(fill(tmp_path / "state"))
    return tmp_path / "state"


def run(*arguments: str | Path, **options: Any) -> Result:
    return CliRunner().invoke(receipt_cli.group, [str(argument) for argument in arguments], **options)


def save(state: Path, directory: Path, number: int = 1) -> Path:
    path = directory / "receipt.json"
    path.write_bytes(run("show", IDS[number], "--json", "--state-dir", state).stdout_bytes)
    return path


# ---- list and show


def test_the_list_has_the_newest_last(state: Path) -> None:
    rows = [line.split("\t") for line in run("list", "--state-dir", state).stdout.splitlines()]

    assert [row[0] for row in rows] == list(IDS.values())
    assert rows[0][1:] == [
        "2026-11-30T20:00:00.000Z", "alice", "200", "10", blob_of(PAGES[1]).digest, "https://a.example/page",
    ]  # fmt: skip
    assert rows[-1][-1] == "(no receipt: the call failed)"


@pytest.mark.parametrize(
    ("options", "numbers"),
    [
        (["-n", "2"], [3, FAILED]),
        (["--agent", "bob"], [3]),
        (["--agent", "nobody"], []),
        (["-n", "1"], [FAILED]),
    ],
)
def test_the_list_can_be_narrowed(state: Path, options: list[str], numbers: list[int]) -> None:
    rows = run("list", *options, "--state-dir", state).stdout.splitlines()

    assert [row.split("\t")[0] for row in rows] == [IDS[number] for number in numbers]


def test_the_list_as_receipts(state: Path) -> None:
    lines = run("list", "--json", "--state-dir", state).stdout.splitlines()

    assert [json.loads(line)["id"] for line in lines] == [IDS[number] for number in PAGES]


def test_a_receipt_for_people_and_as_it_was_signed(state: Path) -> None:
    people = run("show", IDS[1], "--state-dir", state).stdout
    signed = run("show", IDS[1], "--json", "--state-dir", state).stdout

    assert json.loads(people) == json.loads(signed)
    assert len(people.splitlines()) > 10 and len(signed.splitlines()) == 1


@pytest.mark.parametrize(
    ("read_id", "said"),
    [("0" * 19 + "9", "no read 00000000000000000009; see: fetchd receipt list"), (IDS[FAILED], "has no receipt"),
     ("\x1b[31m", "no read \\x1b[31m")],
)  # fmt: skip
def test_what_cannot_be_shown(state: Path, read_id: str, said: str) -> None:
    result = run("show", read_id, "--state-dir", state)

    assert result.exit_code == 2 and said in result.stderr and "\x1b" not in result.stderr


# ---- verify


def test_all_receipts_hold(state: Path) -> None:
    result = run("verify", "--state-dir", state)

    assert (result.exit_code, result.stdout) == (0, "3 receipts verified, 0 do not hold\n")


def test_one_receipt_with_all_that_is_at_hand(state: Path) -> None:
    result = run("verify", IDS[2], "--state-dir", state)

    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        f"{IDS[2]}: holds", *(f"  {check}: holds" for check in ("form", "signature", "blob", "chain", "audit"))
    ]  # fmt: skip


def test_a_broken_blob_is_named(state: Path) -> None:
    digest = blob_of(PAGES[2]).digest.removeprefix("sha256:")
    (state / "blobs" / "sha256" / digest[:2] / digest[2:]).write_bytes(b"second pagE")
    everything, one = run("verify", "--state-dir", state), run("verify", IDS[2], "--state-dir", state)

    assert everything.exit_code == one.exit_code == 1
    for result in (everything, one):
        assert f"{IDS[2]}: DOES NOT HOLD" in result.stdout
        assert f"  blob: FAILS: {blob_of(PAGES[2]).digest} is damaged" in result.stdout
        assert "  signature: holds" in result.stdout
    assert everything.stdout.endswith("3 receipts verified, 1 do not hold\n")


def test_a_changed_audit_line_is_named(state: Path) -> None:
    (path,) = (state / "audit").glob("daemon-*.jsonl")
    path.write_bytes(path.read_bytes().replace(b'"bob"', b'"rob"'))
    result = run("verify", "--json", "--state-dir", state)

    reports = [json.loads(line) for line in result.stdout.splitlines()]
    assert result.exit_code == 1
    assert [report["ok"] for report in reports] == [True, True, False]
    assert [finding["check"] for finding in reports[2]["findings"]] == ["audit"]


def test_elsewhere_the_public_key_and_the_body_are_enough(state: Path, tmp_path: Path) -> None:
    """The receipt, the key and the page are carried to a machine that has nothing else."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    receipt, key, body = save(state, elsewhere), elsewhere / "their.pub", elsewhere / "page"
    key.write_text(run("key", "--state-dir", state).stdout)
    body.write_bytes(PAGES[1])
    shutil.rmtree(state)

    result = run("verify", receipt, "--key", key, "--blob", body, "--state-dir", elsewhere)
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        f"{IDS[1]}: holds", "  form: holds", "  signature: holds", "  blob: holds",
        "  chain: not checked (on its own)", "  audit: not checked (on its own)",
    ]  # fmt: skip
    piped = run("verify", "-", "--key", key, input=receipt.read_bytes())
    assert piped.exit_code == 0 and "  blob: not checked (no body given)" in piped.stdout


def test_elsewhere_what_fails_is_named(state: Path, tmp_path: Path) -> None:
    receipt, other, body = save(state, tmp_path), tmp_path / "other.pub", tmp_path / "page"
    other.write_bytes(StoreKeys.generate().public.render_pem())
    body.write_bytes(PAGES[2])
    whole = receipt.read_bytes()

    wrong_body = run("verify", receipt, "--blob", body, "--state-dir", state)
    wrong_key = run("verify", receipt, "--key", other)
    receipt.write_bytes(whole.replace(b'"status":200', b'"status":201'))
    changed = run("verify", receipt, "--state-dir", state)
    receipt.write_text(json.dumps(dict(reversed(json.loads(whole).items())), indent=2))
    respelt = run("verify", receipt, "--state-dir", state)
    receipt.write_bytes(whole.rstrip()[:-1])
    cut = run("verify", receipt, "--state-dir", state)

    assert {result.exit_code for result in (wrong_body, wrong_key, changed, cut)} == {1}
    assert "  blob: FAILS: the body has the digest" in wrong_body.stdout
    assert "  signature: FAILS: signed with a key that is not at hand" in wrong_key.stdout
    assert "  signature: FAILS: it does not hold" in changed.stdout
    assert "  form: FAILS: not JSON" in cut.stdout
    assert respelt.exit_code == 0  # as other JSON writers hand it on: the same values


def test_a_kept_receipt_held_to_a_body(state: Path, tmp_path: Path) -> None:
    body = tmp_path / "page"
    body.write_bytes(PAGES[2])

    assert run("verify", IDS[2], "--blob", body, "--state-dir", state).exit_code == 0
    wrong = run("verify", IDS[1], "--blob", body, "--state-dir", state)
    assert wrong.exit_code == 1 and "given body: blob: the body has the digest" in wrong.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nowhere.json"], "name a read (20 hex digits) or a file with a receipt"),
        (["0" * 19 + "9"], "no read 00000000000000000009"),
        ([IDS[FAILED]], f"read {IDS[FAILED]} has no receipt"),
        ([IDS[1], "--key", "nowhere.pub"], "no public key at nowhere.pub"),
        (["--blob", __file__], "name the receipt"),
    ],
)
def test_what_cannot_be_verified(state: Path, arguments: list[str], said: str) -> None:
    result = run("verify", *arguments, "--state-dir", state)

    assert result.exit_code == 2 and said in result.stderr and len(result.stderr.splitlines()) == 1


def test_without_a_store(tmp_path: Path) -> None:
    for command in (["list"], ["show", IDS[1]], ["key"], ["verify"]):
        result = run(*command, "--state-dir", tmp_path / "nowhere")
        assert result.exit_code == 2 and len(result.stderr.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []
