"""`fetchd ca show | export | rotate`: the authority that clients of the gateway have to trust."""

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from certs.errors import CertificateAuthorityError
from fetchd.running.run_state import StateInUseError, own_state_dir
from fetchd.settings import LoadedConfig, find_state_dir, own_authority
from proxy_addons.policy.config import ConfigError

from .ca_text import describe, render_show
from .config_option import BadInputError, config_option, load_or_fail

if TYPE_CHECKING:
    from certs.chain import PublicAuthority

GATEWAY_LOCK: Final = "gateway.lock"
"""Held by a gateway and its workers for their whole lives, longer than `fetchd up` where that was killed."""

AUTHORITY_EVENT: Final = "authority"
"""Of the audit log: which authority clients have to trust was changed by an operator."""

_state_option: Callable[[Callable[..., Any]], Callable[..., Any]] = click.option(
    "--state-dir",
    type=click.Path(path_type=Path, file_okay=False),
    help="State directory; else $FETCHD_STATE, else $XDG_STATE_HOME/fetchd.",
)


@click.group("ca")
def group() -> None:
    """Show, export and replace the authority that clients have to trust."""


@group.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@_state_option
@config_option
def show(as_json: bool, state_dir: Path | None, config_path: Path | None) -> None:
    """Subject, fingerprint and validity of the authority, and where to install it."""
    loaded, state = load_or_fail(config_path), _find_state(state_dir)
    current, coming = _inspect(loaded, state)
    path, own = state / "ca.pem", own_authority(loaded.config)
    if as_json:
        document = {
            "path": str(path),
            "own": own is not None,
            "current": describe(current),
            "next": describe(coming) if coming is not None else None,
            "notes": current.notes,
        }
        click.echo(json.dumps(document))
        return
    key = f"{own.key}, your own" if own is not None else f"{state / 'keys'}, made for this installation"
    click.echo(render_show(current, coming, path, key, current.notes))


@group.command()
@click.option(
    "--out", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Else standard output."
)
@click.option(
    "--format", "form", type=click.Choice(["pem", "der", "p12"]), default="pem", show_default=True,
    help="p12: a trust store for Java, password changeit.",
)  # fmt: skip
@click.option(
    "--clients", type=click.Path(path_type=Path, file_okay=False), metavar="DIR",
    help="Write all that clients need into DIR: ca.pem, ca.p12, wgetrc.",
)  # fmt: skip
@click.option(
    "--only", type=click.Choice(["current", "next"]), help="Of a prepared rotation; else both certificates."
)
@_state_option
@config_option
def export(
    out: Path | None,
    form: str,
    clients: Path | None,
    only: str | None,
    state_dir: Path | None,
    config_path: Path | None,
) -> None:
    """Write what clients have to trust: the authority's certificate, no key."""
    from certs.export import ExportForm, render_export

    if clients is not None and (out is not None or form != "pem"):
        raise BadInputError("--clients writes files of its own; leave out --out and --format")
    current, coming = _inspect(load_or_fail(config_path), _find_state(state_dir))
    if only == "next" and coming is None:
        raise BadInputError("no rotation is prepared; prepare it with: fetchd ca rotate --prepare")
    chosen = [one for name, one in (("current", current), ("next", coming)) if only in (None, name)]
    try:
        content = render_export([one.root for one in chosen if one is not None], ExportForm(form))
    except CertificateAuthorityError as error:
        raise BadInputError(str(error)) from None
    if clients is not None:
        _write_for_clients(clients.absolute(), content)
    elif out is not None:
        _write(out, content)
    elif form != "pem" and sys.stdout.isatty():
        raise BadInputError(f"{form} is no text for a terminal; add --out FILE")
    else:
        click.echo(content, nl=False)


