"""docs/store.md keeps its word: every member of a receipt, every check, and a program that verifies one."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from fetchd.faces.blob_cli import group as blob_group
from fetchd.faces.receipt_cli import group as receipt_group
from fetchd.store.receipt_checks import ReceiptCheck
from fetchd.store.receipts import seal_receipt
from tests.fetchd.store.kit import KEYS, page_read
from tests.kit.corpora import REPOSITORY

TEXT = (REPOSITORY / "docs" / "store.md").read_text("utf-8")
RECEIPT = seal_receipt(
    page_read(), issued_at="2026-11-30T20:00:01.000Z", previous=None, key_id=KEYS.public.id, sign=KEYS.sign
)


def rows_below(heading: str) -> list[str]:
    """The first cells of the first table below a heading."""
    table = re.search(r"(?:^\|.*\|\n)+", TEXT[TEXT.index(heading) :], re.MULTILINE)
    assert table is not None
    return [row.split("|")[1] for row in table[0].splitlines()[2:]]


def test_every_member_of_a_receipt_is_explained() -> None:
    explained = {name for cell in rows_below("## Receipts") for name in re.findall(r"`(\w+)`", cell)}

    assert explained == set(json.loads(RECEIPT.text))


def test_every_check_is_explained() -> None:
    explained = [cell.strip() for cell in rows_below("Verifying says for each check")]

    assert explained == [check.value for check in ReceiptCheck]


def test_every_command_named_is_there() -> None:
    named = set(re.findall(r"fetchd (blob|receipt) (\w+)", TEXT))

    assert ("receipt", "verify") in named
    assert {name for kind, name in named if kind == "blob"} <= set(blob_group.commands)
    assert {name for kind, name in named if kind == "receipt"} <= set(receipt_group.commands)


@pytest.mark.parametrize(
    ("receipt", "body", "said"),
    [
        pytest.param(RECEIPT.text, b"page", "https://a.example/page said so at", id="holds"),
        pytest.param(RECEIPT.text, b"pagE", "AssertionError", id="another body"),
        pytest.param(RECEIPT.text.replace(b"200", b"201"), b"page", "InvalidSignature", id="another receipt"),
    ],
)
def test_the_program_for_elsewhere_verifies(tmp_path: Path, receipt: bytes, body: bytes, said: str) -> None:
    program = re.search(r"^```python\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
    assert program is not None
    names = []
    for name, content in (("receipt", receipt), ("key", KEYS.public.render_pem()), ("body", body)):
        (tmp_path / name).write_bytes(content)
        names.append(str(tmp_path / name))

    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program[1], *names],
        capture_output=True,
        text=True,
        check=False,
    )

    assert said in done.stdout + done.stderr
    assert (done.returncode == 0) is (receipt == RECEIPT.text and body == b"page")
