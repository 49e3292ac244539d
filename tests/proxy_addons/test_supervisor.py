"""What the process that keeps the workers is made of; what it does is tried in tests/gateway/test_workers.py."""

import subprocess
import sys


def test_the_supervisor_does_not_load_what_only_its_workers_need() -> None:
    """Half of its memory and most of a start's first second were mitmproxy's."""
    said = subprocess.check_output(
        [sys.executable, "-c", "import sys, proxy_addons.__main__; print('mitmproxy' in sys.modules)"],
        text=True,
    )
    assert said == "False\n"
