"""`python -m proxy_addons.resolve`: input that is not its wire is one line and status 2.

What it answers is asked through its only user, in tests/fetchd/explaining/test_lookup.py.
"""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.kit.corpora import REPOSITORY

FIRST = {"config": {}, "profile": "default"}


@pytest.mark.parametrize(
    ("lines", "complaint"),
    [
        pytest.param([], "each line is one JSON object", id="nothing"),
        pytest.param([[1]], "each line is one JSON object", id="a list"),
        pytest.param([{}], 'the first line is {"config": …, "profile": …}', id="no config"),
        pytest.param([{**FIRST, "profile": "x"}], "there is no profile x", id="an unknown profile"),
        pytest.param(
            [{**FIRST, "config": {"x": 1}}],
            "first line: x: no such table; write one of gateway, dns, tls, daemon, operator, audit, metrics,"
            " page_read, store, search, web, ask, vendors, agents, profiles",
            id="a config that cannot be",
        ),
        pytest.param([FIRST, {"host": "a"}], 'a request is {"host": …, "port": …}', id="no port"),
    ],
)
def test_the_resolver_refuses_other_input_in_one_line(lines, complaint):
    # A nameserver is named so that the system's, which may have none, are not read.
    for line in lines:
        if isinstance(line, dict) and line.get("config") == {}:
            line["config"] = {"dns": {"nameservers": ["127.0.0.1:1"]}}
    done = subprocess.run(
        (sys.executable, "-m", "proxy_addons.resolve"),
        cwd=REPOSITORY,
        input="".join(json.dumps(line) + "\n" for line in lines),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"{complaint}\n")
