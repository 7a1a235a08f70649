"""Tasks of Celery that compare inventories, delete old rows, and call functions of others."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa
from celery import Celery

import rowmill as rm
from rowmill import reconcile
from rowmill.errors import DeclarationError
from rowmill.integrations.celery import call_task, prune_task, reconcile_task
from rowmill.integrations.celery.loop_thread import close_loop_thread
from rowmill.reconcile import runs
from tests.integrations.parcels import put, states


@pytest.fixture
def compared(mill: rm.Mill) -> rm.Mill:
    """A mill with a reconciliation of two inventories that do not agree."""
    mill.reconciliation(
        "shelves",
        inventories={"list": reconcile.inventory(["a", "b"]), "shelf": reconcile.inventory(["b", "c"])},
        rules=[
            reconcile.missing("lost", present="list", absent="shelf"),
            reconcile.missing("unknown", present="shelf", absent="list"),
        ],
        recheck=False,
    )
    return mill


@pytest.fixture
def database_url(pg_url: str) -> str:
    """One store: these tasks know nothing of it."""
    return pg_url


def test_a_reconciliation_returns_its_counts(compared: rm.Mill, app: Celery) -> None:
    counts = reconcile_task(app, compared, "shelves")()

    assert {name: number for name, number in counts.items() if number} == {
        "findings": 2, "findings.lost": 1, "findings.unknown": 1, "new": 2
    }  # fmt: skip
    assert len(asyncio.run(compared.reconciliations["shelves"].history())) == 1


def test_a_plan_is_not_recorded(compared: rm.Mill, app: Celery) -> None:
    plan = reconcile_task(app, compared, "shelves", execute=False)

    assert (plan()["findings"], plan.name) == (2, "reconcile_shelves")
    assert asyncio.run(compared.reconciliations["shelves"].history()) == []


def test_a_reconciliation_that_another_process_runs_is_skipped(compared: rm.Mill, app: Celery) -> None:
    name = "shelves"
    assert asyncio.run(compared.run(lambda c: runs.begin(c, name, 60.0))) is not None

    assert reconcile_task(app, compared, name)() == {"skipped": 1}


def test_a_reconciliation_that_is_not_declared_is_refused(compared: rm.Mill, app: Celery) -> None:
    with pytest.raises(DeclarationError, match="shelves"):
        reconcile_task(app, compared, "shelfs")()


def test_old_rows_are_deleted(mill: rm.Mill, app: Celery) -> None:
    mill["label"].retention = rm.Retention(done=rm.days(1))
    put(mill, "a", "b", queue="label")
    put(mill, "c")
    table, week_ago = mill["label"].table, datetime.now(UTC) - timedelta(days=7)
    finished = sa.update(table).where(table.c.title == "a").values(state="done", finished_at=week_ago)
    asyncio.run(mill.run(lambda c: c.execute(finished).close()))

    assert prune_task(app, mill)() == {"label.done": 1, "own_tables": 0}
    assert prune_task(app, mill, queue="label", name="prune_labels")() == {"label.done": 0, "own_tables": 0}
    assert (states(mill, "label"), states(mill)) == ({"ready": 1}, {"ready": 1})


def test_a_queue_that_keeps_its_rows_for_ever_is_not_pruned(mill: rm.Mill, app: Celery) -> None:
    with pytest.raises(DeclarationError, match="retention"):
        prune_task(app, mill, queue="parcel")()


@dataclass
class Imported:
    rows: int
    source: str
    by_kind: dict[str, int]


def test_a_function_of_yours_returns_its_numbers(app: Celery) -> None:
    async def import_prices() -> Imported:
        return Imported(3, "a name that nobody may see", {"new": 2})

    task = call_task(app, import_prices, ignore_result=True)

    assert (task(), task.name, task.ignore_result) == ({"rows": 3, "by_kind.new": 2}, "import_prices", True)


def test_a_lifespan_is_entered_once_and_left_when_the_process_ends(app: Celery) -> None:
    seen: list[str] = []

    @asynccontextmanager
    async def client() -> AsyncIterator[None]:
        seen.append("open")
        yield
        seen.append("closed")

    async def look() -> int:
        return len(seen)

    first, second = (call_task(app, look, name=name, lifespan=client) for name in "ab")
    assert [first(), second(), first()] == [{"rows": 1}] * 3
    close_loop_thread()
    assert seen == ["open", "closed"]


def test_a_lifespan_that_can_t_be_entered_is_tried_again_by_the_next_task(app: Celery) -> None:
    errors = [ConnectionError("away")]

    @asynccontextmanager
    async def client() -> AsyncIterator[None]:
        if errors:
            raise errors.pop()
        yield

    async def look() -> int:
        return 1

    task = call_task(app, look, lifespan=client)
    with pytest.raises(ConnectionError):
        task()
    assert task() == {"rows": 1}
