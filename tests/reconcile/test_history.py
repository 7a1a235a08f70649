"""One run at a time, what is remembered of runs, and who is told."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import Connection
from sqlalchemy.ext.asyncio import AsyncConnection

import rowmill as rm
from rowmill import reconcile
from rowmill.maintenance import cleanup
from rowmill.reconcile import runs
from rowmill.store.clock import moment
from rowmill.store.own.schema import own_tables
from tests.reconcile.warehouse import Warehouse

LOST, ORPHAN, STUCK = "ready_without_vectors", "vectors_without_document", "stuck"


async def test_more_findings_than_usual_raise_an_alert(house: Warehouse) -> None:
    await house.put(range(1, 6))
    documents = house.declare()
    await documents.run(execute=True)
    assert house.emitted("alert") == []

    await house.put([6])
    await documents.run(execute=True)
    [alert] = house.emitted("alert")
    assert (alert["alert"], alert["severity"], alert["drift"]) == ("RECONCILIATION_DRIFT", "ERROR", 6)
    assert [one["drift"] for one in house.emitted("reconciled")] == [5, 6]
    assert [one["key"] for one in house.emitted("finding") if one["new"]] == ["1", "2", "3", "4", "5", "6"]


async def test_the_history_tells_what_runs_found_and_did(house: Warehouse) -> None:
    await house.put([1, 2])
    documents = house.declare(correct=house.reprocess, cap=1)
    await documents.run(execute=True)
    house.vectors.keys = {1, 2}
    await documents.run(execute=True)

    [second, first] = await documents.history()
    assert (first.outcome, first.findings, first.corrected, first.remaining) == ("ok", 2, 1, 1)
    assert first.kinds == {LOST: 2}
    assert (second.findings, second.corrected, second.closed) == (0, 0, 2)
    assert first.started_at is not None
    assert second.ended_at is not None
    assert first.started_at <= second.ended_at


async def test_open_findings_are_listed_in_pages_until_they_are_resolved(house: Warehouse) -> None:
    await house.put([1, 2])
    house.vectors.keys = {99}
    documents = house.declare(correct={LOST: house.reprocess})
    await documents.run()
    assert await documents.findings() == [], "a plan records nothing"

    await documents.run(execute=True)
    listed = await documents.findings()
    assert [(one.kind, one.key, one.corrections) for one in listed] == [
        (LOST, "1", 1),
        (LOST, "2", 1),
        (ORPHAN, "99", 0),
    ]
    assert all(one.found_at is not None and one.seen_at is not None for one in listed)
    assert [one.corrected_at is None for one in listed] == [False, False, True]
    assert await documents.findings(LOST, limit=1) == listed[:1]
    assert await documents.findings(after=(LOST, "1")) == listed[1:]

    house.vectors.keys = {1, 2}
    await documents.run(execute=True)
    assert await documents.findings() == []


async def test_one_run_at_a_time(house: Warehouse) -> None:
    await house.put([1])
    begun, go = asyncio.Event(), asyncio.Event()

    async def slow(findings: Sequence[reconcile.Finding], tx: AsyncConnection) -> None:
        raise AssertionError("never called")

    async def points() -> Any:
        if not begun.is_set():
            begun.set()
            await go.wait()
        yield 1

    documents = house.mill.reconciliation(
        "documents",
        inventories={"documents": reconcile.rows(house.document), "vectors": reconcile.inventory(points)},
        rules=[reconcile.missing(LOST, present="documents", absent="vectors")],
        correct=slow,
    )
    first = asyncio.create_task(documents.run(execute=True))
    await begun.wait()
    with pytest.raises(rm.errors.ReconciliationBusy, match="One run at a time"):
        await documents.run(execute=True)
    go.set()
    assert (await first).drift == 0
    assert (await documents.run(execute=True)).drift == 0, "the next may begin at once"


async def test_a_run_that_was_taken_over_writes_nothing(house: Warehouse) -> None:
    """A process that was frozen past its lease, and wakes up while another one runs."""
    await house.put([1])
    taken = asyncio.Event()

    async def points() -> Any:
        await house.let_run_expire()
        assert await house.mill.run(lambda connection: runs.begin(connection, "documents", 3600)) == 2
        taken.set()
        for key in list[int]():
            yield key

    documents = house.mill.reconciliation(
        "documents",
        inventories={"documents": reconcile.rows(house.document), "vectors": reconcile.inventory(points)},
        rules=[reconcile.missing(LOST, present="documents", absent="vectors")],
        correct=house.reprocess,
        lease=3600,
    )
    with pytest.raises(rm.errors.ReconciliationBusy, match="taken over"):
        await documents.run(execute=True)

    assert taken.is_set()
    assert await house.sent() == []
    assert await house.open_findings() == []
    assert [one.outcome for one in await documents.history()] == [None, "abandoned"]


async def test_a_long_run_is_held_while_it_goes_on(house: Warehouse) -> None:
    """Its lease is renewed: the time of the run moves on in the table while an inventory takes its time."""
    await house.put([1])

    async def until_renewed() -> Any:
        own = own_tables(house.mill.store.dialect.name).reconciliation
        wanted = sa.select(own.c.until)
        before = await house.mill.run(lambda c: c.scalar(wanted))
        async with asyncio.timeout(20):
            while await house.mill.run(lambda c: c.scalar(wanted)) == before:
                await asyncio.sleep(0.01)
        yield 1

    documents = house.mill.reconciliation(
        "documents",
        inventories={"documents": reconcile.rows(house.document), "vectors": reconcile.inventory(until_renewed)},
        rules=[reconcile.missing(LOST, present="documents", absent="vectors")],
        lease=0.3,
    )
    report = await documents.run(execute=True)
    assert (report.drift, report.unreadable) == (0, []), "it did not wait in vain"


async def test_old_findings_and_runs_are_tidied_and_open_ones_stay(house: Warehouse) -> None:
    await house.put([1, 2])
    documents = house.declare()
    await documents.run(execute=True)
    house.vectors.keys = {1}
    await documents.run(execute=True)

    def tidy(connection: Connection) -> list[int]:
        cleanup.tidy(connection, keep=-60.0)  # as if a minute had passed
        own = own_tables(connection.dialect.name)
        return [
            connection.scalar(sa.select(sa.func.count()).select_from(t)) or 0 for t in (own.finding, own.reconciliation)
        ]

    assert await house.mill.run(tidy) == [1, 1]
    assert [one.outcome for one in await documents.history()] == ["ok"], "the last run is remembered"


async def test_findings_of_a_rule_that_is_gone_are_closed_in_time(house: Warehouse) -> None:
    house.vectors.keys = {99}
    await house.declare().run(execute=True)
    documents = house.mill.reconciliation(
        "documents again",
        inventories={"documents": reconcile.rows(house.document)},
        rules=[reconcile.stale("any", present="documents")],
    )
    own = own_tables(house.mill.store.dialect.name).finding
    await house.mill.run(lambda c: c.execute(sa.update(own).values(reconciliation="documents again")).close())
    await documents.run(execute=True)
    assert len(await house.open_findings()) == 1, "not at once: others may still have the rule"

    def age(connection: Connection) -> None:
        connection.execute(sa.update(own).values(seen_at=moment(connection.dialect.name, -8 * 86400.0)))

    await house.mill.run(age)
    await documents.run(execute=True)
    assert await house.open_findings() == []
