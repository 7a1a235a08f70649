"""Three hand-written queues become Rowmill's without losing or repeating a row.

The old code runs first and leaves rows in every state; then the table is adopted, and Rowmill works on what is left.
"""

import asyncio
import importlib.util
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import sqlalchemy as sa

import rowmill as rm
from rowmill.adopt import examine_queue
from rowmill.cli.main import run
from rowmill.doctor import FindingSeverity, audit
from rowmill.testing import Bench

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"


class Crash(BaseException):
    """The process dies: nobody catches it."""


@dataclass
class Example:
    """One folder, on one database."""

    name: str
    url: str
    before: ModuleType
    after: ModuleType
    worked: list[str] = field(default_factory=list)
    """What Rowmill's handlers were given."""

    @property
    def mill(self) -> rm.Mill:
        found: rm.Mill = self.after.mill
        return found

    @property
    def queue(self) -> rm.Queue[Any]:
        return next(iter(self.mill.queues.values()))

    @property
    def postgres(self) -> bool:
        return self.mill.store.dialect.name == "postgresql"

    def rows(self) -> dict[str, dict[str, Any]]:
        """Every row by its title, name or file, with the columns that it had before."""
        engine: sa.Engine = self.before.engine
        schema = "enterprise" if self.postgres and self.name == "companies" else None
        table = sa.Table(self.queue.table.name, sa.MetaData(), schema=schema, autoload_with=engine)
        with engine.connect() as connection:
            found = [dict(row._mapping) for row in connection.execute(sa.select(table))]
        label = {"companies": "raw_name", "classification": "title", "documents": "fileName"}[self.name]
        return {row[label]: row for row in found}

    def words(self) -> Counter[Any]:
        state = self.queue.columns["state"].name
        return Counter(row[state] for row in self.rows().values())

    def adopt(self, *options: str) -> int:
        table = self.queue.table.name
        if self.name == "companies" and self.postgres:
            table = f"enterprise.{table}"
        return run(["adopt", table, "--database-url", self.url, *options])


