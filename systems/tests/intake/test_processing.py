"""A file on its way: claimed, read, settled; or not."""

from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from pydantic import ValidationError

import rowmill as rm
from rowmill.store.rescue import Rescued
from rowmill_systems.intake import errors
from rowmill_systems.intake.models import ProjectFile
from rowmill_systems.intake.queue import declare
from rowmill_systems.intake.settings import IntakeSettings
from systems.tests.intake.harness import FakeAnalyzer, intake_on
from tests.conformance.fleet import Member, fleet

PERMANENT: dict[type[Exception], str] = {
    errors.EmptyFile: "empty",
    errors.FileTooLarge: "too_large",
    errors.EncryptedFile: "encrypted",
    errors.CorruptFile: "corrupt",
    errors.UnsupportedFile: "unsupported",
    errors.MissingObject: "missing_object",
    errors.ForbiddenObject: "forbidden",
}
TRANSIENT: dict[type[Exception], str] = {
    errors.ReadingTimedOut: "timeout",
    errors.NetworkFailed: "network",
    errors.StorageFailed: "storage",
    errors.ReaderDied: "unknown",
    RuntimeError: "RuntimeError",
}


async def test_a_file_is_read_once_and_its_result_is_on_the_row(database_url: str, tmp_path: Path) -> None:
    """F1, F3: attempts at the claim, the times of the database, the error cleared."""
    analyzer = FakeAnalyzer()
    async with intake_on(database_url, tmp_path, analyzer) as harness:
        number = await harness.put("invoice_number: 7\ntotal: 12\ncolour: red")
        await harness.drain()
        row = await harness.file(number)
        assert (row.processing_status, row.processing_attempts, row.processing_error) == ("completed", 1, None)
        assert row.processing_started_at <= row.processed_at
        assert (row.kind, row.page_count, row.pages_read) == ("text", 1, 1)
        assert await harness.suggestions(number) == [("invoice_number", "7", "pending"), ("total", "12", "pending")]
        assert await harness.notes(number) == [("colour", "red")]


async def test_the_oldest_file_is_read_first(database_url: str, tmp_path: Path) -> None:
    """F3: what is available at once first, then by the time that it came."""
    analyzer = FakeAnalyzer()
    async with intake_on(database_url, tmp_path, analyzer) as harness:
        numbers = [await harness.put(f"total: {number}", f"{number}.txt") for number in range(4)]
        later = sa.update(ProjectFile).where(ProjectFile.id == numbers[0])
        await harness.mill.run(lambda c: c.execute(later.values(processing_available_at=sa.func.now())).close())
        await harness.bench.advance(5)
        await harness.drain()
        assert analyzer.read == ["1.txt", "2.txt", "3.txt", "0.txt"]


@pytest.mark.parametrize("kind", PERMANENT, ids=PERMANENT.values())
async def test_a_permanent_failure_is_final_at_once(database_url: str, tmp_path: Path, kind: type[Exception]) -> None:
    """F5, F6: by its type, with a stable code; failed, with the time."""
    analyzer = FakeAnalyzer()
    analyzer.failure = kind("secret words")
    async with intake_on(database_url, tmp_path, analyzer) as harness:
        number = await harness.put("total: 1")
        await harness.drain()
        row = await harness.file(number)
        assert (row.processing_status, row.processing_attempts) == ("failed", 1)
        assert row.processing_error.split(":")[0] == PERMANENT[kind]
        assert row.processed_at is not None


@pytest.mark.parametrize("kind", TRANSIENT, ids=TRANSIENT.values())
async def test_a_transient_failure_is_tried_three_times(
    database_url: str, tmp_path: Path, kind: type[Exception]
) -> None:
    """F3, F5, F6: the waits are 30 and 60 seconds; then failed. An unknown error is transient."""
    analyzer = FakeAnalyzer()
    analyzer.failure = kind("secret words")
    async with intake_on(database_url, tmp_path, analyzer) as harness:
        number = await harness.put("total: 1")
        for attempt, wait in enumerate((30, 60), 1):
            await harness.drain()
            row = await harness.file(number)
            assert (row.processing_status, row.processing_attempts) == ("queued", attempt)
            assert row.processing_error.split(":")[0] == TRANSIENT[kind]
            await harness.bench.advance(wait - 5)
            await harness.drain()
            assert len(analyzer.read) == attempt, "not before its time"
            await harness.bench.advance(6)
        await harness.drain()
        row = await harness.file(number)
        assert (row.processing_status, row.processing_attempts, len(analyzer.read)) == ("failed", 3, 3)
        assert row.processed_at is not None


async def test_a_file_whose_bytes_are_gone_fails_and_one_that_can_be_read_again_does_not(
    database_url: str, tmp_path: Path
) -> None:
    """F5: a missing object is permanent, with the cause kept in the history."""
    async with intake_on(database_url, tmp_path, FakeAnalyzer()) as harness:
        gone, there = await harness.put("total: 1"), await harness.put("total: 2")
        await harness.intake.storage.delete((await harness.file(gone)).storage_key)
        await harness.drain()
        assert (await harness.file(gone)).processing_error.startswith("missing_object")
        assert (await harness.file(there)).processing_status == "completed"


