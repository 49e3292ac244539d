"""What `fetchd up` and `fetchd status` print."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from shlex import quote
from typing import Final

from fetchd.running.gateway_process import reachable_host
from fetchd.running.run_state import RunState
from proxy_addons.policy.limits import DEFAULT_PROFILE, MIB, Profile

from .config_cli import render_columns

ONLY_READ: Final = "the pages that were read here, not the web; for that: docs/search.md"
EVERYWHERE: Final = ("0.0.0.0", "::")  # noqa: S104 (compared, not bound)


def render_start(
    state: RunState,
    state_dir: Path,
    profile: Profile,
    *,
    ca_created: bool,
    notes: tuple[str, ...],
    needs_token: bool = False,
    search: Sequence[str] = (),
) -> str:
    """What `up` prints before `ready`. profile: that of the first listener. needs_token: of its clients. search:
    who answers web_search, in turn."""
    host, port, _ = state.listeners[0]
    secure = state.tls or (False,) * len(state.listeners)
    owners = state.owners or ("",) * len(state.listeners)
    name = "NAME:TOKEN@" if needs_token else ""
    proxy = f"{_scheme(secure[0])}://{name}{render_address(reachable_host(host), port)}"
    ca = quote(state.ca_path)
    ca_line = f"{state.ca_path}, expires {state.ca_expires[:10]}{' (made now)' if ca_created else ''}"
    gateways = [
        ("gateway", render_url(h, p, tls), f"{f'agent {owner}' if owner else f'profile {n}'}{_reach(h)}")
        for (h, p, n), tls, owner in zip(state.listeners, secure, owners, strict=True)
    ]
    tools = f"POST /v1/tools/web_fetch, MCP at /mcp, /docs{_reach(state.tools[0])}"
    rows = [
        *gateways,
        ("tools", render_url(*state.tools, state.tools_tls), tools),
        ("operator", render_url(*state.operator, state.operator_tls), "sign in with: fetchd operator link"),
        *([("search", ", ".join(search), ONLY_READ if list(search) == ["local"] else "")] if search else []),
        ("workers", str(state.workers), ""),
        ("config", state.config, ""),
        *([("agents", str(len(state.agents)), "fetchd agent list")] if state.agents else []),
        ("state", str(state_dir), "audit/ keys/ ca.pem"),
        ("CA", ca_line, ""),
        *(("note", note, "") for note in notes),
    ]
    parts = [
        render_columns(rows),
        "point an agent at it (all of it for every client: fetchd env):",
        f"  export HTTPS_PROXY={proxy} HTTP_PROXY={proxy} http_proxy={proxy}",
        "  export NO_PROXY=localhost,127.0.0.1,::1",
        f"  export SSL_CERT_FILE={ca} CURL_CA_BUNDLE={ca}",
        f"  export REQUESTS_CA_BUNDLE={ca} NODE_EXTRA_CA_CERTS={ca}",
        describe_profile(profile),
    ]
    return "\n".join(parts)


def _reach(host: str) -> str:
    """What 0.0.0.0 means to whoever reads it."""
    return ", at every address of this machine" if host in EVERYWHERE else ""


def describe_profile(profile: Profile) -> str:
    """One line on what a profile lets through."""
    logins = "logins to named hosts" if profile.credential_hosts else "no logins"
    line = (
        f"{profile.name} profile: {', '.join(sorted(profile.schemes, reverse=True))}, "
        f"{'/'.join(sorted(profile.methods))}, {logins}, "
        f"{_size(profile.byte_cap)} and {profile.total_timeout:g} s an answer"
    )
    if profile.methods <= DEFAULT_PROFILE.methods:
        line += "; for git, pip, npm use another profile"
    return line


def render_status(state: RunState, state_dir: Path, accepting: Mapping[str, bool]) -> str:
    """What `status` prints. accepting: for each address that is listened on, whether it answers."""

    def shown(host: str, port: int, tls: bool = False) -> tuple[str, str]:
        answers = accepting[render_address(host, port)]
        return render_url(host, port, tls), "accepting" if answers else "NOT ACCEPTING"

    secure = state.tls or (False,) * len(state.listeners)
    owners = state.owners or ("",) * len(state.listeners)
    reloaded = f"rules of {state.reloaded}" if state.reloaded is not None else "as it was at the start"
    rows = [
        ("process", str(state.pid), f"since {state.started}", ""),
        *(
            ("gateway", *shown(h, p, tls), f"agent {owner}" if owner else f"profile {n}")
            for (h, p, n), tls, owner in zip(state.listeners, secure, owners, strict=True)
        ),
        ("tools", *shown(*state.tools, state.tools_tls), ""),
        ("operator", *shown(*state.operator, state.operator_tls), ""),
        ("workers", str(state.workers), "", ""),
        ("config", state.config, reloaded, ""),
        *(("profile", name, f"version {version}", "") for name, version in state.profiles.items()),
        ("agents", str(len(state.agents)), "", ""),
        ("state", str(state_dir), "", ""),
        ("CA", state.ca_path, f"expires {state.ca_expires[:10]}", ""),
    ]
    return render_columns(rows)


def render_changes(changes: Sequence[Mapping[str, str]]) -> str:
    """What `reload` prints: a row for each difference."""
    if not changes:
        return "reloaded; nothing has changed"
    rows = [(one["what"], one["name"], one["how"], one["detail"]) for one in changes]
    return f"reloaded\n{render_columns(rows)}"


def render_url(host: str, port: int, tls: bool = False) -> str:
    """Where it listens, as a URL."""
    return f"{_scheme(tls)}://{render_address(host, port)}"


def _scheme(tls: bool) -> str:
    return "https" if tls else "http"


def render_address(host: str, port: int) -> str:
    """host:port, IPv6 in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _size(number: int) -> str:
    return f"{number // MIB} MiB" if number % MIB == 0 else f"{number} bytes"
