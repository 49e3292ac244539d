"""What `fetchd up` and `fetchd status` print."""

from collections.abc import Mapping
from pathlib import Path
from shlex import quote

from fetchd.run_state import RunState
from proxy_addons.policy.limits import DEFAULT_PROFILE, MIB, Profile

from .config_cli import render_columns


def render_start(
    state: RunState, state_dir: Path, profile: Profile, *, ca_created: bool, notes: tuple[str, ...]
) -> str:
    """What `up` prints before `ready`. profile: that of the first listener."""
    host, port, _ = state.listeners[0]
    proxy = f"http://{render_address(host, port)}"
    ca = quote(state.ca_path)
    ca_line = f"{state.ca_path}, expires {state.ca_expires[:10]}{' (made now)' if ca_created else ''}"
    rows = [
        *(("gateway", f"http://{render_address(h, p)}", f"profile {n}") for h, p, n in state.listeners),
        ("tools", f"http://{render_address(*state.tools)}", "POST /v1/tools/web_fetch, MCP at /mcp, /docs"),
        ("operator", f"http://{render_address(*state.operator)}", "/healthz /readyz"),
        ("workers", str(state.workers), ""),
        ("config", state.config, ""),
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

    def shown(host: str, port: int) -> tuple[str, str]:
        address = render_address(host, port)
        return f"http://{address}", "accepting" if accepting[address] else "NOT ACCEPTING"

    rows = [
        ("process", str(state.pid), f"since {state.started}", ""),
        *(("gateway", *shown(h, p), f"profile {n}") for h, p, n in state.listeners),
        ("tools", *shown(*state.tools), ""),
        ("operator", *shown(*state.operator), ""),
        ("workers", str(state.workers), "", ""),
        ("config", state.config, "", ""),
        ("state", str(state_dir), "", ""),
        ("CA", state.ca_path, f"expires {state.ca_expires[:10]}", ""),
    ]
    return render_columns(rows)


def render_address(host: str, port: int) -> str:
    """host:port, IPv6 in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _size(number: int) -> str:
    return f"{number // MIB} MiB" if number % MIB == 0 else f"{number} bytes"
