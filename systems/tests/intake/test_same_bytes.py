"""F8: the same bytes in the same project are not analysed twice."""

import asyncio
from pathlib import Path

from rowmill.testing import QUICK
from rowmill_systems.intake.intake import Intake
from systems.tests.intake.house import House, Scribe, house_on, settings_for


async def test_the_earlier_result_is_reused(database_url: str, tmp_path: Path) -> None:
    scribe = Scribe()
    async with house_on(database_url, tmp_path, scribe) as house:
        first = await house.put("total: 1\ncolour: red", "first.txt")
        await house.drain()
        second = await house.put("total: 1\ncolour: red", "second.txt")
        await house.drain()
        assert scribe.read == ["first.txt"]
        row = await house.file(second)
        assert (row.processing_status, row.reused_from, row.page_count) == ("completed", first, 1)
        assert await house.suggestions(second) == [("total", "1", "pending")]
        assert await house.notes(second) == [("colour", "red")]


async def test_other_projects_and_organizations_have_results_of_their_own(database_url: str, tmp_path: Path) -> None:
    scribe = Scribe()
    async with house_on(database_url, tmp_path, scribe) as house:
        for name, organization, project in (("a", 1, 1), ("b", 1, 2), ("c", 2, 1)):
            await house.put("total: 1", name, organization, project)
        await house.settle_all()
        assert scribe.read == ["a", "b", "c"]


async def test_a_failed_analysis_is_no_result(database_url: str, tmp_path: Path) -> None:
    scribe = Scribe()
    scribe.failure = RuntimeError("broken")
    async with house_on(database_url, tmp_path, scribe) as house:
        await house.put("total: 1", "first")
        await house.drain()
        scribe.failure = None
        second = await house.put("total: 1", "second")
        await house.settle_all()
        assert (await house.file(second)).reused_from != second
        assert await house.suggestions(second) == [("total", "1", "pending")]


async def test_identical_uploads_at_the_same_moment_are_analysed_once_in_the_whole_fleet(
    database_url: str, tmp_path: Path
) -> None:
    """Twelve files of three contents, two workers of four readers each, all at once."""
    scribe = Scribe()
    scribe.go.clear()
    async with house_on(database_url, tmp_path, scribe, readers=4) as house:
        other = Intake(settings_for(database_url, tmp_path, readers=4), analyze=scribe)
        async with other.opened(), house.mill.worker(settings=QUICK) as one, other.mill.worker(settings=QUICK) as two:
            numbers = await asyncio.gather(
                *(house.put(f"total: {number % 3}", f"{number % 3}-{number}") for number in range(12))
            )
            running = [asyncio.create_task(worker.run()) for worker in (one, two)]
            while len(scribe.read) < 3:
                await asyncio.sleep(0.01)
            scribe.go.set()
            while {(await house.file(number)).processing_status for number in numbers} != {"completed"}:
                await house.bench.advance(5)
            for worker in (one, two):
                worker.stop()
            await asyncio.gather(*running)
        assert sorted(name[0] for name in scribe.read) == ["0", "1", "2"]
        assert await attempts(house, numbers) == {1}, "to wait for another one's result costs no attempt"
        for index, number in enumerate(numbers):
            assert await house.suggestions(number) == [("total", str(index % 3), "pending")]


async def attempts(house: House, numbers: list[int]) -> set[int]:
    return {(await house.file(number)).processing_attempts for number in numbers}


async def test_files_from_before_there_were_hashes_get_theirs(database_url: str, tmp_path: Path) -> None:
    scribe = Scribe()
    async with house_on(database_url, tmp_path, scribe) as house:
        first = await house.put("total: 1", "first")
        await house.drain()
        second = await house.put("total: 1", "second")
        table = house.intake.files.table
        forget = table.update().where(table.c.id == second).values(file_hash=None)
        await house.mill.run(lambda connection: connection.execute(forget).close())
        await house.drain()
        row = await house.file(second)
        assert (row.file_hash, row.reused_from) == ((await house.file(first)).file_hash, first)
        assert scribe.read == ["first"]


async def test_files_without_hashes_are_analysed_once_too(database_url: str, tmp_path: Path) -> None:
    """All of those with the same bytes may come up at the same moment, after a migration."""
    scribe = Scribe()
    async with house_on(database_url, tmp_path, scribe, readers=3) as house:
        numbers = [await house.put("total: 1", str(number)) for number in range(3)]
        forget = house.intake.files.table.update().values(file_hash=None)
        await house.mill.run(lambda connection: connection.execute(forget).close())
        scribe.go.clear()
        working = asyncio.create_task(house.drain())
        await scribe.reading.wait()
        await asyncio.sleep(0.5)  # for others to begin, if they could
        scribe.go.set()
        await working
        await house.settle_all()
        assert len(scribe.read) == 1
        assert await attempts(house, numbers) == {1}
        assert {(await house.file(number)).processing_status for number in numbers} == {"completed"}
