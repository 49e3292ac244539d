"""The composition root: one-shot commands side by side each write a chain of their own."""

from __future__ import annotations

from pathlib import Path

import pytest

from fetchd.app import open_audit_log
from proxy_addons.audit import AuditUnavailableError, EventRecord


async def test_the_first_free_chain_is_taken_and_given_back(tmp_path: Path) -> None:
    async with open_audit_log(tmp_path, "fetch-0", "fetch-1") as first:
        async with open_audit_log(tmp_path, "fetch-0", "fetch-1") as second:
            assert (first.series, second.series) == ("fetch-0", "fetch-1")
            with pytest.raises(AuditUnavailableError):
                async with open_audit_log(tmp_path, "fetch-0", "fetch-1"):
                    pass
        first.append(EventRecord(event="x"))
    async with open_audit_log(tmp_path, "fetch-0", "fetch-1") as again:
        assert again.series == "fetch-0"

    assert (tmp_path / "audit").is_dir()
    assert list((tmp_path / "keys").iterdir())
