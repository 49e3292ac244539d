"""The package's errors.

AuditError ├── AuditUnavailableError   the log cannot be written now; hops are refused with rule
``audit-unavailable`` └── AuditKeyError           a key file is missing, unreadable, foreign or open to
others
"""


class AuditError(Exception):
    """Root of the audit package's errors; raised only through its subclasses."""


class AuditUnavailableError(AuditError):
    """The log of one series cannot be written; the message names series, cause and what to do."""


class AuditKeyError(AuditError):
    """A key cannot be used; the message names the file and what to do, never key material."""
