"""What mitmproxy takes from the environment at import, taken away first. Imports nothing of mitmproxy itself."""

import os

KEY_LOG_VARIABLES = ("SSLKEYLOGFILE", "MITMPROXY_SSLKEYLOGFILE")


def drop_key_log() -> None:
    """With one of these set, every TLS session key would be written to a file (N13); call before any import of
    mitmproxy."""
    for name in KEY_LOG_VARIABLES:
        os.environ.pop(name, None)
