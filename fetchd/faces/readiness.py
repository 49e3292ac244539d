"""Is the running installation ready: what `fetchd status --ready` asks for container and service managers."""

import http.client
import json
import ssl
from typing import Any, Final

from fetchd.running.gateway_process import reachable_host
from fetchd.running.run_state import RunState

READY_PATH: Final = "/readyz"
ANSWER_SECONDS: Final = 10.0
MAX_ANSWER_BYTES: Final = 1 << 16


def ask_readiness(state: RunState) -> tuple[bool, str]:
    """(ready, what to print). Whoever does not answer is not ready."""
    host, port = state.operator
    connection = _connect(reachable_host(host), port, tls=state.operator_tls)
    try:
        connection.request("GET", READY_PATH)
        answer = connection.getresponse()
        said = answer.read(MAX_ANSWER_BYTES)
    except (OSError, http.client.HTTPException) as error:
        return False, f"not ready: the operator's listener did not answer: {error}"
    finally:
        connection.close()
    return answer.status == http.client.OK, _describe(answer.status, said)


def _connect(host: str, port: int, *, tls: bool) -> http.client.HTTPConnection:
    if not tls:
        return http.client.HTTPConnection(host, port, timeout=ANSWER_SECONDS)
    # Of this machine, asked for one word that opens nothing: its certificate names whom other machines ask for.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return http.client.HTTPSConnection(host, port, timeout=ANSWER_SECONDS, context=context)


def _describe(status: int, said: bytes) -> str:
    try:
        document: Any = json.loads(said)
    except ValueError:
        document = None
    if status == http.client.OK:
        return "ready"
    return f"not ready: {json.dumps(document) if isinstance(document, dict) else f'HTTP {status}'}"
