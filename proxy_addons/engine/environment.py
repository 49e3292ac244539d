"""Variables by which libraries would write down the keys of every TLS session (N13)."""

import os

KEY_LOG_VARIABLES = ("SSLKEYLOGFILE", "MITMPROXY_SSLKEYLOGFILE")


def drop_key_log() -> None:
    """Take them out of this process's environment. mitmproxy has read them by then: see `overrides`."""
    for name in KEY_LOG_VARIABLES:
        os.environ.pop(name, None)
