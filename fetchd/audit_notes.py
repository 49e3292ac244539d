"""An event of a command in the audit log: what an operator changed that lies beside the log, and when."""

from collections.abc import Mapping
from pathlib import Path

from proxy_addons.audit import AuditKeys, AuditLog, EventRecord

from .app import ONE_SHOT_SERIES


def note_event(state_dir: Path, event: str, detail: str, facts: Mapping[str, str]) -> None:
    """Write one line, on disk when this returns, to a chain that no process holds. Blocks. Raises AuditError."""
    keys = AuditKeys.load_or_create(state_dir / "keys")
    log = AuditLog.open_first(state_dir / "audit", ONE_SHOT_SERIES, keys)
    try:
        log.append(EventRecord(event=event, detail=detail, facts=facts))
    finally:
        log.close()
