"""`fetchd ca` without a gateway: what it shows, writes and refuses."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from cryptography import x509

from certs.authority import load_or_create_authority
from fetchd.faces.ca_cli import group
from fetchd.faces.ca_text import INSTALL
from fetchd.faces.config_cli import check_config
from proxy_addons.audit import load_public_key, verify_directory
from tests.kit.authorities import Ca, intermediate
from tests.kit.corpora import REPOSITORY
from tests.kit.toml import write_toml


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A state directory after a first start."""
    folder = tmp_path / "state"
    load_or_create_authority(folder / "keys", folder / "ca.pem")
    return folder


def run(state: Path, *arguments: str) -> Result:
    return CliRunner().invoke(group, [*arguments, "--state-dir", str(state)])


def configure(folder: Path, own: Ca) -> Path:
    own.write(folder)
    return write_toml(folder / "f.toml", {"tls": {"ca_certificate": "corp.pem", "ca_key": "corp.key"}})


# -- show


def test_show_says_what_to_trust_and_where_to_put_it(state: Path) -> None:
    result = run(state, "show")
    certificate = x509.load_pem_x509_certificate((state / "ca.pem").read_bytes())
    lines = result.stdout.splitlines()

    assert (result.exit_code, result.stderr) == (0, "")
    assert lines[0] == f"path     {state}/ca.pem"
    assert lines[1] == f"subject  {certificate.subject.rfc4514_string()}"
    assert lines[2].startswith("sha256   ") and lines[2].count(":") == 31
    assert lines[3] == (
        f"valid    {certificate.not_valid_before_utc:%Y-%m-%d} to {certificate.not_valid_after_utc:%Y-%m-%d}"
    )
    assert f"client                      with CA={state}/ca.pem" in lines


def test_show_json_has_the_same_facts(state: Path) -> None:
    document = json.loads(run(state, "show", "--json").stdout)
    certificate = x509.load_pem_x509_certificate((state / "ca.pem").read_bytes())

    assert document["path"] == f"{state}/ca.pem"
    assert document["current"]["subject"] == certificate.subject.rfc4514_string()
    assert document["current"]["not_after"] == certificate.not_valid_after_utc.isoformat()
    assert (document["next"], document["own"], document["notes"]) == (None, False, [])


def test_the_page_on_certificates_has_the_same_clients() -> None:
    page = (
        (REPOSITORY / "certs" / "README.md")
        .read_text("utf-8")
        .replace("`", "")
        .replace("…", "")
        .replace("  ", " ")
    )

    assert [how for _, how in INSTALL if how not in page] == []


@pytest.mark.parametrize("command", ["show", "export"])
def test_before_the_first_start_it_says_who_makes_it(tmp_path: Path, command: str) -> None:
    result = run(tmp_path, command)

    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == f"Error: no authority in {tmp_path} yet; fetchd up makes it\n"
    assert list(tmp_path.iterdir()) == []


# -- export


def test_export_prints_what_clients_trust(state: Path) -> None:
    assert run(state, "export").stdout_bytes == (state / "ca.pem").read_bytes()


@pytest.mark.parametrize("form", ["pem", "der", "p12"])
def test_export_to_a_file_holds_no_key(state: Path, tmp_path: Path, form: str) -> None:
    out = tmp_path / f"trust.{form}"
    result = run(state, "export", "--format", form, "--out", str(out))

    assert (result.exit_code, result.stdout) == (0, "")
    assert out.stat().st_mode & 0o777 == 0o644
    assert b"PRIVATE" not in out.read_bytes()


def test_export_to_a_place_that_is_not_there(state: Path, tmp_path: Path) -> None:
    result = run(state, "export", "--out", str(tmp_path / "nowhere" / "ca.pem"))

    assert result.exit_code == 2
    assert result.stderr == f"Error: {tmp_path}/nowhere/ca.pem cannot be written: No such file or directory\n"


def test_export_of_one_of_two(state: Path) -> None:
    assert run(state, "export", "--only", "next").exit_code == 2
    run(state, "rotate", "--prepare")
    both, current, following = (
        x509.load_pem_x509_certificates(run(state, "export", *only).stdout_bytes)
        for only in ((), ("--only", "current"), ("--only", "next"))
    )

    assert both == [*current, *following] and current != following
    assert (
        x509.load_der_x509_certificate(run(state, "export", "--only", "next", "--format", "der").stdout_bytes)
        == following[0]
    )
    assert run(state, "export", "--format", "der").exit_code == 2


