"""Paths of the operator's listener that commands name, apart from what serves them: that is slow to import."""

from typing import Final

HEALTH_PATH: Final = "/healthz"
READY_PATH: Final = "/readyz"
RELOAD_PATH: Final = "/v1/reload"
LINK_PATH: Final = "/v1/sign-in-link"
SIGN_IN_PATH: Final = "/sign-in"
SIGN_OUT_PATH: Final = "/sign-out"
STATIC_PATH: Final = "/static"
