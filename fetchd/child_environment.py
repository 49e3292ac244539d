"""The environment of the processes that we start: what a program needs to run, and nothing that is somebody's secret.

Keys of search providers and vendors, an agent's token, whatever else the operator's shell holds: the gateway, the
workers that read hostile pages, and those who read the log have no use for any of it. So what is passed on is named
here, not what is held back: a reload can name another variable as a key's at any time.
"""

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

PASSED_ON: Final = re.compile(
    r"PATH|HOME|TZ|TMPDIR|LANG|LANGUAGE|LC_[A-Z]+|PYTHON[A-Z0-9]*|LD_[A-Z_]+|MALLOC_[A-Z_]+"
)
"""Where programs, libraries and modules are found and how they are tuned; language, time zone, temporary files."""


def child_environment(environ: Mapping[str, str] | None = None, **beside: str) -> dict[str, str]:
    """What a child gets of `environ` (this process's), and `beside` in any case."""
    ours = os.environ if environ is None else environ
    return {**{name: value for name, value in ours.items() if PASSED_ON.fullmatch(name)}, **beside}


@contextmanager
def inherited_environment(**beside: str) -> Iterator[None]:
    """Meanwhile this process's own environment is a child's, for a library that starts one and takes none."""
    before = dict(os.environ)
    try:
        os.environ.clear()
        os.environ.update(child_environment(before, **beside))
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
