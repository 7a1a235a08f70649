"""stats: counts that say what they are, ages, throughput, failures, workers."""

import asyncio
from functools import partial
from typing import Any
from uuid import UUID

import pytest
import sqlalchemy as sa

from rowmill.maintenance import cleanup
from rowmill.mill import Queue
from rowmill.operator import activity, counts
from rowmill.operator.activity import DeadRows, dead_rows
from rowmill.operator.counts import Depth, How
from rowmill.store.clock import moment
from rowmill.store.own.schema import own_tables
from rowmill.store.postgres.session import index_plans
from tests.cli import example
from tests.cli.conftest import Shell
from tests.cli.example import codes, entities, files


def of(shell: Shell, queue: str) -> Any:
    return next(one for one in shell.ok("stats", queue, "--json").json["queues"])


def age(connection: sa.Connection, seconds: int) -> None:
    """Let everything that was settled be settled so many seconds earlier."""
    receipt = own_tables(connection.dialect.name).receipt
    back = (
        f"at - interval '{seconds} seconds'"
        if connection.dialect.name == "postgresql"
        else f"strftime('%Y-%m-%d %H:%M:%f000', at, '-{seconds} seconds')"
    )
    connection.execute(sa.update(receipt).values(at=sa.literal_column(back)))


def fail(connection: sa.Connection, *codes: str) -> None:
    """Put failed attempts into the history of files."""
    attempt = own_tables(connection.dialect.name).attempt
    told = {"queue": "files", "key": "1", "stage": "work", "attempt": 1, "worker": 1, "message": ""}
    for code in codes:
        connection.execute(sa.insert(attempt).values(**told, code=code, ended_at=moment(connection.dialect.name)))


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


def test_throughput_is_the_same_before_and_after_it_is_rolled_up(shell: Shell) -> None:
    shell.put(files, {"id": 1, "status": "queued"}, {"id": 2, "status": "queued"})
    shell.drain("files")

    shell.do(partial(age, seconds=600))
    before = of(shell, "files")["throughput"]
    assert shell.do(cleanup.roll_up) > 0
    after = of(shell, "files")["throughput"]

    assert (after["minutes"], after["last_hour"]) == (before["minutes"], before["last_hour"])
    assert before["last_hour"] == {"done": 2}


