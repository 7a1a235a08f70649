"""F9: what a person decided on stays; what is pending is replaced."""

import asyncio
from pathlib import Path

import pytest
import sqlalchemy as sa

from rowmill_systems.intake.models import SuggestionState
from rowmill_systems.intake.reads import Project, one_file, outdate_analysis
from rowmill_systems.intake.suggestions import (
    BeingProcessed,
    SuggestionChanged,
    SuggestionDecision,
    UnknownFile,
    decide,
)
from systems.tests.intake.harness import FakeAnalyzer, IntakeHarness, intake_on

APPLY, REJECT = SuggestionDecision(SuggestionState.APPLIED, "ann"), SuggestionDecision(SuggestionState.REJECTED)


async def judge(harness: IntakeHarness, file: int, suggestion: int, decision: SuggestionDecision = APPLY) -> None:
    await harness.mill.run(lambda connection: decide(connection, file, suggestion, decision))


async def read_again(harness: IntakeHarness, number: int) -> None:
    """As the API does it."""

    def forget(connection: sa.Connection) -> None:
        row = one_file(connection, Project(1, 1), number)
        assert row is not None
        outdate_analysis(connection, row)

    await harness.mill.run(forget)
    assert await harness.intake.files.requeue(number) == 1
    await harness.drain()


async def test_processing_again_replaces_what_is_pending_and_leaves_the_rest(database_url: str, tmp_path: Path) -> None:
    analyzer = FakeAnalyzer()
    async with intake_on(database_url, tmp_path, analyzer) as harness:
        number = await harness.put("total: 1\ntotal: 2\ntotal: 3\ncolour: red")
        await harness.drain()
        applied, rejected, pending = await harness.suggestion_ids(number)
        await judge(harness, number, applied)
        await judge(harness, number, rejected, REJECT)

        await read_again(harness, number)

        assert len(analyzer.read) == 2
        assert await harness.suggestions(number) == [
            ("total", "1", "applied"),
            ("total", "2", "rejected"),
            ("total", "3", "pending"),
        ]
        assert (await harness.suggestion_ids(number))[:2] == [applied, rejected]
        assert pending not in await harness.suggestion_ids(number)
        assert await harness.notes(number) == [("colour", "red")]
        row = await harness.file(number)
        assert (row.processing_status, row.processing_attempts) == ("completed", 1)


@pytest.mark.parametrize("second", [APPLY, REJECT])
async def test_of_two_decisions_the_second_is_refused(
    database_url: str, tmp_path: Path, second: SuggestionDecision
) -> None:
    async with intake_on(database_url, tmp_path, FakeAnalyzer()) as harness:
        number = await harness.put("total: 1")
        await harness.drain()
        [suggestion] = await harness.suggestion_ids(number)
        await judge(harness, number, suggestion)
        with pytest.raises(SuggestionChanged) as told:
            await judge(harness, number, suggestion, second)
        assert told.value.state == "applied"


async def test_of_many_who_decide_at_once_one_does(database_url: str, tmp_path: Path) -> None:
    async with intake_on(database_url, tmp_path, FakeAnalyzer()) as harness:
        number = await harness.put("total: 1")
        await harness.drain()
        [suggestion] = await harness.suggestion_ids(number)
        judged = await asyncio.gather(*(judge(harness, number, suggestion) for _ in range(8)), return_exceptions=True)
        assert sorted(map(type, judged), key=str) == [type(None), *[SuggestionChanged] * 7]


async def test_a_suggestion_that_was_replaced_can_t_be_applied(database_url: str, tmp_path: Path) -> None:
    async with intake_on(database_url, tmp_path, FakeAnalyzer()) as harness:
        number = await harness.put("total: 1")
        await harness.drain()
        [suggestion] = await harness.suggestion_ids(number)
        await read_again(harness, number)
        with pytest.raises(SuggestionChanged) as told:
            await judge(harness, number, suggestion)
        assert told.value.state is None
        with pytest.raises(UnknownFile):
            await judge(harness, 999, suggestion)


async def test_a_decision_while_the_file_is_read_again_is_kept(database_url: str, tmp_path: Path) -> None:
    """Who rejects before the new result commits, has rejected. Nothing is applied meanwhile."""
    analyzer = FakeAnalyzer()
    async with intake_on(database_url, tmp_path, analyzer) as harness:
        number = await harness.put("total: 1")
        await harness.drain()
        [suggestion] = await harness.suggestion_ids(number)
        analyzer.go.clear()
        analyzer.reading.clear()
        again = asyncio.create_task(read_again(harness, number))
        await analyzer.reading.wait()
        with pytest.raises(BeingProcessed):
            await judge(harness, number, suggestion)
        await judge(harness, number, suggestion, REJECT)
        analyzer.go.set()
        await again
        assert await harness.suggestions(number) == [("total", "1", "rejected")]
