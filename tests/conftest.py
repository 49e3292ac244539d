"""For every test: an environment scrubbed of the machine's settings, and hypothesis without a clock."""

from __future__ import annotations

import gc
import os
import re
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

KEPT = frozenset({"FETCHD_CORPORA", "FETCHD_REQUIRE_TOOLS", "FETCHD_SOAK"})
SCRUBBED = re.compile(
    r"""
    .*_PROXY | PROXY                                        # where traffic would go
    | SSL_CERT_(FILE|DIR) | (REQUESTS|CURL)_CA_BUNDLE       # whom TLS would trust
    | GIT_SSL_.* | NODE_EXTRA_CA_CERTS | (MITMPROXY_)?SSLKEYLOGFILE | OPENSSL_(CONF|MODULES)
    | RES_OPTIONS | LOCALDOMAIN | HOSTALIASES               # how names would resolve
    | CURL_HOME | FETCHD_.*
    """,
    re.VERBOSE | re.IGNORECASE,
)

# Deadlines and speed checks would make a result depend on how busy the machine is.
settings.register_profile("dev", deadline=None, suppress_health_check=[HealthCheck.too_slow])
# In CI the same commit gives the same examples.
settings.register_profile("ci", settings.get_profile("dev"), derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "dev")


@pytest.fixture(scope="session", autouse=True)
def _scrubbed_environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No setting of the machine reaches a test or its child processes; none writes to the user's state."""
    with pytest.MonkeyPatch.context() as patch:
        for name in tuple(os.environ):
            if SCRUBBED.fullmatch(name) and name not in KEPT:
                patch.delenv(name)
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state-home")))
        yield


@pytest.fixture(scope="module", autouse=True)
def _frozen_heap() -> None:
    """What there is by now, all tests of it, stays: a full collection need not walk it again and again."""
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Soak tests run only when asked for by name: FETCHD_SOAK=1."""
    if os.environ.get("FETCHD_SOAK") == "1":
        return
    for item in items:
        if "soak" in item.keywords:
            item.add_marker(pytest.mark.skip(reason="a soak test: make soak"))
