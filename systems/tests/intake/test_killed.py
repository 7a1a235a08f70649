"""A worker that is killed at any point of a file leaves no duplicate suggestion, and loses no file."""

import asyncio
import os
import signal
from pathlib import Path

import psutil
import pytest

from rowmill.maintenance import upkeep
from systems.tests.intake.dying import POINTS
from systems.tests.intake.harness import intake_on
from tests.support.postgres import REPOSITORY
from tests.support.python import run_python

STALE = 2.0
PAPER = b"Invoice number: 4711\nInvoice date: 2026-03-31\nWarehouse: north\n"


@pytest.mark.parametrize("point", POINTS)
async def test_a_worker_killed_at_any_point(
    database_url: str, tmp_path: Path, point: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F2, F9, F10: one commit per step. The reader's process is gone with its worker."""
    monkeypatch.setattr(upkeep, "GRACE", 0.0)  # the first look at the expired lease is enough: nobody renews it
    async with intake_on(database_url, tmp_path, worker_stale_seconds=STALE) as harness:
        number = await harness.put(PAPER)
        given = os.environ | {
            "INTAKE_DATABASE_URL": database_url,
            "INTAKE_STORAGE": str(tmp_path / "files"),
            "INTAKE_WORKER_STALE_SECONDS": str(STALE),
        }
        worker = await asyncio.to_thread(
            run_python, "-m", "systems.tests.intake.dying", point, env=given, cwd=REPOSITORY
        )
        assert worker.returncode == -signal.SIGKILL, worker.stderr
        row = await harness.file(number)
        assert row.processing_status == ("completed" if point == "committed" else "processing")
        if point != "committed":
            assert await harness.suggestions(number) == []
            await harness.bench.advance(STALE)
        await harness.settle_all()
        row = await harness.file(number)
        assert (row.processing_status, row.processing_attempts) == ("completed", 1 if point == "committed" else 2)
        found = await harness.suggestions(number)
        assert sorted(key for key, _, _ in found) == sorted({key for key, _, _ in found}), "each once"
        assert {"invoice_number", "issue_date"} <= {key for key, _, _ in found}
        assert await harness.notes(number) == [("Warehouse", "north")]


def test_nothing_is_left_of_the_readers() -> None:
    """After all of those kills."""
    mine = psutil.Process().children(recursive=True)
    assert not [child for child in mine if "rowmill_systems.intake" in " ".join(child.cmdline())]
