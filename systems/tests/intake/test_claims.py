"""The claim and the sweep for callers with sessions and loops of their own."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from rowmill_systems.intake.claims import claim_next_file, requeue_stale_processing_files
from rowmill_systems.intake.models import ProjectFile
from systems.tests.intake.harness import FakeAnalyzer, IntakeHarness, intake_on

LIMIT = 100


def driver(url: str, name: str) -> str:
    return sa.make_url(url).set(drivername=name).render_as_string(hide_password=False)


@contextmanager
def session(url: str) -> Iterator[Session]:
    engine = sa.create_engine(driver(url, "postgresql+psycopg" if url.startswith("postgresql") else "sqlite"))
    try:
        with Session(engine) as db:
            yield db
    finally:
        engine.dispose()


@asynccontextmanager
async def async_session(url: str) -> AsyncIterator[AsyncSession]:
    postgres = url.startswith("postgresql")
    engine = create_async_engine(driver(url, "postgresql+asyncpg" if postgres else "sqlite+aiosqlite"))
    try:
        async with AsyncSession(engine, expire_on_commit=False) as db:
            yield db
    finally:
        await engine.dispose()


async def in_session(url: str, work: Callable[[Session], Any]) -> Any:
    """What a caller without a loop does, in one transaction of its own."""

    def run() -> Any:
        with session(url) as db:
            found = work(db)
            db.commit()
            return found

    return await asyncio.to_thread(run)


async def claimed(url: str) -> int | None:
    def claim(db: Session) -> int | None:
        file = claim_next_file(db)
        return None if file is None else file.id

    found: int | None = await in_session(url, claim)
    return found


async def requeued(url: str, seconds: float = 900, limit: int = LIMIT) -> int:
    return int(await in_session(url, lambda db: requeue_stale_processing_files(db, seconds, limit)))


async def change(harness: IntakeHarness, number: int, **values: Any) -> None:
    statement = sa.update(ProjectFile).where(ProjectFile.id == number).values(**values)
    await harness.mill.run(lambda connection: connection.execute(statement).close())


async def test_a_claim_takes_the_oldest_that_is_due_and_clears_its_error(database_url: str, tmp_path: Path) -> None:
    """F3: NULL available first, then by time; attempts at the claim."""
    async with intake_on(database_url, tmp_path, FakeAnalyzer()) as harness:
        timed, later, first, second = [await harness.put(f"total: {n}", f"{n}.txt") for n in range(4)]
        await change(harness, timed, processing_available_at=sa.func.now(), processing_error="network: x")
        await change(harness, later, processing_available_at=house_time(harness, 3600))
        await harness.bench.advance(5)
        assert [await claimed(database_url) for _ in range(4)] == [first, second, timed, None]
        row = await harness.file(timed)
        assert (row.processing_status, row.processing_attempts, row.processing_error) == ("processing", 1, None)
        assert row.processing_started_at < row.leased_until


def house_time(harness: IntakeHarness, seconds: int) -> Any:
    if harness.mill.url.get_backend_name() == "postgresql":
        return sa.text(f"now() + interval '{seconds} seconds'")
    return sa.func.datetime("now", f"{seconds:+} seconds")


async def began_long_ago(harness: IntakeHarness, seconds: int) -> None:
    statement = sa.update(ProjectFile).values(processing_started_at=house_time(harness, -seconds))
    await harness.mill.run(lambda connection: connection.execute(statement).close())


async def test_a_file_without_attempts_left_is_not_claimed(database_url: str, tmp_path: Path) -> None:
    """F3."""
    async with intake_on(database_url, tmp_path, FakeAnalyzer()) as harness:
        number = await harness.put("total: 1")
        await change(harness, number, processing_attempts=3)
        assert await claimed(database_url) is None
        await change(harness, number, processing_attempts=2)
        assert await claimed(database_url) == number


async def test_the_caller_s_transaction_decides(database_url: str, tmp_path: Path) -> None:
    async with intake_on(database_url, tmp_path, FakeAnalyzer()) as harness:
        number = await harness.put("total: 1")

        def claim_and_leave(db: Session) -> None:
            assert claim_next_file(db) is not None
            db.rollback()

        await in_session(database_url, claim_and_leave)
        row = await harness.file(number)
        assert (row.processing_status, row.processing_attempts) == ("queued", 0)


async def test_both_take_async_sessions(database_url: str, tmp_path: Path) -> None:
    """F3, F4."""
    async with intake_on(database_url, tmp_path, FakeAnalyzer()) as harness:
        number = await harness.put("total: 1")
        async with async_session(database_url) as db:
            file = await claim_next_file(db)
            await db.commit()
            assert file is not None
            assert (file.id, file.filename, file.processing_status) == (number, "a.txt", "processing")
        await began_long_ago(harness, 901)
        async with async_session(database_url) as db:
            assert await requeue_stale_processing_files(db, 900, LIMIT) == 1
            await db.commit()
        assert (await harness.file(number)).processing_status == "queued"


async def test_stale_files_go_back_or_fail_a_bounded_number_at_once(database_url: str, tmp_path: Path) -> None:
    """F4."""
    async with intake_on(database_url, tmp_path, FakeAnalyzer()) as harness:
        numbers = [await harness.put(f"total: {n}", f"{n}.txt") for n in range(3)]
        await change(harness, numbers[2], processing_attempts=2)
        for _ in numbers:
            assert await claimed(database_url) is not None
        assert await requeued(database_url) == 0, "nothing is stale yet"
        await began_long_ago(harness, 901)
        assert [await requeued(database_url, limit=2), await requeued(database_url, limit=2)] == [2, 1]
        rows = [await harness.file(number) for number in numbers]
        assert [(row.processing_status, row.processing_error) for row in rows] == [
            ("queued", "stale_processing_requeued"),
            ("queued", "stale_processing_requeued"),
            ("failed", "stale_processing_max_attempts"),
        ]
        assert [row.processed_at is not None for row in rows] == [False, False, True]
        assert {(row.lease, row.leased_until) for row in rows} == {(None, None)}


async def test_a_file_that_a_worker_still_renews_is_not_stale(database_url: str, tmp_path: Path) -> None:
    """F2, F4: however long it takes."""
    analyzer = FakeAnalyzer()
    async with intake_on(database_url, tmp_path, analyzer) as harness:
        number = await harness.put("total: 1")
        analyzer.go.clear()
        working = asyncio.create_task(harness.drain())
        await analyzer.reading.wait()
        assert await requeued(database_url, seconds=0) == 0
        analyzer.go.set()
        await working
        assert (await harness.file(number)).processing_status == "completed"


async def test_many_callers_and_workers_share_the_files(pg_url: str, tmp_path: Path) -> None:
    """F3: every file is taken once."""
    analyzer = FakeAnalyzer()
    async with intake_on(pg_url, tmp_path, analyzer) as harness:
        numbers = [await harness.put(f"total: {n}", f"{n}.txt") for n in range(12)]

        async def caller() -> list[int]:
            taken = []
            while (number := await claimed(pg_url)) is not None:
                taken.append(number)
            return taken

        draining = asyncio.create_task(harness.drain())
        callers = await asyncio.gather(*(caller() for _ in range(3)))
        await draining
        rows = [await harness.file(number) for number in numbers]
        assert {row.processing_attempts for row in rows} == {1}
        by_callers = sorted(number for taken in callers for number in taken)
        assert by_callers == [row.id for row in rows if row.processing_status == "processing"]


async def test_a_claim_passes_over_what_others_have_locked(pg_url: str, tmp_path: Path) -> None:
    """F3: and never waits for them."""
    async with intake_on(pg_url, tmp_path, FakeAnalyzer()) as harness:
        first, second = [await harness.put(f"total: {n}", f"{n}.txt") for n in range(2)]
        with psycopg.connect(pg_url) as other:
            other.execute(f"SELECT 1 FROM project_files WHERE id = {first} FOR UPDATE")
            assert await claimed(pg_url) == second


@pytest.mark.parametrize("seconds", [60.0, 0.5])
async def test_the_lease_is_that_of_the_settings_or_what_the_caller_says(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    monkeypatch.setenv("INTAKE_WORKER_STALE_SECONDS", "60")
    async with intake_on(database_url, tmp_path, FakeAnalyzer()) as harness:
        number = await harness.put("total: 1")
        own = None if seconds == 60 else seconds
        await in_session(database_url, lambda db: claim_next_file(db, lease_seconds=own) is not None)
        row = await harness.file(number)
        assert (row.leased_until - row.processing_started_at).total_seconds() == pytest.approx(seconds, abs=0.01)
