"""Corrections: once while a finding is open, so many in a run, and what becomes of those that fail."""

from collections.abc import Sequence
from datetime import timedelta

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

import rowmill as rm
from rowmill import reconcile
from tests.reconcile.warehouse import Warehouse

LOST, ORPHAN, STUCK = "ready_without_vectors", "vectors_without_document", "stuck"


async def test_the_cap_leaves_the_rest_to_the_next_run(house: Warehouse) -> None:
    await house.put(range(1, 451))
    documents = house.declare(correct=house.reprocess, cap=300)
    first = await documents.run(execute=True)
    second = await documents.run(execute=True)
    third = await documents.run(execute=True)

    assert [(one.corrected, one.remaining) for one in (first, second, third)] == [(300, 150), (150, 0), (0, 0)]
    assert first.counts == {LOST: 450}, "all are reported"
    assert await house.sent() == list(range(1, 451))


async def test_one_bad_finding_does_not_keep_the_others_from_being_mended(house: Warehouse) -> None:
    await house.put(range(1, 8))

    async def picky(findings: Sequence[reconcile.Finding], tx: AsyncConnection) -> None:
        await house.reprocess(findings, tx)
        if any(finding.key == 4 for finding in findings):
            await tx.execute(sa.text("SELECT no_such_column FROM outbox"))

    documents = house.declare(correct=picky)
    report = await documents.run(execute=True)

    assert (report.corrected, report.failed) == (6, 1)
    assert await house.sent() == [1, 2, 3, 5, 6, 7], "what the bad one wrote is undone"
    assert house.emitted("uncorrected")
    assert [(one.corrected, one.failed) for one in [await documents.run(execute=True)]] == [(0, 1)], "it stays due"


async def test_a_correction_that_can_not_work_is_given_up(house: Warehouse) -> None:
    await house.put(range(1, 101))
    calls = []

    async def broken(findings: Sequence[reconcile.Finding], tx: AsyncConnection) -> None:
        calls.append(len(findings))
        raise OSError("the bus is down")

    report = await house.declare(correct=broken).run(execute=True)

    assert (report.corrected, report.failed, report.counts) == (0, 100, {LOST: 100})
    assert len(calls) == 5
    assert len(await house.open_findings()) == 100, "written down all the same"


async def test_a_correction_may_leave_findings_for_later(house: Warehouse) -> None:
    await house.put([1, 2])

    async def half(findings: Sequence[reconcile.Finding], tx: AsyncConnection) -> list[reconcile.Finding]:
        await house.reprocess(findings[:1], tx)
        return list(findings[:1])

    documents = house.declare(correct=half)
    assert [(await documents.run(execute=True)).corrected for _ in range(3)] == [1, 1, 0]
    assert await house.sent() == [1, 2]


async def test_rows_are_requeued_unless_they_run(house: Warehouse) -> None:
    await house.put([1, 2])
    await house.change(2, state="PROCESSING", attempts=1, lease=7)
    documents = house.declare(
        correct={LOST: reconcile.requeue(house.documents), STUCK: reconcile.requeue(house.documents)}
    )
    report = await documents.run(execute=True)

    assert (report.drift, report.corrected) == (2, 1)
    states = sa.select(house.document.c.id, house.document.c.state).order_by(house.document.c.id)
    rows = await house.mill.run(lambda connection: connection.execute(states).all())
    assert [tuple(row) for row in rows] == [(1, "ready"), (2, "PROCESSING")]


async def test_a_correction_may_be_made_again_after_its_time(house: Warehouse) -> None:
    await house.put([1])
    documents = house.declare(correct=house.reprocess, again_after=rm.hours(6))
    await documents.run(execute=True)
    await house.let_corrections_age(timedelta(hours=5))
    await documents.run(execute=True)
    assert await house.sent() == [1]

    await house.let_corrections_age(timedelta(hours=7))
    assert (await documents.run()).planned == 1
    await documents.run(execute=True)
    assert await house.sent() == [1, 1]