# -- rotate


def test_the_steps_say_what_comes_next(state: Path) -> None:
    before = run(state, "rotate")
    prepared = run(state, "rotate", "--prepare")
    again = run(state, "rotate", "--prepare")
    shown = run(state, "show").stdout
    switched = run(state, "rotate")

    assert before.exit_code == 2
    assert before.stderr == (
        "Error: no rotation is prepared; first fetchd ca rotate --prepare,"
        f" then give {state}/ca.pem to every client\n"
    )
    assert prepared.stdout.startswith("the next authority made: ")
    assert again.stdout.startswith("the next authority was made before: ")
    assert (
        "holds both certificates; give it to every client, then: fetchd stop, fetchd ca rotate, fetchd up"
        in (prepared.stdout)
    )
    assert "next       prepared; once every client has the file above" in shown
    assert (switched.exit_code, "the old key is destroyed" in switched.stdout) == (0, True)
    assert (state / "ca.pem").read_bytes().count(b"BEGIN CERTIFICATE") == 1


def test_cancel_and_now(state: Path) -> None:
    assert run(state, "rotate", "--cancel").stdout == "no rotation was prepared\n"
    run(state, "rotate", "--prepare")
    assert run(state, "rotate", "--cancel").stdout == "the prepared authority is destroyed\n"
    assert "give it to every client" in run(state, "rotate", "--now").stdout


def test_each_change_is_in_the_audit_log(state: Path) -> None:
    """Whole chains, and of each authority the fingerprint that clients see."""
    first, second, _ = (
        run(state, "rotate", "--prepare").stdout.splitlines()[0].rpartition(" ")[2],
        run(state, "rotate", "--prepare").stdout.splitlines()[0].rpartition(" ")[2],
        run(state, "rotate"),
    )
    run(state, "rotate", "--prepare")
    run(state, "rotate", "--cancel")
    run(state, "rotate", "--cancel")
    run(state, "rotate", "--now")
    events = [line for line in read_lines(state) if line.get("event") == "authority"]

    assert first == second == events[0]["facts"]["fingerprint_sha256"]
    assert [(line["detail"], len(line["facts"].get("fingerprint_sha256", ""))) for line in events] == [
        ("the next authority was made", 95),
        ("the authority was replaced, the old key destroyed", 95),
        ("the next authority was made", 95),
        ("the prepared authority was destroyed", 0),
        ("the authority was replaced, the old key destroyed", 95),
    ]
    report = verify_directory(state / "audit", [load_public_key(state / "keys" / "audit-signing.pub.pem")])
    assert report.ok


def test_a_log_that_cannot_be_written_is_said_and_stops_nothing(state: Path) -> None:
    (state / "audit").write_text("no directory\n")
    done = run(state, "rotate", "--prepare")

    assert done.exit_code == 0 and done.stdout.startswith("the next authority made: ")
    assert done.stderr.startswith(
        "Warning: the next authority was made, and the audit log could not say so: "
    )


def read_lines(state: Path) -> list[dict[str, Any]]:
    return [
        json.loads(line)
        for path in sorted((state / "audit").glob("*.jsonl"))
        for line in path.read_text().splitlines()
    ]


@pytest.mark.parametrize("flags", [("--prepare", "--cancel"), ("--prepare", "--now"), ("--cancel", "--now")])
def test_one_step_at_a_time(state: Path, flags: tuple[str, ...]) -> None:
    assert run(state, "rotate", *flags).exit_code == 2
    assert not (state / "keys" / "next-ca.pem").exists()


def test_where_nothing_was_ever_started_nothing_is_made(tmp_path: Path) -> None:
    result = run(tmp_path, "rotate")

    assert result.exit_code == 2 and "there is no authority yet; fetchd up makes it" in result.stderr
    assert list(tmp_path.iterdir()) == []


# -- an authority of one's own


