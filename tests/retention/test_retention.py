"""Finished rows go after their time, in small batches; nothing else does, and nobody waits for it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import Column, Connection, event

import rowmill as rm
from rowmill.doctor import audit
from rowmill.maintenance import retention
from rowmill.maintenance.retention import AGAIN_FROM_THE_START, RetentionService, sweep
from rowmill.model.lifecycle import StateKind
from rowmill.observe.events import Events
from rowmill.operator import change
from rowmill.operator.change import ChangeResult
from rowmill.operator.filters import Filter
from rowmill.schedules import admin
from tests.conformance.fleet import Member, jobs, worker
from tests.schedules.plant import QUICK

WEEK = rm.Retention(done=rm.days(7), dead=rm.days(30))
OLD_ROWS = 50_000


@asynccontextmanager
async def member_on(url: str, keep: rm.Retention = WEEK, *more: Any) -> AsyncIterator[Member]:
    async with worker(url, lambda mill: mill.queue(jobs(*more), retention=keep)) as member:
        await member.mill.migrate()
        yield member


async def put(member: Member, key: int, state: str, days: float | None = None) -> None:
    """A row that finished so many days ago."""
    sql = member.store.sql(member.queue)
    finished = sa.null() if days is None else sa.literal_column(sql.later("finished_at", repr(-days * 86400.0)))
    new = sa.insert(member.queue.table).values(id=key, state=state, finished_at=finished)
    await member.mill.run(lambda connection: connection.execute(new).close())


async def swept(member: Member, **options: Any) -> dict[StateKind, ChangeResult]:
    return await sweep(member.store, member.queue, Events(), **options)


async def keys(member: Member) -> list[int]:
    return [row.id for row in await member.rows()]


async def test_rows_go_after_the_time_of_their_state(database_url: str) -> None:
    async with member_on(database_url) as member:
        for key, (state, days) in enumerate([("done", 8), ("done", 6), ("dead", 8), ("dead", 31), ("done", None)]):
            await put(member, key, state, days)
        await put(member, 9, "ready", 100)
        await put(member, 10, "running", 100)

        assert await swept(member) == {StateKind.DONE: ChangeResult(1), StateKind.DEAD: ChangeResult(1)}
        assert await keys(member) == [1, 2, 4, 9, 10]


async def test_without_a_time_nothing_goes(database_url: str) -> None:
    async with member_on(database_url, rm.Retention()) as member:
        await put(member, 1, "done", 10_000)
        assert await swept(member) == {}
        assert await keys(member) == [1]


async def test_a_row_that_was_requeued_meanwhile_stays(database_url: str) -> None:
    """Found while it was old and done, deleted by a statement that asks again."""
    async with member_on(database_url) as member:
        await put(member, 1, "ready", 100)
        await put(member, 2, "done", 100)
        sql = member.store.sql(member.queue)
        condition, delete = retention.old(sql, StateKind.DONE, 60.0), sa.delete(member.queue.table)
        done = await member.mill.run(lambda c: change.change_rows(c, sql, delete, [(1,), (2,)], condition))
        assert done == ChangeResult(1)
        assert await keys(member) == [1]


async def test_the_delete_of_a_sweep_asks_again_for_state_and_age(database_url: str) -> None:
    async with member_on(database_url) as member:
        await put(member, 1, "done", 100)
        sent: list[str] = []
        engine = getattr(member.store, "upkeep", None) or member.store.engine.sync_engine
        event.listen(engine, "before_cursor_execute", lambda _c, _u, statement, *_: sent.append(statement))
        await swept(member)
        [deleted] = [statement for statement in sent if statement.startswith("DELETE")]
        assert "state IN ('done')" in deleted
        assert "finished_at <=" in deleted


async def test_rows_that_are_requeued_all_the_time_are_never_deleted(database_url: str) -> None:
    async with member_on(database_url) as member:
        for key in range(40):
            await put(member, key, "done", 100)
        asked = tuple(str(key) for key in range(0, 40, 2))
        wanted = Filter(keys=asked)
        back, _ = await asyncio.gather(change.requeue(member.store, member.queue, wanted, batch=1), swept(member))
        rows = await member.rows()
        assert len(rows) == back.rows
        assert {row.state for row in rows} <= {"ready"}


async def test_rows_that_others_refer_to_are_stepped_over_and_reported(database_url: str) -> None:
    async with member_on(database_url) as member:
        note = sa.Table(
            "note", sa.MetaData(), Column("job", sa.ForeignKey(member.queue.table.c.id)), Column("text", sa.Text)
        )
        await member.mill.run(note.create)
        for key in range(20):
            await put(member, key, "done", 100 - key)
        await member.mill.run(lambda c: c.execute(sa.insert(note), [{"job": 3}, {"job": 11}]).close())
        seen: list[tuple[str, Any]] = []
        events = Events([lambda name, fields: seen.append((name, dict(fields)))])
        behind: Any = {}

        await sweep(member.store, member.queue, events, behind=behind, now=0.0)
        assert await keys(member) == [3, 11]
        assert seen == [("pruned", {"queue": "jobs", "state": "done", "rows": 18, "refused": 2})]

        await sweep(member.store, member.queue, events, behind=behind, now=60.0)
        assert len(seen) == 1, "rows that can't go are not tried again in every sweep"

        await member.mill.run(lambda c: c.execute(sa.delete(note)).close())
        await sweep(member.store, member.queue, events, behind=behind, now=AGAIN_FROM_THE_START)
        assert await keys(member) == []


async def fill(member: Member, rows: int) -> None:
    sql = member.store.sql(member.queue)
    numbers = "generate_series(1, {0}) AS s(n)" if member.postgres else (
        "(WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < {0}) SELECT n FROM s) AS s"
    )  # fmt: skip
    finished = sql.later("finished_at", repr(-100 * 86400.0))
    await member.sql(
        f"INSERT INTO jobs (id, state, finished_at) SELECT n, 'done', {finished} FROM {numbers.format(rows)}"
    )


@pytest.mark.slow
async def test_claims_go_on_while_old_rows_are_deleted(database_url: str) -> None:
    async with member_on(database_url) as member:
        await fill(member, OLD_ROWS)
        sweeping = asyncio.create_task(swept(member))
        worked = 0
        while not sweeping.done():
            await put(member, OLD_ROWS + 1 + worked, "ready")
            [lease] = await member.claim()
            assert not (await member.settle((lease, None))).lost
            worked += 1
        assert (await sweeping)[StateKind.DONE] == ChangeResult(OLD_ROWS)
        # A hundred batches: if they kept a claim waiting until the end, there would be one.
        assert worked >= 20
        assert len(await keys(member)) == worked


async def test_the_index_serves_the_sweep(database_url: str) -> None:
    """Whatever the statistics say: those of an empty table, here."""
    async with member_on(database_url) as member:
        if member.postgres:
            await member.sql("ALTER TABLE jobs SET (autovacuum_enabled = false)")
            await member.sql("ANALYZE jobs")
        await fill(member, 20_000)
        sql = member.store.sql(member.queue)
        plans: list[str] = []

        def explained(connection: Connection, _cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
            if "jobs" in statement and not statement.startswith("EXPLAIN") and "finished_at" in statement:
                how = "EXPLAIN" if member.postgres else "EXPLAIN QUERY PLAN"
                rows = connection.exec_driver_sql(f"{how} {statement}", parameters).all()
                plans.append("\n".join(str(row[-1]) for row in rows))

        engine = getattr(member.store, "upkeep", None) or member.store.engine.sync_engine
        event.listen(engine, "before_cursor_execute", explained)
        first = await member.mill.run(lambda c: retention.delete_some(c, sql, StateKind.DONE, 60.0, None))
        second = await member.mill.run(lambda c: retention.delete_some(c, sql, StateKind.DONE, 60.0, first.last))
        event.remove(engine, "before_cursor_execute", explained)

        looks, deletes = plans[0::2], plans[1::2]
        assert len(plans) == 4
        assert first.changed == second.changed == ChangeResult(retention.BATCH)
        for plan in looks:
            assert "rowmill_jobs_done_finished" in plan, plan
            assert "Sort" not in plan, plan
            assert "TEMP B-TREE" not in plan, plan
        for plan in deletes:
            assert "jobs_pkey" in plan or "INTEGER PRIMARY KEY" in plan, plan


async def test_the_doctor_misses_the_index(database_url: str) -> None:
    async with member_on(database_url) as member:
        assert not [f for f in await audit(member.store, [member.queue]) if f.code == "index_missing"]
        await member.sql("DROP INDEX rowmill_jobs_dead_finished")
        [found] = [f for f in await audit(member.store, [member.queue]) if f.code == "index_missing"]
        assert "rowmill_jobs_dead_finished" in found.what


async def test_only_the_leader_sweeps(database_url: str) -> None:
    async with member_on(database_url) as member:
        await put(member, 1, "done", 100)
        leads = False
        service = RetentionService(member.store, [member.queue], Events(), leading=lambda: leads)
        await service.sweep(0.0)
        assert await keys(member) == [1]
        leads = True
        await service.sweep(0.0)
        assert await keys(member) == []


async def test_a_worker_deletes_what_is_kept_no_longer(database_url: str) -> None:
    async with member_on(database_url) as member:
        await put(member, 1, "done", 100)
        member.queue.handler()(lambda job: None)
        gone = asyncio.Event()
        member.mill.observe(lambda name, fields: gone.set() if name == "pruned" else None)
        async with member.mill.worker(settings=QUICK) as running:
            working = asyncio.create_task(running.run())
            async with asyncio.timeout(30):
                await gone.wait()
            running.stop()
            await working
        assert await keys(member) == []


async def test_rows_may_go_by_a_schedule_instead(database_url: str) -> None:
    keep = rm.Retention(done=rm.days(7), dead=rm.days(30), cron="0 3 * * *")
    async with member_on(database_url, keep) as member:
        await put(member, 1, "done", 100)
        await put(member, 2, "dead", 8)
        schedule = member.mill.find_schedule("prune jobs")
        assert schedule.timing.text == "0 3 * * *"
        service = RetentionService(member.store, [member.queue], Events(), leading=lambda: True)
        await service.sweep(0.0)
        assert await keys(member) == [1, 2]

        await member.mill.run(lambda c: admin.run_now(c, schedule))
        counted: list[Any] = []
        member.mill.observe(lambda name, fields: counted.append(dict(fields)) if name == "pruned" else None)
        assert (await member.mill.drain(["rowmill_tick"], settings=QUICK)).done == 1
        assert await keys(member) == [2]
        assert counted == [{"queue": "jobs", "state": "done", "rows": 1, "refused": 0}]


@pytest.mark.parametrize(
    ("keep", "fix"),
    [
        (rm.Retention(done=-1), r"Retention\(done=\.\.\.\) must be a time"),
        (rm.Retention(dead=float("nan")), r"Retention\(dead=\.\.\.\)"),
        (rm.Retention(cancelled=1), "no word for"),
        (rm.Retention(done=1, cron="never"), "not a cron expression"),
    ],
)
def test_a_wrong_time_is_refused(keep: rm.Retention, fix: str) -> None:
    with pytest.raises(rm.errors.DeclarationError, match=fix):
        rm.Mill("sqlite:///nowhere.db").queue(jobs(), retention=keep)