def a_row(number: int) -> dict[str, Any]:
    given = {"organization_id": 1, "project_id": 1, "filename": f"{number}.txt", "size_bytes": 1}
    return given | {"storage_key": f"1/1/{number}", "file_hash": f"{number:064}"}


async def test_files_of_dead_workers_go_back_and_at_last_fail(database_url: str) -> None:
    """F2, F4: `processing` is a lease. Stale files go back, a bounded number per sweep, or fail at the third time."""
    async with fleet(database_url, lambda mill: declare(mill, 900), size=2) as [dead, keeper]:
        await dead.put(*map(a_row, range(5)))
        await dead.claim(5)
        await keeper.bench.advance(900 - 5)
        assert await keeper.rescue() == Rescued()
        await keeper.bench.advance(6)
        assert [await keeper.rescue(most=3) for _ in range(2)] == [Rescued(returned=3), Rescued(returned=2)]
        assert await outcomes(keeper) == {("queued", 1, "stale_processing_requeued")}
        for _ in range(2):
            await dead.claim(5)
            await keeper.expire()
            await keeper.rescue()
        assert await outcomes(keeper) == {("failed", 3, "stale_processing_max_attempts")}


async def outcomes(member: Member) -> set[tuple[Any, ...]]:
    rows = await member.rows()
    return {(row.processing_status, row.processing_attempts, row.processing_error) for row in rows}


async def test_a_claim_is_one_statement_and_clears_the_error(database_url: str) -> None:
    """F3."""
    async with fleet(database_url, lambda mill: declare(mill, 900), size=1) as [member]:
        await member.put(a_row(1) | {"processing_error": "network: no answer"})
        [lease] = await member.claim(1)
        row = await member.row()
        assert (lease.attempt, row.processing_attempts, row.processing_error) == (1, 1, None)


def test_the_worker_is_set_up_by_the_environment(monkeypatch: pytest.MonkeyPatch, sqlite_url: str) -> None:
    """F4, F10: where waits begin and end, how long a lease is, and a sweep each minute."""
    for name, value in {"POLL_BASE": "0.5", "POLL_MAX": "8", "STALE": "120"}.items():
        monkeypatch.setenv(f"INTAKE_WORKER_{name}_SECONDS", value)
    settings = IntakeSettings()
    worker = settings.worker
    assert (worker.poll_base, worker.poll_max, worker.rescue_every) == (0.5, 8, 60)
    assert declare(rm.Mill(sqlite_url), settings.worker_stale_seconds).steps[0].lease == 120
    monkeypatch.setenv("INTAKE_WORKER_POLL_BASE_SECONDS", "60")
    assert (IntakeSettings().worker.poll_base, IntakeSettings().worker.poll_max) == (8, 8), "the longest is a ceiling"


@pytest.mark.parametrize("wrong", ["0", "-1", "soon"])
def test_settings_that_can_t_be_are_refused(monkeypatch: pytest.MonkeyPatch, wrong: str) -> None:
    monkeypatch.setenv("INTAKE_WORKER_POLL_BASE_SECONDS", wrong)
    with pytest.raises(ValidationError, match="worker_poll_base_seconds"):
        IntakeSettings()


async def test_who_leaves_first_closes_nothing_for_the_others(database_url: str, tmp_path: Path) -> None:
    """A server beside a worker ends before the worker's files are finished."""
    async with intake_on(database_url, tmp_path, FakeAnalyzer()) as harness:
        number = await harness.put("total: 12")
        async with harness.intake.opened():
            pass
        await harness.drain()
        assert (await harness.file(number)).processing_status == "completed"


async def test_a_file_put_back_with_its_attempts_used_up_is_buried_and_not_read_a_fourth_time(
    database_url: str, tmp_path: Path
) -> None:
    """F3: by hand, with SQL that knows nothing of attempts. It fails with a code; the next file is read."""
    analyzer = FakeAnalyzer()
    async with intake_on(database_url, tmp_path, analyzer) as harness:
        spent, fresh = await harness.put("total: 1", "spent.txt"), await harness.put("total: 2", "fresh.txt")
        put_back = sa.update(ProjectFile).where(ProjectFile.id == spent)
        values = {"processing_status": "queued", "processing_attempts": 3, "processing_error": None}
        await harness.mill.run(lambda connection: connection.execute(put_back.values(values)).close())
        await harness.drain()
        row = await harness.file(spent)
        assert analyzer.read == ["fresh.txt"]
        assert (row.processing_status, row.processing_attempts) == ("failed", 3)
        assert row.processing_error.split(":")[0] == "attempts_used_up"
        assert row.processed_at is not None
        assert (await harness.file(fresh)).processing_status == "completed"
