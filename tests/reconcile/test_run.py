"""Runs on both stores: found once, closed when mended, and nothing concluded from silence."""

import random
import string
from collections.abc import Sequence
from uuid import uuid4

import pytest
import sqlalchemy as sa

import rowmill as rm
from rowmill import reconcile
from tests.reconcile.warehouse import OLD, Warehouse

LOST, ORPHAN, STUCK = "ready_without_vectors", "vectors_without_document", "stuck"


async def test_a_plan_finds_everything_and_writes_nothing(house: Warehouse) -> None:
    await house.put(range(1, 11))
    await house.put([20], "PROCESSING")
    await house.put([21], "PROCESSING", age=60)
    house.vectors.keys = {*range(1, 9), 99}
    report = await house.declare(correct={LOST: house.reprocess}, cap=1, alert_above=0).run()

    assert report.counts == {LOST: 2, ORPHAN: 1, STUCK: 1}
    assert [(one.kind, one.key) for one in report.findings] == [(LOST, 9), (LOST, 10), (STUCK, 20), (ORPHAN, 99)]
    assert (report.planned, report.corrected, report.remaining, report.drift) == (1, 0, 1, 4)
    assert report.observed == {"documents": 12, "vectors": 9}
    assert await house.sent() == []
    assert await house.open_findings() == []
    assert house.emitted("alert") == []
    assert await house.declare().history() == []


async def test_a_plan_of_some_rules_reads_what_they_need(house: Warehouse) -> None:
    await house.put([1])
    await house.put([20], "PROCESSING")
    house.vectors.fails_after = 0
    documents = house.declare(correct={LOST: house.reprocess})

    report = await documents.run(only=[STUCK])
    assert (report.counts, report.observed, report.unreadable) == ({STUCK: 1}, {"documents": 2}, [])
    with pytest.raises(rm.errors.BadRequest, match=f"has no rule odd. It has: {LOST}, {ORPHAN}, {STUCK}"):
        await documents.run(only=[STUCK, "odd"])
    with pytest.raises(rm.errors.BadRequest, match="is for plans"):
        await documents.run(execute=True, only=[STUCK])


async def test_a_second_run_finds_nothing_new_to_do(house: Warehouse) -> None:
    await house.put(range(1, 6))
    house.vectors.keys = {1, 2, 3, 99}
    documents = house.declare(correct={LOST: house.reprocess})
    first = await documents.run(execute=True)
    second = await documents.run(execute=True)

    assert (first.new, first.corrected, first.drift) == (3, 2, 3)
    assert (second.new, second.corrected, second.drift) == (0, 0, 3)
    assert await house.sent() == [4, 5]
    assert await house.open_findings() == [(LOST, "4"), (LOST, "5"), (ORPHAN, "99")]
    assert [one.found_at for one in second.findings] == [one.found_at for one in first.findings]


async def test_what_is_mended_is_closed_and_found_anew_if_it_comes_back(house: Warehouse) -> None:
    await house.put([1, 2])
    documents = house.declare(correct=house.reprocess)
    await documents.run(execute=True)
    house.vectors.keys = {1, 2}
    mended = await documents.run(execute=True)
    assert (mended.drift, mended.closed) == (0, 2)
    assert await house.open_findings() == []

    house.vectors.keys = {1}
    again = await documents.run(execute=True)
    assert (again.new, again.corrected) == (1, 1)
    assert await house.sent() == [1, 2, 2]


async def test_what_is_in_flight_is_no_finding_and_no_proof_of_mending(house: Warehouse) -> None:
    await house.put([1], age=30)
    await house.put([2])
    documents = house.declare(correct=house.reprocess, grace=300)
    first = await documents.run(execute=True)
    assert (first.counts, first.in_flight) == ({LOST: 1}, 1)

    await house.change(2, age=0)
    second = await documents.run(execute=True)
    assert (second.drift, second.in_flight, second.closed) == (0, 2, 0)
    await house.change(2, age=OLD)
    await documents.run(execute=True)
    assert await house.sent() == [2], "it was open all the time: no second correction"


async def test_an_outage_is_no_finding_and_closes_none(house: Warehouse) -> None:
    await house.put(range(1, 101))
    house.vectors.keys = set(range(1, 101)) - {10, 90}
    documents = house.declare(correct=house.reprocess)
    await documents.run(execute=True)
    house.vectors.fails_after = 49
    house.vectors.keys |= {10}

    report = await documents.run(execute=True)

    assert report.counts == {}
    assert [(one.inventory, one.code, one.upto) for one in report.unreadable] == [("vectors", "qdrant_down", "49")]
    assert report.closed == 0
    assert await house.open_findings() == [(LOST, "10"), (LOST, "90")]
    assert [one["inventory"] for one in house.emitted("inventory_unreadable")] == ["vectors"]
    [last, _] = await documents.history()
    assert last.outcome == "incomplete"
    assert last.unreadable == [{"inventory": "vectors", "code": "qdrant_down", "upto": "49"}]


