"""`fetchd check`: what policy says of a URL, and the rule that hit. Nothing is contacted; --resolve asks DNS.

A refusal before DNS asks no DNS (SPEC 1.1). With `--json -` each line of standard input, a JSON string, gives
one line of output, flushed at once, so that another program can keep the command running and talk to it; these lines
have the verdict alone, and nothing of how it came about.
"""

import json
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import click

from fetchd.explaining.lookup import LookupFailedError, NameFinding, NameLookup
from proxy_addons.policy.admission import decide_url
from proxy_addons.policy.limits import Profile
from proxy_addons.policy.targets import Target
from proxy_addons.policy.verdicts import Rule, Verdict, refuse

from .check_text import explain, render_explanation, render_explanation_json
from .config_option import (
    BadInputError,
    config_option,
    load_or_fail,
    select_caller,
    select_profile,
    state_dir_option,
)

MAX_LINE_BYTES = 1 << 20
"""Of a line on standard input. Request heads end at 64 KiB; JSON escapes make up to six bytes of one."""

METHOD = "GET"


@dataclass(frozen=True, slots=True)
class Finding:
    """A verdict with what it was found on. url: as given, None where there was none."""

    url: str | None
    verdict: Verdict
    target: Target | None = None
    name: NameFinding | None = None

    @property
    def document(self) -> dict[str, object]:
        """The keys of a name's addresses only where DNS was asked, that of a rule left unenforced only where there
        is one."""
        verdict = self.verdict
        document: dict[str, object] = {
            "url": self.url,
            "verdict": verdict.outcome,
            "rule": verdict.rule,
            "message": verdict.message,
            "failure": verdict.failure,
            "host": (self.target.host or None) if self.target is not None else None,
            "port": self.target.port if self.target is not None else None,
        }
        if verdict.would_refuse is not None:
            document["would_refuse"] = verdict.would_refuse
        if self.name is not None:
            document["addresses"] = self.name.allowed
            document["dropped"] = [{"address": one, "range": row} for one, row in self.name.dropped]
        return document

    def render_json(self) -> str:
        """One line of ASCII."""
        return json.dumps(self.document)


def decide_finding(
    url: str, profile: Profile, lookup: NameLookup | None = None, method: str = METHOD
) -> Finding:
    """Judge one URL; with `lookup`, one that is admitted is looked up too. Raises LookupFailedError."""
    admission = decide_url(url, method, profile)
    target = admission.target
    if lookup is None or admission.verdict.refused or target is None or target.port is None:
        return Finding(url, admission.verdict, target)
    name = lookup.ask(target.dns_name, target.port)
    verdict = name.verdict._replace(would_refuse=admission.verdict.would_refuse)
    return Finding(url, verdict, target, name)


def decide_lines(
    lines: BinaryIO, profile: Profile, lookup: NameLookup | None = None, method: str = METHOD
) -> Iterator[Finding]:
    """A finding for each line, whatever is in it: the caller pairs them by counting."""
    for line in read_lines(lines):
        url = _parse_json_string(line)
        if url is None:
            yield Finding(None, refuse(Rule.PARSE, "not a JSON string"))
            continue
        try:
            yield decide_finding(url, profile, lookup, method)
        except LookupFailedError as error:
            yield Finding(url, refuse(Rule.INTERNAL, str(error)))


def read_lines(stream: BinaryIO) -> Iterator[bytes | None]:
    """Lines without holding more than MAX_LINE_BYTES; None for one that is longer."""
    while line := stream.readline(MAX_LINE_BYTES):
        whole = len(line) < MAX_LINE_BYTES or line.endswith(b"\n")
        yield line if whole else None
        while not whole:
            rest = stream.readline(MAX_LINE_BYTES)
            whole = not rest or rest.endswith(b"\n")


def _parse_json_string(line: bytes | None) -> str | None:
    try:
        # Decoded here: json.loads would guess at UTF-16 and take it.
        found = json.loads(line.decode("utf-8")) if line is not None else None
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, str) else None


@click.command()
@click.argument("url")
@click.option("--profile", "profile_name", metavar="NAME", help="Judge under this profile.")
@click.option("--agent", metavar="NAME", help="Judge as this agent's.")
@click.option(
    "--method", default=METHOD, show_default=True, metavar="METHOD", help="The method of the request."
)
@click.option("--resolve", is_flag=True, help="Also look the name up and judge its addresses.")
@click.option(
    "--json", "as_json", is_flag=True, help="One JSON object; with - as URL, one for each line of input."
)
@state_dir_option
@config_option
@click.pass_context
def check(
    context: click.Context,
    url: str,
    profile_name: str | None,
    agent: str | None,
    method: str,
    resolve: bool,
    as_json: bool,
    state_dir: Path | None,
    config_path: Path | None,
) -> None:
    """Say whether URL would be let through, each check, and what would allow it. Nothing is contacted.

    With --json and - in place of URL, standard input has a JSON string on each line.
    Exit status: 0 allowed, 1 refused, 2 bad arguments; 0 for lines of input.
    """
    loaded = load_or_fail(config_path, state_dir)
    if agent is not None:
        profile = select_caller(loaded, agent, profile_name).profile
    else:
        profile = select_profile(loaded, profile_name)
    if url == "-" and not as_json:
        raise BadInputError("- reads JSON strings from standard input; write --json -")
    with ExitStack() as stack:
        lookup = stack.enter_context(NameLookup(loaded.config, profile.name)) if resolve else None
        if url == "-":
            for finding in decide_lines(sys.stdin.buffer, profile, lookup, method):
                click.echo(finding.render_json())
            return
        try:
            finding = decide_finding(url, profile, lookup, method)
        except LookupFailedError as error:
            raise BadInputError(str(error)) from None
    found = explain(finding.verdict, finding.target, finding.name, method, profile, loaded)
    click.echo(
        render_explanation_json(found, finding.document) if as_json else render_explanation(found, loaded)
    )
    context.exit(1 if finding.verdict.refused else 0)


if __name__ == "__main__":
    check()
