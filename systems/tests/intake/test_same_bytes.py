"""F8: the same bytes in the same project are not analysed twice."""

import asyncio
from pathlib import Path

from rowmill.testing import QUICK
from rowmill_systems.intake.intake import Intake
from systems.tests.intake.harness import FakeAnalyzer, IntakeHarness, intake_on, settings_for


async def test_the_earlier_result_is_reused(database_url: str, tmp_path: Path) -> None:
    analyzer = FakeAnalyzer()
    async with intake_on(database_url, tmp_path, analyzer) as harness:
        first = await harness.put("total: 1\ncolour: red", "first.txt")
        await harness.drain()
        second = await harness.put("total: 1\ncolour: red", "second.txt")
        await harness.drain()
        assert analyzer.read == ["first.txt"]
        row = await harness.file(second)
        assert (row.processing_status, row.reused_from, row.page_count) == ("completed", first, 1)
        assert await harness.suggestions(second) == [("total", "1", "pending")]
        assert await harness.notes(second) == [("colour", "red")]


async def test_other_projects_and_organizations_have_results_of_their_own(database_url: str, tmp_path: Path) -> None:
    analyzer = FakeAnalyzer()
    async with intake_on(database_url, tmp_path, analyzer) as harness:
        for name, organization, project in (("a", 1, 1), ("b", 1, 2), ("c", 2, 1)):
            await harness.put("total: 1", name, organization, project)
        await harness.settle_all()
        assert analyzer.read == ["a", "b", "c"]


async def test_a_failed_analysis_is_no_result(database_url: str, tmp_path: Path) -> None:
    analyzer = FakeAnalyzer()
    analyzer.failure = RuntimeError("broken")
    async with intake_on(database_url, tmp_path, analyzer) as harness:
        await harness.put("total: 1", "first")
        await harness.drain()
        analyzer.failure = None
        second = await harness.put("total: 1", "second")
        await harness.settle_all()
        assert (await harness.file(second)).reused_from != second
        assert await harness.suggestions(second) == [("total", "1", "pending")]


async def test_identical_uploads_at_the_same_moment_are_analysed_once_in_the_whole_fleet(
    database_url: str, tmp_path: Path
) -> None:
    """Twelve files of three contents, two workers of four readers each, all at once."""
    analyzer = FakeAnalyzer()
    analyzer.go.clear()
    async with intake_on(database_url, tmp_path, analyzer, readers=4) as harness:
        other = Intake(settings_for(database_url, tmp_path, readers=4), analyze=analyzer)
        async with other.opened(), harness.mill.worker(settings=QUICK) as one, other.mill.worker(settings=QUICK) as two:
            numbers = await asyncio.gather(
                *(harness.put(f"total: {number % 3}", f"{number % 3}-{number}") for number in range(12))
            )
            running = [asyncio.create_task(worker.run()) for worker in (one, two)]
            while len(analyzer.read) < 3:
                await asyncio.sleep(0.01)
            analyzer.go.set()
            while {(await harness.file(number)).processing_status for number in numbers} != {"completed"}:
                await harness.bench.advance(5)
            for worker in (one, two):
                worker.stop()
            await asyncio.gather(*running)
        assert sorted(name[0] for name in analyzer.read) == ["0", "1", "2"]
        assert await attempts(harness, numbers) == {1}, "to wait for another one's result costs no attempt"
        for index, number in enumerate(numbers):
            assert await harness.suggestions(number) == [("total", str(index % 3), "pending")]


async def attempts(harness: IntakeHarness, numbers: list[int]) -> set[int]:
    return {(await harness.file(number)).processing_attempts for number in numbers}


async def test_files_from_before_there_were_hashes_get_theirs(database_url: str, tmp_path: Path) -> None:
    analyzer = FakeAnalyzer()
    async with intake_on(database_url, tmp_path, analyzer) as harness:
        first = await harness.put("total: 1", "first")
        await harness.drain()
        second = await harness.put("total: 1", "second")
        table = harness.intake.files.table
        forget = table.update().where(table.c.id == second).values(file_hash=None)
        await harness.mill.run(lambda connection: connection.execute(forget).close())
        await harness.drain()
        row = await harness.file(second)
        assert (row.file_hash, row.reused_from) == ((await harness.file(first)).file_hash, first)
        assert analyzer.read == ["first"]


async def test_files_without_hashes_are_analysed_once_too(database_url: str, tmp_path: Path) -> None:
    """All of those with the same bytes may come up at the same moment, after a migration."""
    analyzer = FakeAnalyzer()
    async with intake_on(database_url, tmp_path, analyzer, readers=3) as harness:
        numbers = [await harness.put("total: 1", str(number)) for number in range(3)]
        forget = harness.intake.files.table.update().values(file_hash=None)
        await harness.mill.run(lambda connection: connection.execute(forget).close())
        analyzer.go.clear()
        working = asyncio.create_task(harness.drain())
        await analyzer.reading.wait()
        await asyncio.sleep(0.5)  # for others to begin, if they could
        analyzer.go.set()
        await working
        await harness.settle_all()
        assert len(analyzer.read) == 1
        assert await attempts(harness, numbers) == {1}
        assert {(await harness.file(number)).processing_status for number in numbers} == {"completed"}
