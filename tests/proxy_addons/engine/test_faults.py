"""Faults of our own tell where and what kind, and quote nothing."""

from __future__ import annotations

import logging
import sys

from proxy_addons.engine.faults import FaultFormatter

SECRET = "s3cret-0f-the-agent"


def format_fault() -> str:
    """A log line of a fault with a cause; both quote a secret."""
    try:
        try:
            raise KeyError({"authorization": SECRET})
        except KeyError as error:
            raise AssertionError(f"Unexpected event: {SECRET}") from error
    except AssertionError:
        fault = sys.exc_info()
    record = logging.LogRecord("engine", logging.ERROR, __file__, 1, "a layer crashed", (), fault)
    return FaultFormatter("%(name)s: %(message)s").format(record)


def test_the_place_and_the_kinds_are_told() -> None:
    said = format_fault()
    assert said.startswith("engine: a layer crashed\n")
    assert "in format_fault" in said
    assert said.index("KeyError") < said.rindex("AssertionError")


def test_what_the_exception_says_is_not() -> None:
    assert SECRET not in format_fault()
