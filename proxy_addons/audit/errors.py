"""The package's errors.

AuditError ├── AuditUnavailableError   the log cannot be written now; hops are refused with rule
``audit-unavailable`` └── AuditKeyError           a key file is missing, unreadable, foreign or open to
others
"""

from pathlib import Path


class AuditError(Exception):
    """Root of the audit package's errors; raised only through its subclasses."""


class AuditUnavailableError(AuditError):
    """The log of one series cannot be written; the message names series, cause and what to do."""


class AuditKeyError(AuditError):
    """A key cannot be used; the message names the file and what to do, never key material."""


def explain_unwritable(series: str, directory: Path, error: OSError) -> str:
    """What AuditUnavailableError says when the system refuses a line."""
    cause = error.strerror or str(error)
    return f"audit log {series} cannot be written: {cause}; see to space and permissions of {directory}"
