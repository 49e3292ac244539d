"""The one error of this package."""


class CertificateAuthorityError(Exception):
    """The authority cannot be used. The text names the file, what is wrong with it, and what to do."""
