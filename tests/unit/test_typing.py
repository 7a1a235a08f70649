"""A row is typed all the way to the handler: a type checker knows `lease.row.title`, and finds mistakes.

Lines that end in `# E: text` must be errors with that text; no other line may be one.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]

USE = """
from datetime import timedelta
from typing import Any, assert_type

import sqlalchemy as sa
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column
from sqlalchemy.ext.asyncio import AsyncSession

import rowmill as rm


class Base(DeclarativeBase):
    pass


class Article(rm.QueueMixin, Base):
    __tablename__ = "articles"
    id: Mapped[int] = mapped_column(primary_key=True)
    title: Mapped[str]
    score: Mapped[float | None]


mill = rm.Mill("sqlite:///articles.db")
articles = mill.queue(
    Article, retry=rm.Retry(attempts=5), lease=rm.minutes(5), states=rm.States(ready="new"), load=["title"]
)
assert_type(articles, rm.Queue[Article])


@articles.handler(concurrency=8, timeout=30)
async def classify(lease: rm.Lease[Article]) -> rm.Done | dict[str, float]:
    assert_type(lease.row, Article)
    assert_type(lease.row.title, str)
    assert_type(lease.row.score, float | None)
    assert_type(lease.attempt, int)
    lease.row.titel  # E: "Article" has no attribute "titel"
    lease.row.title + 1  # E: Unsupported operand types
    assert_type(await lease.fetch("title"), Any)
    async with lease.settling() as session:
        assert_type(session, AsyncSession)
    if lease.last_attempt:
        return rm.Done({"score": 1.0})
    return {"score": 0.5}


@articles.handler
async def classify_without_options(lease: rm.Lease[Article]) -> dict[str, float]:
    assert_type(lease.row.title, str)
    return {"score": 0.5}


@articles.handler  # E: has incompatible type
async def wrong_row_without_options(lease: rm.Lease[int]) -> None:
    pass


async def ask() -> None:
    assert_type((await articles.counts()).dead, int)
    assert_type(await articles.list(state="dead", where=Article.title == "cup"), list[rm.operator.RowView])
    assert_type(articles.list_sync(since=rm.hours(1)), list[rm.operator.RowView])
    assert_type((await articles.why(1)).row.state, str | None)
    assert_type(await articles.requeue(1, 2, to_stage="work"), int)
    assert_type(articles.cancel_sync(error_code="busy"), int)
    await articles.list(sate="dead")  # E: Unexpected keyword argument "sate"


@articles.handler()
def classify_in_a_thread(lease: rm.Lease[Article]) -> None:
    assert_type(lease.fetch_sync("title"), Any)
    with lease.settling(rm.Done()) as session:
        assert_type(session, Session)


@articles.batch_handler(size=50)
async def classify_many(leases: list[rm.Lease[Article]]) -> list[rm.Outcome | None]:
    assert_type([lease.row.title for lease in leases], list[str])
    return [None for _ in leases]


@articles.handler()  # E: Argument 1 has incompatible type
async def wrong_row(lease: rm.Lease[int]) -> None:
    pass


@articles.handler()
async def any_answer(lease: rm.Lease[Article]) -> rm.typing.Answer:
    return rm.Dead("no_title") if not lease.row.title else {"score": 0.5}


@articles.batch_handler(size=50)
def any_answers(leases: list[rm.Lease[Article]]) -> rm.typing.BatchAnswer:
    return [ValueError("this one"), None]


@articles.batch_handler(size=50)
async def note_many(batch: rm.Batch[Article]) -> None:
    assert_type(batch[0].row.title, str)
    async with batch.settling({batch[0].key: rm.Dead("no_title")}) as tx:
        tx.leases, tx.lost
        await tx.execute(sa.text("SELECT 1"))


async def calls(lease: rm.Lease[Article]) -> None:
    assert_type(await classify(lease), rm.Done | dict[str, float])
    assert_type(await any_answer(lease), rm.typing.Answer)
    assert_type(any_answers([lease]), rm.typing.BatchAnswer)


@articles.handler()  # E: Value of type variable "One" of function cannot be "Coroutine[Any, Any, int]"
async def wrong_answer(lease: rm.Lease[Article]) -> int:
    return 3


@articles.handler()  # E: Argument 1 has incompatible type
async def one_for_many(leases: list[rm.Lease[Article]]) -> None:
    pass


timed = mill.queue(
    Article,
    name="timed",
    lease=timedelta(minutes=5),
    timeout=timedelta(minutes=1),
    retry=rm.Retry(backoff=rm.exponential(timedelta(seconds=30), cap=timedelta(hours=1))),
    retention=rm.Retention(done=timedelta(days=7)),
)
settings = rm.worker.WorkerSettings(grace=timedelta(seconds=10), heartbeat=2)
assert_type(settings.grace, float)
assert_type(rm.Retention(done=timedelta(days=7)).done, float | None)
assert_type(rm.limits.Rate(10, timedelta(minutes=1)).per, float)
rm.worker.WorkerSettings(grace="10 s")  # E: Argument "grace" to "WorkerSettings" has incompatible type
rm.fixed("a minute")  # E: Argument 1 to "fixed" has incompatible type

mill.queue(Article, retries=3)  # E: No overload variant
mill.queue(Article, lease="5 minutes")  # E: No overload variant
mill.queue(Article, order=rm.Order(priority=1))  # E: Argument "priority" to "Order" has incompatible type
mill.queue(Article, order_per_key=rm.OrderPerKey("title", on_dead="jump"))  # E: Argument "on_dead" to "OrderPerKey"

things = mill.queue(sa.Table("things", sa.MetaData(), sa.Column("id", sa.Integer, primary_key=True)))
assert_type(things, rm.Queue[rm.Record])


@things.handler()
async def handle(lease: rm.Lease[rm.Record]) -> None:
    lease.row.id
    lease.row["id"]


async def run() -> None:
    report = await mill.drain()
    assert_type(report.done, int)
    assert_type(await articles.load([{"title": "a"}]), int)
    async with mill.worker(["articles"]) as worker:
        assert_type(await worker.run(), rm.worker.Report)
"""


@pytest.mark.slow
def test_a_type_checker_knows_rows_and_finds_mistakes(tmp_path: Path) -> None:
    module = tmp_path / "use.py"
    module.write_text(USE)
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--no-error-summary", "--show-error-codes"]
    cache = ["--cache-dir", str(REPOSITORY / ".mypy_cache" / "typing")]
    environment = {**os.environ, "MYPYPATH": str(REPOSITORY / "src")}
    done = subprocess.run(
        [*command, *cache, str(module)], capture_output=True, text=True, cwd=tmp_path, env=environment, check=False
    )
    found = {
        int(number): text for number, text in re.findall(r"^use\.py:(\d+): error: (.*)$", done.stdout, re.MULTILINE)
    }
    expected = {
        number: line.partition("# E: ")[2] for number, line in enumerate(USE.splitlines(), start=1) if "# E: " in line
    }
    assert found.keys() == expected.keys(), done.stdout + done.stderr
    for number, text in expected.items():
        assert text in found[number]