def test_one_s_own_is_shown_with_what_clients_do_not_have_yet(state: Path, tmp_path: Path) -> None:
    config = configure(tmp_path, intermediate(permitted="example.com"))
    result = run(state, "show", "--config", str(config))

    assert "subject     CN=corp root" in result.stdout
    assert f"key         {tmp_path}/corp.key, your own" in result.stdout
    assert "signs with  CN=corp gateway, shown to clients with its issuers" in result.stdout
    assert f"{state}/ca.pem does not hold this yet; the next start of fetchd writes it" in result.stdout
    assert "has name constraints" in result.stdout


def test_one_s_own_is_not_ours_to_rotate(state: Path, tmp_path: Path) -> None:
    config = configure(tmp_path, Ca("corp root"))
    result = run(state, "rotate", "--prepare", "--config", str(config))

    assert result.exit_code == 2
    assert f"{config} names an authority of your own (tls.ca_certificate)" in result.stderr


def test_a_hostile_name_moves_no_terminal(state: Path, tmp_path: Path) -> None:
    config = configure(tmp_path, Ca("a\x1b]0;b\u202ec", permitted="example.com"))

    assert set(run(state, "show", "--config", str(config)).stdout) <= {
        chr(code) for code in range(32, 127)
    } | {"\n"}


def test_config_check_looks_at_the_files(tmp_path: Path) -> None:
    config = configure(tmp_path, intermediate(permitted="example.com"))
    good = CliRunner().invoke(check_config, [str(config)])
    (tmp_path / "corp.key").chmod(0o644)
    bad = CliRunner().invoke(check_config, [str(config)])

    assert good.exit_code == 0 and f"CA           {tmp_path}/corp.pem\n" in good.stdout
    assert "note: CN=corp gateway has name constraints" in good.stdout
    assert (bad.exit_code, bad.stdout) == (2, "")
    assert bad.stderr == (
        f"Error: {config}: tls.ca_key: {tmp_path}/corp.key: other users may read or change it (mode 0644);"
        f" chmod 600 {tmp_path}/corp.key\n"
    )


def test_config_check_names_the_file_that_is_wrong(tmp_path: Path) -> None:
    config = configure(
        tmp_path, Ca("old", begin=datetime.now(UTC) - timedelta(days=2), end=datetime.now(UTC))
    )
    result = CliRunner().invoke(check_config, [str(config)])

    assert result.exit_code == 2
    assert result.stderr.startswith(
        f"Error: {config}: tls.ca_certificate: {tmp_path}/corp.pem: it expired on "
    )


# -- what clients need, in a folder of theirs


def test_a_folder_for_clients_gets_all_they_need_and_no_key(state: Path, tmp_path: Path) -> None:
    """What `fetchd up` writes into the state directory, readable by all, at a place that can be shared."""
    folder = tmp_path / "shared" / "ca"
    result = run(state, "export", "--clients", str(folder))

    assert (result.exit_code, result.output) == (0, "")
    assert sorted(path.name for path in folder.iterdir()) == ["ca.p12", "ca.pem", "wgetrc"]
    assert (folder / "ca.pem").read_bytes() == (state / "ca.pem").read_bytes()
    assert (folder / "wgetrc").read_text() == f"ca_certificate = {folder}/ca.pem\n"
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o644}
    assert all(b"PRIVATE" not in path.read_bytes() for path in folder.iterdir())


def test_a_folder_for_clients_may_be_written_again(state: Path, tmp_path: Path) -> None:
    for _ in range(2):
        assert run(state, "export", "--clients", str(tmp_path / "ca")).exit_code == 0


def test_a_folder_for_clients_that_cannot_be_written_is_one_line(state: Path, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file")
    result = run(state, "export", "--clients", str(tmp_path / "taken" / "ca"))

    assert result.exit_code == 2
    assert result.stderr == f"Error: {tmp_path}/taken/ca cannot be written: Not a directory\n"


@pytest.mark.parametrize("more", [("--out", "x"), ("--format", "der")])
def test_a_folder_for_clients_goes_with_no_other_form(
    state: Path, tmp_path: Path, more: tuple[str, ...]
) -> None:
    result = run(state, "export", "--clients", str(tmp_path / "ca"), *more)

    assert (result.exit_code, (tmp_path / "ca").exists()) == (2, False)
    assert "leave out --out and --format" in result.stderr
