"""The errors of this package.

CertificateAuthorityError
└── OwnAuthorityError    a file of the operator's own
"""

from pathlib import Path


class CertificateAuthorityError(Exception):
    """The authority cannot be used. The text names the file, what is wrong with it, and what to do."""


class OwnAuthorityError(CertificateAuthorityError):
    """An authority of the operator's own cannot be used. which: `certificate` or `key`, the file to look at."""

    def __init__(self, which: str, path: Path, what: str, remedy: str) -> None:
        super().__init__(f"{path}: {what}; {remedy}")
        self.which = which
