"""stats: counts that say what they are, ages, throughput, failures, workers."""

import asyncio
from functools import partial
from typing import Any
from uuid import UUID

import pytest
import sqlalchemy as sa

from rowmill.mill import Queue
from rowmill.store import activity, counts, estimate, tidying
from rowmill.store.counts import Depth, How
from rowmill.store.index_plans import index_plans
from rowmill.store.schema import own_tables
from tests.cli import example
from tests.cli.conftest import Shell
from tests.cli.example import codes, entities, files


def of(shell: Shell, queue: str) -> Any:
    return next(one for one in shell.ok("stats", queue, "--json").json["queues"])


def test_every_word_is_counted_with_its_kind(shell: Shell) -> None:
    words = ["PENDING", "PENDING", "LINK_FAILED", "LINKED", "COMPLETE", "FAILED", "STRANGE", None]
    shell.put(entities, *({"id": UUID(int=n), "state": word} for n, word in enumerate(words)))

    found = of(shell, "entities")

    assert found["count"] == "exact"
    rows = {state["word"]: (state["kind"], state["stage"], state["rows"], state["count"]) for state in found["states"]}
    assert rows == {
        "PENDING": ("ready", "link", 2, "exact"),
        "LINKED": ("ready", "enrich", 1, "exact"),
        "LINK_FAILED": ("waiting", "link", 1, "exact"),
        "ENRICH_FAILED": ("waiting", "enrich", 0, "exact"),
        "LINKING": ("running", "link", 0, "exact"),
        "ENRICHING": ("running", "enrich", 0, "exact"),
        "COMPLETE": ("done", None, 1, "exact"),
        "FAILED": ("dead", None, 1, "exact"),
        "CANCELLED": ("cancelled", None, 0, "exact"),
        "STRANGE": ("unknown", None, 1, "exact"),
        None: ("unknown", None, 1, "exact"),
    }
    assert found["kinds"]["ready"] == 3


def test_stats_tell_what_was_done_and_by_whom(shell: Shell) -> None:
    shell.put(files, {"id": 1, "status": "queued"}, {"id": 2, "status": "queued", "slot": "broken"})
    shell.put(files, {"id": 3, "status": "queued", "slot": "transient"})
    shell.drain("files")
    shell.ok("pause", "files")

    answer = shell.ok("stats", "--json").json
    found = next(one for one in answer["queues"] if one["queue"] == "files")

    assert [one["queue"] for one in answer["queues"]] == list(example.mill.queues)
    assert found["throughput"]["last_hour"] == {"done": 1, "dead": 1, "again": 1}
    assert sum(sum(minute["moves"].values()) for minute in found["throughput"]["minutes"]) == 3
    assert found["failures"] == {"broken": 1, "later": 1}
    assert [pause["stage"] for pause in found["paused"]] == [None]
    [worker] = answer["workers"]
    assert (worker["queues"], worker["alive"], worker["stopped"]) == (["files"], False, True)
    text = shell.ok("stats").out
    assert "queue files" in text
    assert "paused" in text
    assert "stopped" in text


def test_throughput_is_the_same_before_and_after_it_is_rolled_up(shell: Shell) -> None:
    shell.put(files, {"id": 1, "status": "queued"}, {"id": 2, "status": "queued"})
    shell.drain("files")

    def age(connection: sa.Connection) -> None:
        receipt = own_tables(connection.dialect.name).receipt
        back = (
            "at - interval '10 minutes'"
            if connection.dialect.name == "postgresql"
            else "strftime('%Y-%m-%d %H:%M:%f000', at, '-600 seconds')"
        )
        connection.execute(sa.update(receipt).values(at=sa.literal_column(back)))

    shell.do(age)
    before = of(shell, "files")["throughput"]
    assert shell.do(tidying.roll_up) > 0

    assert of(shell, "files")["throughput"] == before
    assert before["last_hour"] == {"done": 2}


