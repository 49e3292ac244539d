"""`fetchd audit suggest`: the smallest profile that would have allowed what an agent did, ready to paste.

The run of a profile that only reports (`mode = "monitor"`) shows what an agent needs; any other run shows what it
used of what it was allowed.
"""

import re
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn

from fetchd.explaining.learning import Run, Span, Tell, find_base, read_run
from fetchd.explaining.public_suffixes import registrable_domain
from proxy_addons.audit import AuditKeyError, load_public_key, verify_directory
from proxy_addons.audit.keys import PUBLIC_FILE
from proxy_addons.policy.admission import decide_target
from proxy_addons.policy.config import Config, parse_config
from proxy_addons.policy.config_forms import PROFILE_NAME
from proxy_addons.policy.config_schema import BUILT_IN, RESERVED
from proxy_addons.policy.limits import Profile
from proxy_addons.policy.suggestions import SuggestionError, suggest_profile
from proxy_addons.policy.targets import TargetParseError, parse_target

from .audit_cli import find_log
from .config_option import (
    BadInputError,
    config_option,
    find_state_or_fail,
    load_or_fail,
    select_profile,
    state_dir_option,
)
from .safe_text import escape_text
from .span_option import since_option, until_option
from .suggest_text import render_suggestion, render_suggestion_json

NOTHING = 1
"""Exit status when the log has nothing of that agent."""
_SHOWN_FAULTS = 5
UNVERIFIED = "it was not verified (--no-verify)"


@click.command()
@click.option("--agent", required=True, help="Whose run, as `audit tail` calls it.")
@click.option("--profile", "base_name", metavar="NAME",
              help="The profile to tighten; else the one that judged the run.")  # fmt: skip
@click.option("--profile-name", "name", metavar="NAME",
              help="What the suggested profile is called; else the agent's name and -learned.")  # fmt: skip
@click.option("--generalize", is_flag=True,
              help="One pattern for three and more names below a domain, never wider than one owner.")  # fmt: skip
@since_option
@until_option
@click.option(
    "--no-verify",
    is_flag=True,
    help="Do not look whether the log is whole, which takes longest of a long one.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@state_dir_option
@config_option
@click.pass_context
def suggest(
    context: click.Context,
    agent: str,
    base_name: str | None,
    name: str | None,
    generalize: bool,
    since: str,
    until: str,
    no_verify: bool,
    as_json: bool,
    state_dir: Path | None,
    config_path: Path | None,
) -> None:
    """Print the smallest profile that would have allowed what an agent did.

    Exit status: 0 printed, 1 the log has nothing of that agent, 2 no profile can be suggested. It only reads.
    """
    state = find_state_or_fail(state_dir)
    loaded = load_or_fail(config_path, state_dir)
    directory = find_log(state)
    try:
        with _showing("reading") as tell:
            run = read_run(directory, agent, Span(since, until), tell)
        if not run.lines:
            click.echo(escape_text(f"the log in {directory} has nothing of agent {agent} then"), err=True)
            context.exit(NOTHING)
        if no_verify:
            faults = [UNVERIFIED]
        else:
            with _waiting("verifying the log"):
                faults = _find_faults(state, directory)
    except OSError as error:
        raise BadInputError(
            escape_text(f"cannot read {error.filename or directory}: {error.strerror}")
        ) from None
    base = _find_base(loaded.config, run, agent, base_name, lambda one: select_profile(loaded, one))
    chosen = _choose_name(loaded.config, agent, name)
    try:
        suggestion = suggest_profile(run.usage, base, chosen, registrable_domain if generalize else None)
    except SuggestionError as error:
        raise BadInputError(str(error)) from None
    if chosen in loaded.config.profiles:
        known = f"profile {chosen} is there already: these lines take the place of its table"
        suggestion = replace(suggestion, cautions=(known, *suggestion.cautions))
    text = render_suggestion(suggestion, run, agent, loaded.source, faults)
    _prove(text, run, suggestion.profile, loaded.source)
    for fault in faults if not no_verify else ():
        click.echo(escape_text(f"warning: the audit log is not whole: {fault}"), err=True)
    click.echo(render_suggestion_json(suggestion, run, agent, faults) if as_json else text)


def _find_base(
    config: Config, run: Run, agent: str, name: str | None, select: Callable[[str], Profile]
) -> Profile:
    if name is not None:
        return select(name)
    base = find_base(config, run, agent)
    if base is None:
        judged = f"profile {run.profile}, which is not in the configuration" if run.profile else "no profile"
        raise BadInputError(escape_text(f"the log names {judged}; name the one to tighten: --profile NAME"))
    return base


def _choose_name(config: Config, agent: str, name: str | None) -> str:
    if name is not None:
        if PROFILE_NAME.fullmatch(name) is None or name in (BUILT_IN, RESERVED):
            raise BadInputError(
                "name a profile by a small letter, then small letters, digits, _ and -, 32 at most;"
                f" {BUILT_IN} and {RESERVED} are taken"
            )
        return name
    stem = re.sub(r"[^a-z0-9_-]+", "-", agent.lower()).lstrip("-_0123456789")[:20] or "agent"
    names = [
        f"{stem}-learned",
        *(f"{stem}-learned-{number}" for number in range(2, len(config.profiles) + 3)),
    ]
    return next(one for one in names if one not in config.profiles)


def _find_faults(state: Path, directory: Path) -> list[str]:
    """What is wrong with the log, in a line each."""
    try:
        report = verify_directory(directory, [load_public_key(state / "keys" / PUBLIC_FILE)])
    except AuditKeyError as error:
        return [f"it cannot be verified: {error}"]
    found = [str(finding) for chain in report.chains for finding in chain.findings]
    more = sum(chain.finding_count for chain in report.chains) - _SHOWN_FAULTS
    return [*found[:_SHOWN_FAULTS], *([f"and {more:,} more: fetchd audit verify"] if more > 0 else [])]


def _prove(text: str, run: Run, profile: Profile, source: str) -> None:
    """What is printed is a configuration, and allows every place of the run: else it is a fault of ours."""
    read = parse_config(tomllib.loads(text), source=source).profiles[profile.name]
    if read != profile:
        raise BadInputError("the suggested profile cannot be written down; this is a fault of fetchd's own")
    method, scheme = min(profile.methods), max(profile.schemes)
    for host, port in run.usage.places:
        try:
            verdict = decide_target(parse_target(f"{scheme}://{host}:{port}/"), method, profile)
        except TargetParseError:
            continue
        if verdict.refused:
            click.echo(escape_text(f"warning: {host}:{port} would be refused: {verdict.message}"), err=True)


@contextmanager
def _showing(what: str) -> Iterator[Tell | None]:
    console = Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(what)
        yield lambda done, total: progress.update(task, completed=done, total=total)


@contextmanager
def _waiting(what: str) -> Iterator[None]:
    console = Console(stderr=True)
    if not console.is_terminal:
        yield
        return
    with console.status(what):
        yield
