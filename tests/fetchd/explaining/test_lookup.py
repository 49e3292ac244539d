"""The resolver process: judged addresses over its pipes, and what becomes of a process that fails."""

from __future__ import annotations

import sys

import pytest

from fetchd.explaining import lookup
from fetchd.explaining.lookup import LookupFailedError, NameLookup
from proxy_addons.policy.config import Config, parse_config
from proxy_addons.policy.verdicts import Failure, Outcome, Rule
from tests.kit.dns import Addresses, ScriptedDns


def configure(dns: ScriptedDns, **profile: object) -> Config:
    server = f"{dns.host}:{dns.port}"
    return parse_config({"dns": {"nameservers": [server]}, "profiles": {"p": profile}}, source="test")


def test_one_process_answers_for_many_names():
    with ScriptedDns() as dns:
        dns.host_addresses("mixed.example", "10.0.0.1", "93.184.216.34", "1.1.1.1")
        dns.host_addresses("inside.example", "169.254.169.254")
        with NameLookup(configure(dns), "p") as ask:
            mixed = ask.ask("mixed.example", 443)
            assert mixed.verdict.outcome is Outcome.ALLOWED
            assert mixed.allowed == ("93.184.216.34", "1.1.1.1")
            assert mixed.dropped == (("10.0.0.1", "10.0.0.0/8"),)
            child = ask._child
            inside = ask.ask("inside.example", 443)
            assert (inside.verdict.rule, inside.verdict.failure) == (Rule.NO_ALLOWED_ADDRESS, Failure.HARD)
            assert inside.verdict.message == "host inside.example has no allowed address"
            assert inside.dropped == (("169.254.169.254", "169.254.0.0/16"),)
            missing = ask.ask("missing.example", 443)
            assert (missing.verdict.rule, missing.verdict.failure) == (Rule.DNS_FAILED, Failure.SOFT)
            assert ask._child is child is not None
        assert child.process.returncode is not None


def test_the_profile_s_ranges_and_exceptions_decide():
    hole = {"host": "wiki.example", "address": "10.0.0.7", "port": 443}
    with ScriptedDns() as dns:
        dns.script("wiki.example", "A", Addresses("10.0.0.7", "93.184.216.34"))
        config = configure(dns, exceptions=[hole], blocked_extra=["93.184.216.0/24"])
        with NameLookup(config, "p") as ask:
            assert ask.ask("wiki.example", 443).allowed == ("10.0.0.7",)
            assert ask.ask("wiki.example", 80).verdict.rule is Rule.NO_ALLOWED_ADDRESS


def test_the_machine_s_own_addresses_and_listeners_are_out():
    hole = {"host": "own.example", "address": "127.0.0.0/8"}
    with ScriptedDns() as dns:
        dns.script("own.example", "A", Addresses("127.0.0.1"))
        with NameLookup(configure(dns, exceptions=[hole]), "p") as ask:
            assert ask.ask("own.example", 443).allowed == ("127.0.0.1",)
            listener = ask.ask("own.example", 3128)
            assert listener.verdict.rule is Rule.NO_ALLOWED_ADDRESS
            assert listener.dropped == (("127.0.0.1", "own address"),)


def run_child(*script: str):
    return (sys.executable, "-c", *script)


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        pytest.param("raise SystemExit(7)", "status 7", id="it ends without a word"),
        pytest.param("raise SystemExit('first\\nlast words')", "last words", id="it ends with words"),
        pytest.param("print('{', end='')", "status 0", id="it ends in the middle of a line"),
    ],
)
def test_a_process_that_fails_is_said_and_is_no_verdict(monkeypatch, script, reason):
    monkeypatch.setattr(lookup, "_COMMAND", run_child(f"import sys; sys.stdin.readline(); {script}"))
    with (
        NameLookup(parse_config({}, source="test"), "default") as ask,
        pytest.raises(LookupFailedError, match=f"^the resolver ended without an answer: {reason}$"),
    ):
        ask.ask("a.example", 443)


def test_a_process_that_hangs_is_ended(monkeypatch):
    monkeypatch.setattr(lookup, "_COMMAND", run_child("import sys; [None for _ in sys.stdin]"))
    monkeypatch.setattr(lookup, "_SLACK_SECONDS", -4.99)
    with (
        NameLookup(parse_config({}, source="test"), "default") as ask,
        pytest.raises(LookupFailedError, match=r"^the resolver ended without an answer: status -9$"),
    ):
        ask.ask("a.example", 443)
