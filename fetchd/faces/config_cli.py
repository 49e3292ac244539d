"""`fetchd config check`, `profile list`, `profile show`: what a configuration says in effect."""

import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

import click

from proxy_addons.policy.config import Config, render_profile
from proxy_addons.policy.config_forms import render_toml
from proxy_addons.policy.limits import MAX_CHARS, MAX_REDIRECTS, Profile

from .config_option import check_files_or_fail, config_option, load_or_fail, select_profile

UNCHANGEABLE = (
    f"{MAX_REDIRECTS} redirects, none from https to http",
    "IP addresses as hosts are refused",
    "30 address ranges are blocked",
    f"{MAX_CHARS} characters of text at the most",
)
"""What holds in every profile, as `profile show` says it."""


def render_columns(rows: Iterable[Sequence[str]]) -> str:
    """Left-aligned columns, two spaces apart, no trailing space."""
    table = [tuple(row) for row in rows]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in table
    )


def render_config(config: Config) -> str:
    """Listeners, settings and profiles as two tables."""
    listening = [
        ("listens on", "profile", "for"),
        *((str(one.endpoint), one.profile, "gateway") for one in config.gateway.listeners),
        (str(config.daemon.endpoint), config.daemon.profile, "tools"),
        (str(config.operator.endpoint), "", "operator"),
    ]
    settings = [
        ("workers", str(config.gateway.workers or "one for each core")),
        ("nameservers", ", ".join(map(str, config.dns.nameservers)) or "those of the system"),
        ("CA", config.tls.ca_certificate or "made for this installation"),
        *([("agents", ", ".join([*config.agents][:20]))] if config.agents else []),
        ("extra CAs", ", ".join(config.tls.extra_ca) or "none"),
        ("search", ", then ".join(config.search.chain)),
    ]
    parts = (render_columns(listening), render_columns(settings), render_profiles(config.profiles.values()))
    return "\n\n".join(parts)


def render_profiles(profiles: Iterable[Profile]) -> str:
    """A row a profile: what most distinguishes them."""
    header = ("profile", "version", "schemes", "methods", "hosts", "bytes", "seconds")
    return render_columns([header, *map(_render_row, profiles)])


def _render_row(profile: Profile) -> tuple[str, ...]:
    allowed, denied = profile.hosts.allow, profile.hosts.deny
    hosts = str(allowed[0]) if len(allowed) == 1 else f"{len(allowed)} patterns"
    return (
        profile.name,
        profile.version,
        ",".join(sorted(profile.schemes)),
        ",".join(sorted(profile.methods)),
        f"{hosts}, {len(denied)} denied" if denied else hosts,
        str(profile.byte_cap),
        f"{profile.total_timeout:g}",
    )


@click.group(name="config")
def config_group() -> None:
    """Read and check the configuration."""


@config_group.command(name="check")
@click.argument("file", required=False, type=click.Path(path_type=Path))
@config_option
def check_config(file: Path | None, config_path: Path | None) -> None:
    """Check FILE, else the configuration that would be used, and print what it says.

    Exit status: 0 valid, 2 not.
    """
    from fetchd.search.providers.opening import find_provider_faults  # here: an HTTP client is slow to import
    from fetchd.web_access.links import find_vendor_faults

    loaded = load_or_fail(file if file is not None else config_path)
    search = loaded.config.search
    faults = [
        *find_provider_faults(search, os.environ),
        *find_vendor_faults(loaded.config.asking.vendors, [name.value for name in search.chain], os.environ),
    ]
    notes = (
        *check_files_or_fail(loaded),
        *(f"{key}: {what}; until then its searches fail with: request failed" for key, what in faults),
    )
    click.echo(f"{loaded.source}: valid\n\n{render_config(loaded.config)}")
    for note in notes:
        click.echo(f"\nnote: {note}")


@click.group(name="profile")
def profile_group() -> None:
    """Show the profiles of the configuration."""


@profile_group.command(name="list")
@config_option
def list_profiles(config_path: Path | None) -> None:
    """One row for each profile."""
    click.echo(render_profiles(load_or_fail(config_path).config.profiles.values()))


@profile_group.command(name="show")
@click.argument("name")
@click.option("--json", "as_json", is_flag=True, help="As one JSON object.")
@config_option
def show_profile(name: str, as_json: bool, config_path: Path | None) -> None:
    """Every limit of profile NAME as it is in effect, in the form of a configuration file."""
    loaded = load_or_fail(config_path)
    profile = select_profile(loaded, name)
    limits = render_profile(profile)
    if as_json:
        click.echo(json.dumps({"name": profile.name, "version": profile.version, **limits}, indent=2))
        return
    lines = [f"# version {profile.version}, from {loaded.source}", f"[profiles.{profile.name}]"]
    lines += [f"{key} = {render_toml(value)}" for key, value in limits.items()]
    lines += ["", "# in every profile:", *(f"# {text}" for text in UNCHANGEABLE)]
    click.echo("\n".join(lines))
