"""docs/audit.md says what the log holds, and its Python does what it says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from proxy_addons.audit import Check, CheckpointReason, LineKind, LogEvent
from tests.kit.corpora import REPOSITORY
from tests.proxy_addons.audit.kit import verify, write_chain
from tests.proxy_addons.audit.test_record import MEMBERS

PAGE = (REPOSITORY / "docs" / "audit.md").read_text()
PROSE = re.sub(r"^```.*?^```$", "", PAGE, flags=re.DOTALL | re.MULTILINE)
WORDS = set(re.findall(r"[\w-]+", " ".join(re.findall(r"`([^`\n]+)`", PROSE))))


@pytest.mark.parametrize("kind", MEMBERS)
def test_every_member_is_documented(kind: str) -> None:
    assert set(MEMBERS[kind][0].render()) - WORDS == set()


@pytest.mark.parametrize("names", [LineKind, LogEvent, Check, CheckpointReason])
def test_every_code_is_documented(names: type[LineKind | LogEvent | Check | CheckpointReason]) -> None:
    assert {name.value for name in names} - WORDS == set()


def test_the_python_on_the_page_verifies_a_chain_and_finds_a_change(tmp_path: Path) -> None:
    found = re.search(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert found is not None
    write_chain(tmp_path, 20, rotate_bytes=3000)

    def run() -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", found[1]], cwd=tmp_path, capture_output=True, text=True, check=False
        )

    assert run().stdout.strip() == str(verify(tmp_path).chains[0].head)
    path = tmp_path / "gateway-0-000002.jsonl"
    path.write_bytes(path.read_bytes().replace(b"GET", b"PUT", 1))
    assert run().returncode == 1 and "AssertionError" in run().stderr
