"""`fetchd audit` whole: reading and verifying, and what is learned from the log."""

from .audit_cli import group
from .suggest_cli import suggest

group.add_command(suggest)

__all__ = ("group",)