async def test_what_was_observed_before_an_outage_stands(house: Warehouse) -> None:
    await house.put(range(1, 101))
    await house.put([200], "PROCESSING")
    house.vectors.keys = set(range(1, 101)) - {10, 90}
    house.vectors.fails_after = 50

    report = await house.declare(look=False, correct=house.reprocess).run(execute=True)

    assert report.counts == {LOST: 1, STUCK: 1}, "rules that do not need vectors go on to the end"
    assert await house.sent() == [10, 200]


async def test_findings_that_rest_on_too_few_things_are_dropped(house: Warehouse) -> None:
    await house.put(range(1, 11))
    house.vectors.keys = {1, 2, 3, 99}
    documents = house.mill.reconciliation(
        "documents",
        inventories={
            "documents": reconcile.rows(house.document),
            "vectors": reconcile.inventory(house.vectors.points, expects=10),
        },
        rules=[
            reconcile.missing(LOST, present="documents", absent="vectors"),
            reconcile.missing(ORPHAN, present="vectors", absent="documents"),
        ],
        correct={LOST: house.reprocess},
    )
    report = await documents.run(execute=True)

    assert (report.counts, report.inconclusive) == ({ORPHAN: 1}, 7), "what it did give is there"
    assert await house.sent() == []
    assert [one.code for one in report.unreadable] == ["too_few"]


async def test_suspects_are_looked_at_again(house: Warehouse) -> None:
    """A document whose vectors came while others were read, and one that was deleted meanwhile."""
    await house.put([1, 2, 3])

    async def late(keys: Sequence[int]) -> list[int]:
        await house.mill.run(lambda c: c.execute(sa.delete(house.document).where(house.document.c.id == 2)).close())
        return [1]

    documents = house.mill.reconciliation(
        "documents",
        inventories={
            "vectors": reconcile.inventory(house.vectors.points, look=late),
            "documents": reconcile.rows(house.document),
        },
        rules=[reconcile.missing(LOST, present="documents", absent="vectors")],
    )
    report = await documents.run(execute=True)

    assert [one.key for one in report.findings] == [3]
    assert report.cleared == 2


async def test_a_second_look_that_fails_is_no_finding(house: Warehouse) -> None:
    await house.put([1])
    house.vectors.looks_fail = True
    documents = house.declare(correct=house.reprocess)
    report = await documents.run(execute=True)

    assert (report.counts, report.inconclusive) == ({}, 1)
    assert [(one.inventory, one.upto) for one in report.unreadable] == [("vectors", None)]
    assert await house.sent() == []


async def test_an_inventory_out_of_order_ends_the_run_before_anything_is_written(house: Warehouse) -> None:
    await house.put(range(1, 11))
    documents = house.mill.reconciliation(
        "documents",
        inventories={"documents": reconcile.rows(house.document), "vectors": reconcile.inventory([8, 9, 7])},
        rules=[reconcile.missing(LOST, present="documents", absent="vectors")],
        correct=house.reprocess,
    )
    with pytest.raises(rm.errors.InventoryError, match="9 at position 2, then 7 at position 3"):
        await documents.run(execute=True)

    assert await house.sent() == []
    assert await house.open_findings() == []
    assert [one.outcome for one in await documents.history()] == ["failed"]


async def test_uuids_are_the_same_wherever_they_come_from(house: Warehouse) -> None:
    """Drivers have classes of their own for them."""
    table = sa.Table("entity", sa.MetaData(), sa.Column("id", sa.Uuid, primary_key=True), sa.Column("other", sa.Uuid))
    keys = sorted(uuid4() for _ in range(20))
    await house.mill.run(table.create)
    await house.mill.run(lambda c: c.execute(sa.insert(table), [{"id": key, "other": key} for key in keys[1:]]).close())
    entities = house.mill.reconciliation(
        "entities",
        inventories={
            "rows": reconcile.rows(table),
            "others": reconcile.rows(table, key="other"),
            "mine": reconcile.inventory(keys[:-1]),
        },
        rules=[
            reconcile.missing("row_only", present=["rows", "others"], absent="mine"),
            reconcile.missing("mine_only", present="mine", absent=["rows", "others"]),
            reconcile.missing("never", present="rows", absent="others"),
        ],
    )
    report = await entities.run(execute=True)
    assert [(one.kind, one.key) for one in report.findings] == [("mine_only", keys[0]), ("row_only", keys[-1])]


async def test_keys_that_no_index_would_take_are_findings_too(house: Warehouse) -> None:
    long = "".join(random.Random(1).choices(string.ascii_letters, k=20_000))  # not one that an index could compress
    keys = sorted([f"{long}x", f"{long}y", "nul\x00", "odd\udc80"])
    documents = house.mill.reconciliation(
        "odd",
        inventories={"here": reconcile.inventory(keys), "there": reconcile.inventory([])},
        rules=[reconcile.missing(LOST, present="here", absent="there")],
    )
    first, second = await documents.run(execute=True), await documents.run(execute=True)
    assert (first.new, second.new, second.drift) == (4, 0, 4)
