"""Commands that change what runs: asked of the operator's listener, with a secret of the state directory."""

import http.client
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from fetchd.run_state import CONTROL_FILE, RunState, SecretError, read_secret

from .operator import RELOAD_PATH

ANSWER_SECONDS: Final = 120.0
"""A reload under way comes first, and each is bounded by what the gateway's workers take."""
MAX_ANSWER_BYTES: Final = 16 << 20
"""Ten thousand agents added take about 1 MiB."""

type Changes = Sequence[Mapping[str, str]]


class ControlError(Exception):
    """It was not done; the text is one line that says why."""


def order_reload(state: RunState, state_dir: Path) -> Changes:
    """Have the running installation read its configuration again; what has changed. Raises ControlError."""
    try:
        secret = read_secret(state_dir, CONTROL_FILE)
    except (SecretError, OSError) as error:
        raise ControlError(f"the control secret cannot be read: {error}") from None
    host, port = state.operator
    connection = http.client.HTTPConnection(host, port, timeout=ANSWER_SECONDS)
    try:
        connection.request("POST", RELOAD_PATH, headers={"Authorization": f"Bearer {secret}"})
        answer = connection.getresponse()
        document = json.loads(answer.read(MAX_ANSWER_BYTES))
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise ControlError(f"the operator's listener did not answer: {error}") from None
    finally:
        connection.close()
    return _read(answer.status, document)


def _read(status: int, document: Any) -> Changes:
    if not isinstance(document, dict):
        raise ControlError("the operator's listener answered something else")
    if status != 200:
        raise ControlError(str(document.get("detail", f"HTTP {status}")))
    changes: Changes = document.get("changes", [])
    return changes
