"""What only SQLite has: times as text, types that say little, constraints that can't be changed."""

import pytest

import rowmill as rm
from rowmill.adopt import AdoptOptions
from rowmill.model.lifecycle import StateKind
from tests.adopt.conftest import Site

pytestmark = pytest.mark.empty_database


async def drain(site: Site, found: object) -> tuple[list[int], rm.worker.Report]:
    names = site.declared(found)  # type: ignore[arg-type]
    mill: rm.Mill = names["mill"]
    queue = next(iter(mill.queues.values()))
    worked: list[int] = []

    @queue.handler()
    async def work(lease: rm.Lease[rm.Record]) -> None:
        worked.append(lease.key)

    await mill.migrate()
    return worked, await mill.drain()


async def test_times_that_python_wrote_are_made_comparable(sqlite: Site) -> None:
    """isoformat() puts a T between date and time: as text it sorts behind every time of its day."""
    await sqlite.sql(
        "CREATE TABLE jobs (id INTEGER PRIMARY KEY, status TEXT, next_retry_at TEXT)",
        "INSERT INTO jobs VALUES (1, 'pending', strftime('%Y-%m-%dT%H:%M:%S', 'now', '-1 second'))",
        "INSERT INTO jobs VALUES (2, 'pending', strftime('%Y-%m-%dT%H:%M:%S.123456+00:00', 'now', '-1 second'))",
        "INSERT INTO jobs VALUES (3, 'pending', strftime('%Y-%m-%dT%H:%M:%S', 'now', '+1 hour'))",
        "INSERT INTO jobs VALUES (4, 'pending', NULL)",
        "INSERT INTO jobs VALUES (5, 'done', '2020-01-01T00:00:00')",
    )

    found = await sqlite.adopt("jobs")

    assert found.columns["available_at"] == "next_retry_at"
    assert 'sa.Column("next_retry_at", sa.DateTime)' in (found.declaration or "")
    worked, _ = await drain(sqlite, found)
    assert sorted(worked) == [1, 2, 4]
    assert await sqlite.value("SELECT next_retry_at FROM jobs WHERE id = 5") == "2020-01-01T00:00:00"


async def test_times_of_a_table_without_a_state_are_made_comparable_too(sqlite: Site) -> None:
    await sqlite.sql(
        "CREATE TABLE jobs (id INTEGER PRIMARY KEY, processed INTEGER, run_at TEXT)",
        "INSERT INTO jobs VALUES (1, 0, strftime('%Y-%m-%dT%H:%M:%S', 'now', '-1 second')), "
        "(2, 0, strftime('%Y-%m-%dT%H:%M:%S', 'now', '+1 day')), (3, 1, NULL)",
    )

    found = await sqlite.adopt("jobs")

    worked, _ = await drain(sqlite, found)
    assert worked == [1]


async def test_a_column_called_datetime_may_hold_numbers(sqlite: Site) -> None:
    await sqlite.sql(
        "CREATE TABLE jobs (id INTEGER PRIMARY KEY, status TEXT, run_at DATETIME)",
        "INSERT INTO jobs VALUES (1, 'pending', strftime('%s', 'now') - 10)",
        "INSERT INTO jobs VALUES (2, 'pending', strftime('%s', 'now') + 3600)",
    )

    found = await sqlite.adopt("jobs")

    assert 'sa.Column("run_at", sa.BigInteger)' in (found.declaration or "")
    worked, _ = await drain(sqlite, found)
    assert worked == [1]


async def test_a_check_that_lacks_a_word_is_an_obstacle(sqlite: Site) -> None:
    await sqlite.sql(
        "CREATE TABLE jobs (id INTEGER PRIMARY KEY, status TEXT CHECK (status IN ('new', 'done', 'error')))"
    )

    found = await sqlite.look("jobs")

    assert "does not allow 'processing'" in found.plan.obstacles[0]


async def test_a_column_that_must_not_be_null_is_left_alone(sqlite: Site) -> None:
    await sqlite.sql("CREATE TABLE jobs (id INTEGER PRIMARY KEY, status TEXT, error TEXT NOT NULL DEFAULT '')")

    found = await sqlite.adopt("jobs")

    assert found.columns["error"] == "queue_error"
    assert any("column error can't be used" in note for note in found.notes)


async def test_an_index_for_other_words_is_made_again(sqlite: Site) -> None:
    await sqlite.sql("CREATE TABLE jobs (id INTEGER PRIMARY KEY, status TEXT)")
    await sqlite.adopt("jobs")

    found = await sqlite.look("jobs", AdoptOptions(words={StateKind.READY: ("queued",)}))

    assert [change.what for change in found.plan.changes] == [
        "index rowmill_jobs_work_ready (claim) was made for other words or columns"
    ]


async def test_a_failed_step_leaves_everything_as_it_was(sqlite: Site) -> None:
    await sqlite.sql(
        "CREATE TABLE jobs (id INTEGER PRIMARY KEY, status TEXT)", "INSERT INTO jobs VALUES (1, 'processing')"
    )
    found = await sqlite.look("jobs")
    before = await sqlite.rows("SELECT name, sql FROM sqlite_master")

    def die(change: object, rows: int) -> None:
        if rows:
            raise KeyboardInterrupt

    try:
        from rowmill.adopt import carry_out

        await carry_out(sqlite.store, found.plan, die)
    except KeyboardInterrupt:
        pass

    assert await sqlite.rows("SELECT name, sql FROM sqlite_master") == before


async def test_columns_whose_type_only_their_values_tell(sqlite: Site) -> None:
    await sqlite.sql(
        "CREATE TABLE q (id INTEGER PRIMARY KEY, body, status STRING DEFAULT 'pending', processed_at, "
        "next_retry STRING)",
        "INSERT INTO q VALUES (1, 'x', 'pending', NULL, '2020-01-01 00:00:00'), "
        "(2, 'y', 'done', '2024-01-01 00:00:00', NULL), (3, 'z', 'failed', NULL, NULL)",
    )

    found = await sqlite.adopt("q")

    assert found.doubts == []
    assert found.columns["state"] == "status"
    assert found.columns["available_at"] == "next_retry"
    assert (await sqlite.drain_declared(found)).done == 1