def test_the_oldest_ready_row_is_that_of_any_priority(shell: Shell) -> None:
    def oldest() -> float:
        return float(of(shell, "codes")["oldest_ready_seconds"])

    assert of(shell, "codes")["oldest_ready_seconds"] is None
    shell.put(codes, {"id": 1, "state": 0, "rank": 9, "available_at": shell.now(codes, "available_at", 3600)})
    assert of(shell, "codes")["oldest_ready_seconds"] is None
    shell.put(codes, {"id": 2, "state": 0, "rank": 9, "available_at": shell.now(codes, "available_at", -100)})
    assert 100 <= oldest() < 200
    shell.put(codes, {"id": 3, "state": 4, "rank": None, "available_at": shell.now(codes, "available_at", -5000)})
    shell.put(codes, {"id": 4, "state": 2, "rank": 1, "available_at": shell.now(codes, "available_at", -9000)})
    assert 5000 <= oldest() < 5100


def test_a_row_that_is_available_at_once_ages_from_its_creation(shell: Shell) -> None:
    shell.put(files, {"id": 1, "status": "queued", "created_at": shell.now(files, "created_at", -300)})
    shell.put(files, {"id": 2, "status": "queued", "available_at": shell.now(files, "available_at", -20)})

    assert 300 <= of(shell, "files")["oldest_ready_seconds"] < 400


def depth(shell: Shell, queue: Queue[Any], at_least: int) -> Depth:
    found: Depth = shell.do(lambda connection: counts.depth(connection, example.mill.store.terms(queue), at_least))
    return found


def test_depth_is_capped_at_a_threshold(shell: Shell) -> None:
    words = ["PENDING"] * 3 + ["LINKED"] * 2 + ["LINK_FAILED", "LINKING", "COMPLETE"]
    shell.put(entities, *({"id": UUID(int=n), "state": word} for n, word in enumerate(words)))

    queue = example.entities_queue
    assert depth(shell, queue, 5) == Depth(5, How.CAPPED)
    assert depth(shell, queue, 6) == Depth(6, How.EXACT)
    assert depth(shell, queue, 100) == Depth(6, How.EXACT)


def test_depth_knows_more_than_the_threshold_from_as_many(shell: Shell) -> None:
    shell.put(files, *({"id": n, "status": "queued"} for n in range(3)))

    assert depth(shell, example.files_queue, 2) == Depth(2, How.CAPPED)
    assert depth(shell, example.files_queue, 3) == Depth(3, How.EXACT)


@pytest.fixture
def everything_is_big(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimate, "SMALL_BYTES", -1)
    monkeypatch.setattr(estimate, "SMALL_ROWS", -1)
    monkeypatch.setattr(estimate, "SAMPLE_PAGES", 10_000)


def big(shell: Shell, cap: int = 100) -> dict[str | None, tuple[int, How]]:
    terms = example.mill.store.terms(example.codes_queue)
    found = shell.do(lambda connection: counts.counts(connection, terms, cap=cap))
    return {state.word: (state.rows, state.count) for state in found}


@pytest.mark.usefixtures("everything_is_big")
def test_a_big_table_is_estimated_but_for_what_its_indexes_count(shell: Shell) -> None:
    states = [2] * 4000 + [0] * 500 + [1] * 7 + [3] * 500
    shell.put(codes, *({"id": n, "state": state} for n, state in enumerate(states, start=1)))

    found = big(shell)

    assert found["1"] == (7, How.EXACT)
    for word, about in {"0": 500, "2": 4000, "3": 500}.items():
        rows, how = found[word]
        assert how is How.ESTIMATED
        assert about * 0.8 < rows < about * 1.2


@pytest.mark.usefixtures("everything_is_big")
def test_what_an_index_counted_is_exact_on_a_big_table(shell: Shell) -> None:
    shell.put(codes, *({"id": n, "state": state} for n, state in enumerate([2] * 2000 + [0] * 50, start=1)))

    found = big(shell)

    assert found["0"] == (50, How.EXACT)
    assert found["4"] == (0, How.EXACT)
    assert found["2"][1] is How.ESTIMATED


