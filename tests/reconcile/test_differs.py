"""Rules about keys that several inventories have, and do not agree about."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import rowmill as rm
from rowmill import reconcile
from rowmill.errors import DeclarationError

NOW = datetime.now(UTC)
OLD, YOUNG = NOW - timedelta(hours=1), NOW
COUNTS = reconcile.differs("count", present=("rows", "points"), when=lambda row, points: row["n"] != points["n"])


async def counts_of(database_url: str, rows: dict[str, Any], points: dict[str, Any]) -> reconcile.Reconciled:
    made = rm.Mill(database_url).reconciliation(
        "counts",
        inventories={
            "rows": reconcile.inventory(lambda: sorted(rows.items())),
            "points": reconcile.inventory(lambda: sorted(points.items())),
        },
        rules=[COUNTS],
        grace=rm.minutes(10),
    )
    return await made.run()


async def test_what_both_have_and_count_differently_is_found(database_url: str) -> None:
    rows = {key: {"n": 2, "at": OLD} for key in ("a", "b", "c")}
    points = {"a": {"n": 2, "at": OLD}, "b": {"n": 1, "at": OLD}, "d": {"n": 9, "at": OLD}}
    report = await counts_of(database_url, rows, points)
    assert [(found.kind, found.key) for found in report.findings] == [("count", "b")]


async def test_what_changed_a_moment_ago_is_in_flight(database_url: str) -> None:
    report = await counts_of(database_url, {"a": {"n": 2, "at": OLD}}, {"a": {"n": 1, "at": YOUNG}})
    assert (report.counts, report.in_flight) == ({}, 1)


def test_one_inventory_is_not_compared_with_itself(database_url: str) -> None:
    mill = rm.Mill(database_url)
    with pytest.raises(DeclarationError, match="at least two"):
        mill.reconciliation(
            "counts",
            inventories={"rows": reconcile.inventory(list)},
            rules=[reconcile.differs("count", present=("rows",), when=lambda row: True)],
        )
