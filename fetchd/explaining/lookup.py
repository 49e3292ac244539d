"""Asks the gateway's resolver, in a process of its own, which addresses a name has and which may be dialled.

The daemon speaks no DNS; `python -m proxy_addons.resolve` is the gateway's code with nothing listening, and
describes the wire.
"""

import json
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

import fetchd
from fetchd.child_environment import child_environment
from proxy_addons.policy.config import Config
from proxy_addons.policy.config_document import render_document
from proxy_addons.policy.verdicts import ALLOWED, Failure, Rule, Verdict, refuse

_COMMAND = (sys.executable, "-P", "-m", "proxy_addons.resolve")
"""-P: the working directory is no place to import from."""

_SLACK_SECONDS = 20.0
"""Beyond the profile's look-up limit, for an interpreter to start on a busy machine."""

MAX_ANSWER_BYTES = 64 << 10
"""128 addresses with their ranges take about 16 KiB."""


class LookupFailedError(Exception):
    """The look-up could not be made; the text says why and is no judgement of the name."""


@dataclass(frozen=True, slots=True)
class NameFinding:
    """What a name resolves to. dropped: pairs of address and the range that forbids it."""

    verdict: Verdict
    allowed: tuple[str, ...]
    dropped: tuple[tuple[str, str], ...]


class NameLookup:
    """One resolver process for any number of names, started with the first; leaving the context ends it."""

    def __init__(self, config: Config, profile: str) -> None:
        self._greeting = {"config": render_document(config), "profile": profile}
        self._limit = config.profiles[profile].lookup_timeout + _SLACK_SECONDS
        self._stack = ExitStack()
        self._child: _Child | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def ask(self, host: str, port: int) -> NameFinding:
        """The judged addresses of `host` for a connection to `port`. Raises LookupFailedError."""
        request = _render_line({"host": host, "port": port})
        if self._child is None:
            self._child = self._start()
            request = _render_line(self._greeting) + request
        child = self._child
        # The process keeps its own limits. Should it hang all the same, its end ends the wait for its answer.
        watchdog = threading.Timer(self._limit, child.process.kill)
        watchdog.start()
        try:
            child.requests.write(request)
            child.requests.flush()
            answer = child.answers.readline(MAX_ANSWER_BYTES)
        except BrokenPipeError:
            answer = b""
        finally:
            watchdog.cancel()
        if not answer.endswith(b"\n"):
            raise LookupFailedError(f"the resolver ended without an answer: {child.explain_end()}")
        return _read_finding(json.loads(answer), host)

    def _start(self) -> "_Child":
        packages = str(Path(fetchd.__file__).resolve().parents[1])
        complaints = tempfile.TemporaryFile()  # noqa: SIM115 - the next line hands it to the stack
        self._stack.enter_context(complaints)
        process = subprocess.Popen(
            _COMMAND,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=complaints,
            env=child_environment(PYTHONPATH=packages),
        )
        self._stack.callback(process.communicate)
        self._stack.callback(process.kill)
        if process.stdin is None or process.stdout is None:
            raise LookupFailedError("the resolver has no pipes")
        return _Child(process, process.stdin, process.stdout, complaints)


@dataclass(frozen=True, slots=True)
class _Child:
    """A resolver process and its three pipes; the third is a file, so that it never blocks."""

    process: subprocess.Popen[bytes]
    requests: IO[bytes]
    answers: IO[bytes]
    complaints: IO[bytes]

    def explain_end(self) -> str:
        """End it, and the last line it complained in."""
        self.process.kill()
        status = self.process.wait()
        self.complaints.seek(0)
        text = self.complaints.read(MAX_ANSWER_BYTES).decode("utf-8", "replace")
        return text.strip().rpartition("\n")[2] or f"status {status}"


def _render_line(document: Mapping[str, object]) -> bytes:
    return json.dumps(document).encode("ascii") + b"\n"


def _read_finding(answer: Mapping[str, Any], host: str) -> NameFinding:
    verdict = ALLOWED
    if answer["rule"] is not None:
        verdict = refuse(
            Rule(answer["rule"]), answer["message"], failure=Failure(answer["failure"]), subject=host
        )
    return NameFinding(
        verdict, tuple(answer["allowed"]), tuple((one["address"], one["range"]) for one in answer["dropped"])
    )