@group.command()
@click.option(
    "--prepare", is_flag=True, help="Make the next authority and put it into ca.pem beside the current one."
)
@click.option("--cancel", is_flag=True, help="Destroy the prepared one.")
@click.option(
    "--now", "at_once", is_flag=True, help="Switch though clients do not have the next certificate."
)
@_state_option
@config_option
def rotate(
    prepare: bool, cancel: bool, at_once: bool, state_dir: Path | None, config_path: Path | None
) -> None:
    """Replace the authority, in two steps.

    First --prepare, while the gateway runs: ca.pem then holds the current and the next certificate, and clients
    that get it trust both. Once all have it: fetchd stop, fetchd ca rotate, fetchd up. The old key is destroyed.
    """
    from certs.rotation import cancel_rotation, prepare_rotation, switch_authority

    if prepare + cancel + at_once > 1:
        raise BadInputError("write one of --prepare, --cancel and --now")
    loaded, state = load_or_fail(config_path), _find_state(state_dir)
    if own_authority(loaded.config) is not None:
        raise BadInputError(
            f"{loaded.source} names an authority of your own (tls.ca_certificate); replace its files and start again"
        )
    keys, public = state / "keys", state / "ca.pem"
    try:
        if prepare:
            prepared = prepare_rotation(keys, public)
            if prepared.created:
                _note(state, "the next authority was made", prepared.next)
            state_of_it = "made" if prepared.created else "was made before"
            click.echo(
                f"the next authority {state_of_it}: {prepared.next.fingerprint_sha256}\n"
                f"{public} holds both certificates; give it to every client, then:"
                " fetchd stop, fetchd ca rotate, fetchd up"
            )
        elif cancel:
            cancelled = cancel_rotation(keys, public)
            if cancelled:
                _note(state, "the prepared authority was destroyed")
            click.echo("the prepared authority is destroyed" if cancelled else "no rotation was prepared")
        else:
            with _no_gateway(state):
                new = switch_authority(keys, public, unprepared=at_once)
                _note(state, "the authority was replaced, the old key destroyed", new)
            click.echo(
                f"new authority: {new.fingerprint_sha256}\nthe old key is destroyed; {public} holds the new one"
            )
            if at_once:
                click.echo(
                    "clients that do not have it yet trust nothing of the gateway's: give it to every client"
                )
    except CertificateAuthorityError as error:
        raise BadInputError(str(error)) from None


def _note(state: Path, what: str, authority: "PublicAuthority | None" = None) -> None:
    """Have the audit log say it. What was done is done: a log that cannot be written is told to the operator."""
    from fetchd.audit_notes import note_event
    from proxy_addons.audit import AuditError

    facts = {"fingerprint_sha256": authority.fingerprint_sha256} if authority is not None else {}
    try:
        note_event(state, AUTHORITY_EVENT, what, facts)
    except (AuditError, OSError) as error:
        click.echo(f"Warning: {what}, and the audit log could not say so: {error}", err=True)


@contextmanager
def _no_gateway(state: Path) -> Iterator[None]:
    """Keep every gateway of this state directory from running meanwhile; raises BadInputError when one does."""
    from certs.files import hold_lock

    if not (state / "keys").is_dir():  # nothing is to be made where there is nothing
        yield
        return
    try:
        with own_state_dir(state), hold_lock(state / GATEWAY_LOCK, timeout=0.0):
            yield
    except StateInUseError as error:
        raise BadInputError(f"a gateway runs on {state} ({error}); stop it first: fetchd stop") from None
    except CertificateAuthorityError as error:
        if GATEWAY_LOCK not in str(error):
            raise
        raise BadInputError(f"a gateway on {state} has not ended yet; wait for it, then repeat") from None


def _inspect(loaded: LoadedConfig, state: Path) -> "tuple[PublicAuthority, PublicAuthority | None]":
    from certs.authority import inspect_authority

    try:
        return inspect_authority(state / "keys", state / "ca.pem", own_authority(loaded.config))
    except FileNotFoundError:
        raise BadInputError(f"no authority in {state} yet; fetchd up makes it") from None
    except CertificateAuthorityError as error:
        raise BadInputError(str(error)) from None


def _write(path: Path, content: bytes) -> None:
    from certs.files import write_file

    try:
        write_file(path, content, 0o644)
    except OSError as error:
        raise BadInputError(f"{path} cannot be written: {error.strerror}") from None


def _write_for_clients(folder: Path, content: bytes) -> None:
    from fetchd.running.client_files import write_client_files

    try:
        folder.mkdir(parents=True, exist_ok=True)
        _write(folder / "ca.pem", content)
        write_client_files(folder / "ca.pem")
    except OSError as error:
        raise BadInputError(f"{error.filename or folder} cannot be written: {error.strerror}") from None


def _find_state(option: Path | None) -> Path:
    try:
        return find_state_dir(option, os.environ)
    except ConfigError as error:
        raise BadInputError(str(error)) from None