def load(path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    name = f"example_{path.parent.name}_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, name, module)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def open_example(
    database_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[Callable[[str], Example]]:
    """An example whose table is there, as `before.sql` makes it."""
    monkeypatch.setenv("DATABASE_URL", database_url)
    monkeypatch.setenv("ROWMILL_DATABASE_URL", database_url)
    monkeypatch.delenv("ROWMILL_APP", raising=False)
    monkeypatch.chdir(tmp_path)
    opened: list[Example] = []

    def open_it(name: str) -> Example:
        before = load(EXAMPLES / name / "before.py", monkeypatch)
        file = "before.sql" if before.engine.dialect.name == "postgresql" else "before.sqlite.sql"
        with before.engine.begin() as connection:
            for statement in (EXAMPLES / name / file).read_text().split(";\n"):
                if statement.strip():
                    connection.exec_driver_sql(statement)
        opened.append(Example(name, database_url, before, load(EXAMPLES / name / "after.py", monkeypatch)))
        return opened[-1]

    yield open_it
    for example in opened:
        example.before.engine.dispose()


def crash_on(*names: str, fail: tuple[str, ...] = ()) -> Callable[[str], Any]:
    """What the old code calls for a row: it dies on some, fails on others."""

    def work(name: str) -> Any:
        if name in names:
            raise Crash
        if name in fail:
            raise ValueError("no")
        return 7 if name.endswith(".pdf") else f"old {name}"

    return work


def companies(example: Example) -> None:
    """done 2, failed 1, waiting 1 (a minute), in progress 3 (the process died), pending 4."""
    old = example.before
    for name in ("ok 1", "ok 2", "bad", "flaky"):
        old.enqueue(name)
    old.process_batch(crash_on(fail=("bad", "flaky")))
    for _ in range(2):
        with old.engine.begin() as connection:
            connection.execute(sa.text(f"UPDATE {old.TABLE} SET next_retry_at = NULL WHERE raw_name = 'bad'"))
        old.process_batch(crash_on(fail=("bad",)))
    for name in ("stuck 1", "stuck 2", "stuck 3"):
        old.enqueue(name)
    with pytest.raises(Crash):
        old.process_batch(crash_on("stuck 1"))
    for number in range(4):
        old.enqueue(f"new {number}")

    async def resolve(name: str) -> str:
        example.worked.append(name)
        return f"new {name}"

    example.after.resolve = resolve  # type: ignore[attr-defined]


def classification(example: Example) -> None:
    """completed 2, failed 1, cancelled 1, in progress 3, pending 4."""
    old = example.before
    for title in ("ok 1", "ok 2"):
        old.enqueue(title)
    old.process_batch(crash_on())
    old.enqueue("bad")
    for _ in range(3):
        old.process_batch(crash_on(fail=("bad",)))
    old.enqueue("unwanted")
    old.cancel("unwanted")
    for title in ("stuck 1", "stuck 2", "stuck 3"):
        old.enqueue(title, 9)
    with pytest.raises(Crash):
        old.process_batch(crash_on("stuck 1", "stuck 2", "stuck 3"))
    for number in range(4):
        old.enqueue(f"new {number}", number)

    def classify(titles: list[str]) -> list[str]:
        example.worked.extend(titles)
        return ["new"] * len(titles)

    example.after.classify = classify  # type: ignore[attr-defined]


def documents(example: Example) -> None:
    """completed 2, failed 1, in progress 3, queued 4."""
    old = example.before
    for name in ("ok 1.pdf", "bad", "ok 2.pdf"):
        old.enqueue(name)
    while old.process_one(crash_on(fail=("bad",))):
        pass
    for name in ("stuck 1", "stuck 2", "stuck 3"):
        old.enqueue(name)
        with pytest.raises(Crash):
            old.process_one(crash_on(name))
    for number in range(4):
        old.enqueue(f"new {number}")

    def read(name: str) -> int:
        example.worked.append(name)
        return 1

    example.after.read = read  # type: ignore[attr-defined]


SEEDS = {"companies": companies, "classification": classification, "documents": documents}
CODES = ("--ready", "0", "--running", "1", "--done", "2", "--dead", "3", "--cancelled", "4")
OPTIONS = {"classification": CODES, "companies": ("--dead", "failed")}
"""What nobody can guess: numbers as states, and that rows which failed are not tried again, though they say when."""
WORDS: dict[str, tuple[Any, Any, Any, Any]] = {
    "companies": ("pending", "processing", "done", "failed"),
    "classification": (0, 1, 2, 3),
    "documents": ("QUEUED", "PROCESSING", "COMPLETED", "FAILED"),
}


@pytest.mark.parametrize("name", SEEDS)
def test_a_hand_written_queue_goes_on_without_losing_or_repeating_a_row(
    open_example: Callable[[str], Example], name: str
) -> None:
    example = open_example(name)
    SEEDS[name](example)
    ready, running, done, dead = WORDS[name]
    options = OPTIONS.get(name, ())
    before, words = example.rows(), example.words()
    assert words[running] == 3
    assert (words[done], words[dead]) == (2, 1)

    assert example.adopt(*options) == 5
    assert example.rows() == before, "a look changes nothing"
    assert example.adopt(*options, "--apply", "--yes") == 0
    assert example.adopt(*options) == 0, "nothing is left to do"
    adopted = example.rows()
    for label, row in before.items():
        kept = {name: adopted[label][name] for name in row}
        assert counted(kept) == counted(row), "what was there is as it was"

    async def work() -> None:
        async with example.mill.opened() as store:
            await example.mill.migrate()
            found = await store.run(
                lambda connection: examine_queue(connection, store.sql(example.queue), example.queue)
            )
            assert not found.plan, "what was guessed is what after.py declares"
            errors = [
                finding for finding in await audit(store, [example.queue]) if finding.severity is FindingSeverity.ERROR
            ]
            assert errors == []
            bench = Bench(example.mill)

            await bench.drain()
            assert sorted(example.worked) == [f"new {n}" for n in range(4)], "what was ready, and nothing else"
            assert example.words()[running] == 3, "rows in progress are not instantly stale"

            await bench.advance(14 * 60)
            await bench.drain()
            assert example.words()[running] == 3, "not before their lease ends"
            await bench.advance(2 * 60)
            await bench.drain()

    asyncio.run(work())

    again = ["flaky"] if name == "companies" else []
    stuck = [f"stuck {n}" for n in (1, 2, 3)]
    assert sorted(example.worked) == sorted([f"new {n}" for n in range(4)] + stuck + again), "each once"
    after = example.rows()
    assert after.keys() == before.keys(), "no row is lost"
    final = example.words()
    assert final[ready] == final[running] == 0
    assert final[done] == words[done] + len(example.worked)
    for label in before:
        if label not in example.worked:
            retry = example.queue.columns["available_at"].name  # moved with the clock
            untouched = after[label] | {retry: None} == adopted[label] | {retry: None}
            assert untouched, f"{label} was finished before"


def counted(row: dict[str, Any]) -> dict[str, Any]:
    """No count of attempts is a count of 0: adopting may write it so."""
    return {name: value or 0 if name == "retry_count" else value for name, value in row.items()}


def test_an_article_with_a_higher_priority_goes_first(open_example: Callable[[str], Example]) -> None:
    example = open_example("classification")
    classification(example)
    assert example.adopt(*CODES, "--apply", "--yes") == 0

    asyncio.run(drained(example))

    assert example.worked == ["new 3", "new 2", "new 1", "new 0"]


def test_the_old_producer_still_enqueues(open_example: Callable[[str], Example]) -> None:
    """To enqueue is to INSERT: code that knows nothing of Rowmill goes on as before."""
    example = open_example("documents")
    documents(example)
    assert example.adopt("--apply", "--yes") == 0
    example.before.enqueue("later.pdf")

    asyncio.run(drained(example))

    assert "later.pdf" in example.worked


async def drained(example: Example) -> None:
    await example.mill.migrate()
    await Bench(example.mill).drain()
