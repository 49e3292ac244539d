"""The audit log: append-only, hash-chained, signed JSON lines (SPEC 1.9; format in docs/audit.md).

Terms. A *record* is what one line says; a *chain* is the numbered, hash-linked lines of one writing process;
a *series* is the files of one chain, named after it (``gateway-0``, ``daemon``); a *checkpoint* is a signed
line that vouches for all lines before it; the *head* of a chain is the number and hash of its last line.

Direction of data. ``record`` (a file for each kind of line) → ``chain`` (seals a line) → ``writer`` (over
``segment``, one file) → files → ``reader`` (all chains as one, by time) and ``verify`` (is anything broken or
missing). ``resume`` looks at what an earlier process left. The gateway's workers and the daemon are the writers;
this package knows neither.
"""

from proxy_addons.audit.ask_record import AskRecord
from proxy_addons.audit.chain import Check, CheckpointReason, Head, parse_head
from proxy_addons.audit.errors import AuditError, AuditKeyError, AuditUnavailableError
from proxy_addons.audit.event_record import EventRecord, LogEvent
from proxy_addons.audit.fetch_record import FetchRecord
from proxy_addons.audit.hop_record import (
    Addresses,
    CloseRecord,
    DecisionRecord,
    DroppedAddress,
    PhaseTimes,
    TlsFacts,
)
from proxy_addons.audit.keys import AuditKeys, PublicKey, load_public_key
from proxy_addons.audit.kinds import CallOutcome, LineKind
from proxy_addons.audit.memory import MemoryAuditLog
from proxy_addons.audit.record import Record
from proxy_addons.audit.search_record import SearchRecord
from proxy_addons.audit.sink import AuditSink
from proxy_addons.audit.verify import ChainReport, Finding, VerifyReport, verify_directory
from proxy_addons.audit.web_record import WebRecord
from proxy_addons.audit.writer import AuditLog
from proxy_addons.policy.verdicts import Outcome

__all__ = [
    "Addresses",
    "AskRecord",
    "AuditError",
    "AuditKeyError",
    "AuditKeys",
    "AuditLog",
    "AuditSink",
    "AuditUnavailableError",
    "CallOutcome",
    "ChainReport",
    "Check",
    "CheckpointReason",
    "CloseRecord",
    "DecisionRecord",
    "DroppedAddress",
    "EventRecord",
    "FetchRecord",
    "Finding",
    "Head",
    "LineKind",
    "LogEvent",
    "MemoryAuditLog",
    "Outcome",
    "PhaseTimes",
    "PublicKey",
    "Record",
    "SearchRecord",
    "TlsFacts",
    "VerifyReport",
    "WebRecord",
    "load_public_key",
    "parse_head",
    "verify_directory",
]
