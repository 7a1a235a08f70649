"""A pipeline of stages over one state column."""

from typing import Any

import sqlalchemy as sa
from sqlalchemy import Column

from rowmill import Dead, Done, Lease, Mill, Queue, Retry, RetryLater, Stage, States, TransientError, fixed
from tests.conformance.fleet import Member, jobs, worker

SOON = Retry(attempts=3, backoff=fixed(0))


def pipeline(mill: Mill) -> Queue[Any]:
    return mill.queue(
        jobs(Column("link", sa.Text), Column("facts", sa.Text)),
        states=States(done="complete", dead="failed"),
        stages=[
            Stage("link", "pending", "linking", waiting="link failed", retry=SOON),
            Stage("enrich", "linked", "enriching", waiting="enrich failed", retry=SOON),
            Stage("save", "enriched", "saving", retry=SOON),
        ],
    )


class Journey:
    """Handlers for every stage that write down what they saw."""

    def __init__(self, member: Member, **answers: list[Any]) -> None:
        self.seen: list[tuple[str, int]] = []
        self.answers = answers
        for step in member.queue.steps:
            member.queue.handler(stage=step.name)(self.handle)

    async def handle(self, lease: Lease[Any]) -> Any:
        self.seen.append((lease.stage, lease.attempt))
        queued = self.answers.get(lease.stage, [])
        answer = queued.pop(0) if queued else None
        if isinstance(answer, Exception):
            raise answer
        return answer


async def test_a_row_travels_through_every_stage(database_url: str) -> None:
    async with worker(database_url, pipeline) as member:
        journey = Journey(member, link=[{"link": "Q1"}], enrich=[Done({"facts": "many"})])
        await member.put({})
        report = await member.bench.drain()
        assert journey.seen == [("link", 1), ("enrich", 1), ("save", 1)]
        assert (report.settled, report.claimed) == ({"advance": 2, "done": 1}, 3)
        row = await member.row()
        assert (row.state, row.link, row.facts, row.attempts, row.error) == ("complete", "Q1", "many", 1, None)
        assert row.finished_at is not None


async def test_moving_on_resets_the_attempts(database_url: str) -> None:
    async with worker(database_url, pipeline) as member:
        await member.put({"attempts": 2})
        [lease] = await member.claim(stage="link")
        assert lease.attempt == 3
        await member.settle((lease, None))
        row = await member.row()
        assert (row.state, row.attempts, row.finished_at) == ("linked", 0, None)
        [lease] = await member.claim(stage="enrich")
        assert lease.attempt == 1


async def test_a_retry_resumes_at_the_stage_that_failed(database_url: str) -> None:
    """What an earlier stage found is not looked for again."""
    async with worker(database_url, pipeline) as member:
        failures = [TransientError("slow"), ValueError("odd")]
        journey = Journey(member, link=[{"link": "Q1"}], enrich=failures)
        await member.put({})
        await member.bench.drain()
        assert journey.seen == [("link", 1), ("enrich", 1), ("enrich", 2), ("enrich", 3), ("save", 1)]
        assert (await member.row()).state == "complete"
        found = [(entry.stage, entry.attempt, entry.code) for entry in await member.own("attempt")]
        assert found == [("enrich", 1, "transient"), ("enrich", 2, "ValueError")]


async def test_a_failing_stage_waits_under_its_own_word(database_url: str) -> None:
    async with worker(database_url, pipeline) as member:
        Journey(member, link=[RetryLater(500)])
        await member.put({})
        await member.bench.drain()
        assert (await member.row()).state == "link failed"
        await member.bench.advance(501)
        Journey(member, enrich=[RetryLater(500, "later")])
        await member.bench.drain()
        row = await member.row()
        assert (row.state, row.error) == ("enrich failed", "later")


async def test_a_stage_without_a_word_for_waiting_is_ready_again(database_url: str) -> None:
    async with worker(database_url, pipeline) as member:
        Journey(member, save=[RetryLater(500)])
        await member.put({})
        await member.bench.drain()
        assert (await member.row()).state == "enriched"


async def test_after_the_last_try_a_row_is_dead(database_url: str) -> None:
    async with worker(database_url, pipeline) as member:
        journey = Journey(member, enrich=[OSError("down")] * 5)
        await member.put({})
        await member.bench.drain()
        row = await member.row()
        assert journey.seen == [("link", 1), ("enrich", 1), ("enrich", 2), ("enrich", 3)]
        assert (row.state, row.attempts, row.error) == ("failed", 3, "OSError: down")


async def test_done_may_end_the_journey_early(database_url: str) -> None:
    async with worker(database_url, pipeline) as member:
        journey = Journey(member, link=[Done({"link": None, "facts": "none found"}, finish=True)])
        await member.put({})
        await member.bench.drain()
        row = await member.row()
        assert (journey.seen, row.state, row.facts) == ([("link", 1)], "complete", "none found")


async def test_dead_in_the_middle_stays_dead(database_url: str) -> None:
    async with worker(database_url, pipeline) as member:
        journey = Journey(member, enrich=[Dead("gone", "deleted upstream")])
        await member.put({})
        await member.bench.drain()
        await member.bench.drain()
        row = await member.row()
        assert (len(journey.seen), row.state, row.error) == (2, "failed", "gone: deleted upstream")


async def test_a_stage_takes_only_its_own_rows(database_url: str) -> None:
    async with worker(database_url, pipeline) as member:
        states = ["pending", "linking", "link failed", "linked", "enriching", "enrich failed", "enriched", "complete"]
        await member.put(*({"state": state} for state in states))
        by_stage = {
            step.name: sorted(lease.row.title or str(lease.key) for lease in await member.claim(10, step.name))
            for step in member.queue.steps
        }
        assert by_stage == {"link": ["1", "3"], "enrich": ["4", "6"], "save": ["7"]}


async def test_a_worker_may_run_only_some_of_the_stages(database_url: str) -> None:
    async with worker(database_url, pipeline) as member:
        await member.put({})

        @member.queue.handler(stage="link")
        async def link(lease: Lease[Any]) -> None:
            pass

        await member.bench.drain()
        assert (await member.row()).state == "linked"
