"""Rotation: two steps, each whole or not there after a crash; the old key is gone, and nobody meets a stranger."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from certs import rotation
from certs.authority import inspect_authority, load_or_create_authority
from certs.errors import CertificateAuthorityError
from certs.files import hold_lock
from certs.issuing import issue_authority
from certs.rotation import cancel_rotation, prepare_rotation, switch_authority
from tests.kit.authorities import intermediate


class Installation:
    """A state directory whose authority was made by a start."""

    def __init__(self, folder: Path) -> None:
        self.keys, self.ca_pem = folder / "keys", folder / "ca.pem"
        self.current, self.next = self.keys / "mitmproxy-ca.pem", self.keys / "next-ca.pem"
        self.places = (self.keys, self.ca_pem)
        self.first = self.start()

    def start(self) -> bytes:
        """What workers of a gateway started now would sign with."""
        return load_or_create_authority(*self.places).signing_pem

    @property
    def trusted(self) -> list[x509.Certificate]:
        """What clients trust that have ca.pem."""
        return x509.load_pem_x509_certificates(self.ca_pem.read_bytes())


def signer(pem: bytes) -> x509.Certificate:
    return x509.load_pem_x509_certificates(pem)[0]


@pytest.fixture
def place(tmp_path: Path) -> Installation:
    return Installation(tmp_path)


class TestPrepare:
    def test_both_are_trusted_and_what_signs_does_not_change(self, place: Installation) -> None:
        prepared = prepare_rotation(*place.places)

        assert prepared.created
        assert place.trusted == [signer(place.first), prepared.next.certificate]
        assert place.start() == place.first
        assert place.trusted == [signer(place.first), prepared.next.certificate], "a start keeps both"
        assert place.next.stat().st_mode & 0o777 == 0o600
        assert inspect_authority(*place.places) == (prepared.current, prepared.next)

    def test_again_it_is_the_same_one(self, place: Installation) -> None:
        first, second = prepare_rotation(*place.places), prepare_rotation(*place.places)

        assert (second.created, second.next) == (False, first.next)

    def test_a_start_says_nothing_of_the_rewritten_file(self, place: Installation) -> None:
        """Its clients trust what they trusted."""
        prepare_rotation(*place.places)
        place.ca_pem.write_bytes(signer(place.first).public_bytes(Encoding.PEM))

        assert load_or_create_authority(*place.places).notes == ()
        assert len(place.trusted) == 2

    def test_what_was_prepared_and_cannot_be_used_stops_no_start(self, place: Installation) -> None:
        place.next.write_bytes(b"hello")
        place.next.chmod(0o600)
        (note,) = load_or_create_authority(*place.places).notes

        assert "no rotation is prepared any more" in note and "fetchd ca rotate --cancel" in note
        with pytest.raises(CertificateAuthorityError, match="rotate --cancel"):
            prepare_rotation(*place.places)
        with pytest.raises(CertificateAuthorityError, match="rotate --cancel"):
            switch_authority(*place.places)
        assert cancel_rotation(*place.places)
        assert prepare_rotation(*place.places).created

    def test_before_the_first_start_there_is_nothing_to_replace(self, tmp_path: Path) -> None:
        for step in (prepare_rotation, cancel_rotation, switch_authority):
            with pytest.raises(
                CertificateAuthorityError, match="there is no authority yet; fetchd up makes it"
            ):
                step(tmp_path / "keys", tmp_path / "ca.pem")
        assert list(tmp_path.iterdir()) == []


class TestCancel:
    def test_the_next_one_is_gone(self, place: Installation) -> None:
        prepare_rotation(*place.places)

        assert cancel_rotation(*place.places) and not place.next.exists()
        assert place.trusted == [signer(place.first)]
        assert not cancel_rotation(*place.places)


class TestSwitch:
    def test_the_next_one_signs_and_the_old_key_is_nowhere(self, place: Installation) -> None:
        prepared = prepare_rotation(*place.places)
        with place.current.open("rb") as old:
            new = switch_authority(*place.places)
            assert set(old.read()) <= {0}, "the bytes on disk are overwritten"

        assert new == prepared.next
        assert signer(place.start()) == new.certificate
        assert place.trusted == [new.certificate]
        assert not place.next.exists()
        files = [path.read_bytes() for path in place.keys.iterdir()]
        assert [content.count(b"PRIVATE KEY-----\n") for content in files if b"PRIVATE" in content] == [2]

    def test_without_preparation_it_says_what_comes_first(self, place: Installation) -> None:
        with pytest.raises(CertificateAuthorityError, match="first fetchd ca rotate --prepare, then give"):
            switch_authority(*place.places)
        assert place.start() == place.first

    def test_a_bundle_that_no_client_can_have_stops_it(self, place: Installation) -> None:
        prepare_rotation(*place.places)
        place.ca_pem.write_bytes(signer(place.first).public_bytes(Encoding.PEM))

        with pytest.raises(CertificateAuthorityError, match="does not hold the prepared certificate"):
            switch_authority(*place.places)
        assert place.start() == place.first

    @pytest.mark.parametrize("prepared", [True, False])
    def test_at_once_if_one_must(self, place: Installation, prepared: bool) -> None:
        if prepared:
            prepare_rotation(*place.places)
            place.ca_pem.unlink()
        new = switch_authority(*place.places, unprepared=True)

        assert signer(place.start()) == new.certificate != signer(place.first)

    def test_an_expired_authority_is_replaced_too(self, place: Installation) -> None:
        later = datetime.now(UTC) + timedelta(days=2000)
        new = switch_authority(*place.places, unprepared=True, now=lambda: later)

        assert new.expires > later
        assert load_or_create_authority(*place.places, now=lambda: later).created is False

    def test_one_that_somebody_else_issued_is_theirs_to_replace(self, place: Installation) -> None:
        own = intermediate()
        place.current.write_bytes(own.key_pem() + own.chain)
        for step in (prepare_rotation, switch_authority):
            with pytest.raises(CertificateAuthorityError, match="put its successor there yourself"):
                step(*place.places)


class Crash(BaseException):
    """The power fails."""


def crash_at(monkeypatch: pytest.MonkeyPatch, number: int) -> Callable[[], int]:
    """Every call that changes a file counts; the one numbered so (from 0) does not happen. Returns the counter."""
    calls = iter(range(1000))
    done = 0

    def wrap(owner: object, name: str) -> None:
        original = getattr(owner, name)

        def call(*arguments: object, **options: object) -> object:
            nonlocal done
            done = next(calls) + 1
            if done - 1 == number:
                raise Crash
            return original(*arguments, **options)

        monkeypatch.setattr(owner, name, call)

    for owner, name in ((Path, "replace"), (Path, "unlink"), (os, "pwrite"), (os, "fsync")):
        wrap(owner, name)
    return lambda: done


STEPS: dict[str, Callable[[Installation], object]] = {
    "prepare": lambda place: prepare_rotation(*place.places),
    "switch": lambda place: switch_authority(*place.places),
    "cancel": lambda place: cancel_rotation(*place.places),
}


@pytest.mark.parametrize("step", STEPS)
def test_a_crash_at_any_write_leaves_one_whole_authority_that_its_clients_trust(
    tmp_path: Path, step: str
) -> None:
    at, reached = 0, True
    while reached:
        place = Installation(tmp_path / f"{at}")
        if step != "prepare":
            prepare_rotation(*place.places)
        known = {signer(place.first)} | set(place.trusted)
        bundle = place.ca_pem.read_bytes()
        with pytest.MonkeyPatch.context() as monkeypatch:
            count = crash_at(monkeypatch, at)
            try:
                STEPS[step](place)
            except Crash:
                pass
            reached = count() > at
        signing = signer(place.start())
        assert signing in known, "no client meets a stranger"
        if step != "switch":
            assert signing == signer(place.first)
        # A client with the file of before the crash trusts what signs now.
        assert signing in x509.load_pem_x509_certificates(bundle)
        assert signing in place.trusted
        # And the step can be done again, or has been.
        if step == "switch" and signing != signer(place.first):
            with pytest.raises(CertificateAuthorityError, match="no rotation is prepared"):
                STEPS[step](place)
        else:
            STEPS[step](place)
        at += 1
    assert at > 4, "the step writes more than once"


def test_two_at_once_end_with_one_next_authority(
    place: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second waits for the lock, and finds what the first made."""
    made = []

    def issue(now: datetime) -> bytes:
        made.append(now)
        with (
            pytest.raises(CertificateAuthorityError, match="is locked by another process"),
            hold_lock(place.keys / "ca.lock", timeout=0),
        ):
            pytest.fail("the lock is not held")
        return issue_authority(now)

    monkeypatch.setattr(rotation, "issue_authority", issue)
    prepare_rotation(*place.places)
    prepare_rotation(*place.places)

    assert len(made) == 1
