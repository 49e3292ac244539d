"""Commands that change what runs: asked of the operator's listener, with a secret of the state directory."""

import http.client
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from fetchd.running.gateway_process import make_client_context, reachable_host
from fetchd.running.run_state import CONTROL_FILE, RunState, SecretError, read_secret

from .operator_paths import LINK_PATH, RELOAD_PATH

ANSWER_SECONDS: Final = 120.0
"""A reload under way comes first, and each is bounded by what the gateway's workers take."""
MAX_ANSWER_BYTES: Final = 16 << 20
"""Ten thousand agents added take about 1 MiB."""

type Changes = Sequence[Mapping[str, str]]


class ControlError(Exception):
    """It was not done; the text is one line that says why."""


def order_reload(state: RunState, state_dir: Path) -> Changes:
    """Have the running installation read its configuration again; what has changed. Raises ControlError."""
    secret = _read_secret(state_dir)
    changes: Changes = _order(state, RELOAD_PATH, secret).get("changes", [])
    return changes


def order_link(state: RunState, state_dir: Path) -> str:
    """A link that signs in once, made by the running installation. Raises ControlError."""
    document = _order(state, LINK_PATH, _read_secret(state_dir))
    return f"{render_origin(state)}{document.get('path', '')}"


def render_origin(state: RunState) -> str:
    """Where a browser of this machine finds the operator's page."""
    host, port = state.operator
    host = reachable_host(host)
    shown = f"[{host}]" if ":" in host else host
    return f"{'https' if state.operator_tls else 'http'}://{shown}:{port}"


def _read_secret(state_dir: Path) -> str:
    try:
        return read_secret(state_dir, CONTROL_FILE)
    except (SecretError, OSError) as error:
        raise ControlError(f"the control secret cannot be read: {error}") from None


def _order(state: RunState, path: str, secret: str) -> Mapping[str, Any]:
    connection: http.client.HTTPConnection | None = None
    try:
        connection = _connect(state)
        connection.request("POST", path, headers={"Authorization": f"Bearer {secret}"})
        answer = connection.getresponse()
        document = json.loads(answer.read(MAX_ANSWER_BYTES))
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise ControlError(f"the operator's listener did not answer: {error}") from None
    finally:
        if connection is not None:
            connection.close()
    if not isinstance(document, dict):
        raise ControlError("the operator's listener answered something else")
    if answer.status != 200:
        raise ControlError(str(document.get("detail", f"HTTP {answer.status}")))
    return document


def _connect(state: RunState) -> http.client.HTTPConnection:
    host, port = state.operator
    host = reachable_host(host)
    if not state.operator_tls:
        return http.client.HTTPConnection(host, port, timeout=ANSWER_SECONDS)
    context = make_client_context(state.ca_path, state.listener_certificate)
    return http.client.HTTPSConnection(host, port, timeout=ANSWER_SECONDS, context=context)