def test_fresh_statistics_are_used_and_stale_ones_are_not(pg_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    shell = Shell(pg_url, capsys)
    example.mill.move_to(pg_url)
    asyncio.run(example.mill.migrate(tables=True))
    terms = example.mill.store.terms(example.codes_queue)
    shell.put(codes, *({"id": n, "state": 2 if n % 4 else 3} for n in range(1, 2001)))

    assert shell.do(lambda c: estimate._by_statistics(c, terms)) is None
    shell.do(lambda c: c.exec_driver_sql("ANALYZE codes"))
    assert shell.do(lambda c: estimate._by_statistics(c, terms)) == {2: 1500, 3: 500}
    shell.do(lambda c: c.execute(sa.update(codes).values(state=3)))
    shell.do(lambda c: c.exec_driver_sql("SELECT pg_stat_force_next_flush()"))
    assert shell.do(lambda c: estimate._by_statistics(c, terms)) is None
    assert shell.do(lambda c: estimate.by_state(c, terms)) == {3: 2000}


def test_depth_and_age_are_read_by_the_ready_index(pg_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Even where the statistics say that the table is empty."""
    shell = Shell(pg_url, capsys)
    example.mill.move_to(pg_url)
    asyncio.run(example.mill.migrate(tables=True))
    shell.do(lambda c: c.exec_driver_sql("ANALYZE files"))
    shell.do(lambda c: c.exec_driver_sql("ANALYZE codes"))
    statements: list[str] = []

    def plan(statement: str, connection: sa.Connection) -> str:
        literal = statement.replace("$1::INTEGER", "1")
        with index_plans(connection):
            return "\n".join(row[0] for row in connection.exec_driver_sql(f"EXPLAIN {literal}"))

    def spy(connection: sa.Connection, _cursor: Any, statement: str, *_: Any) -> None:
        if any(name in statement for name in ("FROM files", "FROM codes")):
            statements.append(statement)

    def work(connection: sa.Connection) -> None:
        sa.event.listen(connection, "before_cursor_execute", spy)
        for queue in (example.files_queue, example.codes_queue):
            terms = example.mill.store.terms(queue)
            counts.depth(connection, terms, 1000)
            activity.oldest_ready(connection, terms)

    shell.put(codes, {"id": 1, "state": 0, "rank": 4})
    shell.do(work)
    assert len(statements) >= 5
    for statement in statements:
        found = shell.do(partial(plan, statement))
        assert "Seq Scan" not in found, f"{statement}\n{found}"
        assert "Sort" not in found, f"{statement}\n{found}"
        assert "_ready" in found, f"{statement}\n{found}"


def test_planner_settings_are_put_back(pg_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    def work(connection: sa.Connection) -> tuple[str, str]:
        with index_plans(connection):
            inside = connection.exec_driver_sql("SHOW enable_seqscan").scalar_one()
        return inside, connection.exec_driver_sql("SHOW enable_seqscan").scalar_one()

    assert Shell(pg_url, capsys).do(work) == ("off", "on")


def test_a_partitioned_table_is_measured_by_its_parts(pg_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    shell = Shell(pg_url, capsys)
    example.mill.move_to(pg_url)
    terms = example.mill.store.terms(example.codes_queue)
    columns = ", ".join(f"{column.name} bigint" for column in codes.columns if column.name not in ("id", "error"))
    shell.do(lambda c: c.exec_driver_sql(f"CREATE TABLE codes (id int, error text, {columns}) PARTITION BY RANGE (id)"))
    parts = [
        f"CREATE TABLE part_{n} PARTITION OF codes FOR VALUES FROM ({n * 1000}) TO ({n * 1000 + 1000})" for n in (0, 1)
    ]
    shell.do(lambda c: [c.exec_driver_sql(part) for part in parts])
    shell.put(codes, *({"id": n, "state": 2} for n in range(500, 1500)))

    assert shell.do(lambda c: estimate._bytes(c, terms)) >= 2 * estimate.PAGE
    assert shell.do(lambda c: estimate.by_state(c, terms)) == {2: 1000}