def test_what_is_rolled_up_while_it_is_read_is_counted(pg_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The upkeep moves numbers from one table to another, whenever it likes."""
    shell = Shell(pg_url, capsys)
    shell.ok("migrate", "--tables")
    shell.put(files, {"id": 1, "status": "queued"}, {"id": 2, "status": "queued"})
    shell.drain("files")
    shell.do(partial(age, seconds=600))

    def roll_up_after(connection: sa.Connection, *_: Any) -> None:
        with example.mill.store.sync_engine.begin() as other:
            cleanup.roll_up(other)

    def look(connection: sa.Connection) -> int:
        sa.event.listen(connection, "after_cursor_execute", roll_up_after)
        return sum(sum(one.moves.values()) for one in activity.throughput(connection, example.files_queue))

    assert shell.do(look) == 2
    assert shell.do(lambda c: sum(sum(one.moves.values()) for one in activity.throughput(c, example.files_queue))) == 2


def test_the_numbers_of_a_queue_are_of_one_moment(
    pg_url: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shell = Shell(pg_url, capsys)
    shell.ok("migrate", "--tables")
    shell.put(files, {"id": 1, "status": "failed", "error": "timeout"})
    asked = activity.throughput

    def meanwhile(*arguments: Any) -> Any:
        with example.mill.store.sync_engine.begin() as other:
            other.execute(sa.insert(files).values(id=2, status="failed", error="timeout"))
        return asked(*arguments)

    monkeypatch.setattr(activity, "throughput", meanwhile)
    found = of(shell, "files")

    assert found["kinds"]["dead"] == found["dead"]["rows"] == found["dead"]["codes"]["timeout"] == 1


def test_rows_that_were_only_given_back_are_not_settled(shell: Shell) -> None:
    """A provider that is off sends its rows back again and again: that is no work."""

    def give_back(connection: sa.Connection) -> None:
        own = own_tables(connection.dialect.name)
        for number, move in enumerate(("hold", "release"), start=1):
            connection.execute(
                sa.insert(own.receipt).values(
                    worker=1, flush=number, queue="files", stage="work", move=move, rows=1000, seconds=0.0,
                    at=moment(connection.dialect.name),
                )
            )  # fmt: skip

    shell.do(give_back)
    found = of(shell, "files")["throughput"]

    assert found["last_hour"] == {"hold": 1000, "release": 1000}
    assert (found["per_minute"], found["idle_minutes"]) == (0, None)
    assert "nothing settled in the last hour" in shell.ok("stats", "files").out


def test_a_queue_that_works_tells_its_rate(shell: Shell) -> None:
    shell.put(files, {"id": 1, "status": "queued"}, {"id": 2, "status": "queued"})
    shell.drain("files")

    found = of(shell, "files")["throughput"]

    assert 0 < found["per_minute"] <= 2
    assert found["over_minutes"] == 5
    assert found["idle_minutes"] in (0, 1)
    assert "rows settled a minute over the last 5 min" in shell.ok("stats", "files").out


def test_an_idle_queue_tells_since_when_and_not_an_old_rate(shell: Shell) -> None:
    shell.put(files, {"id": 1, "status": "queued"})
    shell.drain("files")
    shell.do(partial(age, seconds=540))

    text = shell.ok("stats", "files").out

    assert of(shell, "files")["throughput"]["idle_minutes"] in (9, 10)
    assert "nothing settled for 9 min" in text or "nothing settled for 10 min" in text
    assert "settled a minute" not in text
    assert "nothing settled in the last hour" in shell.ok("stats", "codes").out


def test_failures_that_were_all_counted_are_exact(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(activity, "MOST_FAILURES", 3)
    shell.do(lambda connection: fail(connection, "slow", "slow", "broken"))

    found = of(shell, "files")

    assert (found["failures"], found["failures_count"]) == ({"slow": 2, "broken": 1}, "exact")
    assert "failures in the last hour: slow 2, broken 1\n" in shell.ok("stats", "files").out


def test_failures_that_are_too_many_to_count_are_marked(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(activity, "MOST_FAILURES", 3)
    shell.do(lambda connection: fail(connection, "slow", "slow", "slow", "slow", "slow"))

    assert of(shell, "files")["failures_count"] == "capped"
    assert "failures in the last hour: slow ≥4\n" in shell.ok("stats", "files").out


def test_no_error_code_is_left_out_without_a_word(shell: Shell) -> None:
    shell.do(lambda connection: fail(connection, *(f"code_{number:02}" for number in range(12))))

    text = shell.ok("stats", "files").out

    assert len(of(shell, "files")["failures"]) == 12
    assert "code_09 1, and 2 more codes\n" in text
    assert "code_10" not in text


def test_dead_rows_are_told_by_code_whatever_their_age(shell: Shell) -> None:
    old = shell.now(files, "finished_at", -40 * 86400)
    errors = ["timeout: secret-name", "timeout", "404: a: b", "Mr secret-name was not found", "", None]
    shell.put(files, *({"id": n, "status": "failed", "error": error, "finished_at": old}
                       for n, error in enumerate(errors)))  # fmt: skip
    shell.put(files, {"id": 9, "status": "queued", "error": "later: not dead"})

    found, text = of(shell, "files")["dead"], shell.ok("stats", "files").out

    assert found == {"rows": 6, "codes": {"timeout": 2, "404": 1}, "without_code": 3, "count": "exact"}
    assert "dead rows: timeout 2, 404 1, without a code 3\n" in text
    assert "secret-name" not in text


def test_dead_rows_are_told_by_the_column_for_codes(shell: Shell) -> None:
    codes = ["HTTP 500", "HTTP 500", None]
    shell.put(entities, *({"id": UUID(int=n), "state": "FAILED", "code": code} for n, code in enumerate(codes)))

    assert "dead rows: HTTP 500 2, without a code 1\n" in shell.ok("stats", "entities").out


def test_workers_that_stopped_are_folded_away(shell: Shell) -> None:
    shell.drain("files")
    shell.drain("codes")

    text = shell.ok("stats").out

    assert text.endswith("no workers\n2 stopped in the last hour\n")
    assert len(shell.ok("stats", "--json").json["workers"]) == 2


def test_stats_tell_their_time_with_its_zone(shell: Shell) -> None:
    assert shell.ok("stats", "--json").json["at"].endswith("+00:00")


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
    found: Depth = shell.do(lambda connection: counts.depth(connection, example.mill.store.sql(queue), at_least))
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
    monkeypatch.setattr(counts, "SMALL_BYTES", -1)
    monkeypatch.setattr(counts, "SMALL_ROWS", -1)
    monkeypatch.setattr(counts, "SAMPLE_PAGES", 10_000)


def big(shell: Shell, cap: int = 100) -> dict[str | None, tuple[int, How]]:
    sql = example.mill.store.sql(example.codes_queue)
    found = shell.do(lambda connection: counts.counts(connection, sql, cap=cap))
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


@pytest.mark.usefixtures("everything_is_big")
def test_dead_rows_of_a_big_table_are_estimated_by_code(shell: Shell) -> None:
    errors = ["timeout: x"] * 3000 + ["broken"] * 1000 + [None] * 1000
    shell.put(codes, *({"id": n, "state": 3, "error": error} for n, error in enumerate(errors, start=1)))
    shell.put(codes, *({"id": n, "state": 2, "error": "later: x"} for n in range(5001, 7001)))
    sql = example.mill.store.sql(example.codes_queue)

    found: DeadRows = shell.do(lambda connection: dead_rows(connection, sql))

    assert found.count is How.ESTIMATED
    assert list(found.codes) == ["timeout", "broken"]
    for rows, about in ((found.codes["timeout"], 3000), (found.codes["broken"], 1000), (found.without_code, 1000)):
        assert about * 0.8 < rows < about * 1.2
    assert "dead rows: timeout ~" in shell.ok("stats", "codes").out


@pytest.mark.usefixtures("everything_is_big")
def test_dead_rows_of_a_big_table_are_counted_by_the_index_on_their_age(shell: Shell) -> None:
    shell.put(entities, *({"id": UUID(int=n), "state": "FAILED", "code": "timeout"} for n in range(5)))
    sql = example.mill.store.sql(example.entities_queue)

    assert shell.do(lambda c: dead_rows(c, sql, cap=5)) == DeadRows(5, {"timeout": 5}, 0, How.EXACT)
    assert shell.do(lambda c: dead_rows(c, sql, cap=3)) == DeadRows(4, {"timeout": 4}, 0, How.CAPPED)


def test_fresh_statistics_are_used_and_stale_ones_are_not(pg_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    shell = Shell(pg_url, capsys)
    example.mill.move_to(pg_url)
    asyncio.run(example.mill.migrate(tables=True))
    sql = example.mill.store.sql(example.codes_queue)
    shell.put(codes, *({"id": n, "state": 2 if n % 4 else 3} for n in range(1, 2001)))

    assert shell.do(lambda c: counts._by_statistics(c, sql)) is None
    shell.do(lambda c: c.exec_driver_sql("ANALYZE codes"))
    assert shell.do(lambda c: counts._by_statistics(c, sql)) == {2: 1500, 3: 500}
    shell.do(lambda c: c.execute(sa.update(codes).values(state=3)))
    shell.do(lambda c: c.exec_driver_sql("SELECT pg_stat_force_next_flush()"))
    assert shell.do(lambda c: counts._by_statistics(c, sql)) is None
    assert shell.do(lambda c: counts.by_state(c, sql)) == {3: 2000}


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
            sql = example.mill.store.sql(queue)
            counts.depth(connection, sql, 1000)
            activity.oldest_ready(connection, sql)

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
    sql = example.mill.store.sql(example.codes_queue)
    columns = ", ".join(f"{column.name} bigint" for column in codes.columns if column.name not in ("id", "error"))
    shell.do(lambda c: c.exec_driver_sql(f"CREATE TABLE codes (id int, error text, {columns}) PARTITION BY RANGE (id)"))
    parts = [
        f"CREATE TABLE part_{n} PARTITION OF codes FOR VALUES FROM ({n * 1000}) TO ({n * 1000 + 1000})" for n in (0, 1)
    ]
    shell.do(lambda c: [c.exec_driver_sql(part) for part in parts])
    shell.put(codes, *({"id": n, "state": 2} for n in range(500, 1500)))

    assert shell.do(lambda c: counts._bytes(c, sql)) >= 2 * counts.PAGE
    assert shell.do(lambda c: counts.by_state(c, sql)) == {2: 1000}
