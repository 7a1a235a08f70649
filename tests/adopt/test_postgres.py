"""What only PostgreSQL has: concurrent indexes, enum types, schemas, partitions, locks."""

import pytest
import sqlalchemy as sa
from sqlalchemy.util import greenlet_spawn

import rowmill as rm
from rowmill.adopt import AdoptionFailed, AdoptOptions, StepKind, carry_out
from rowmill.adopt import apply as carrying
from rowmill.adopt import steps as fill_module
from rowmill.model.lifecycle import StateKind
from rowmill.store.postgres.store import PostgresStore
from tests.adopt.conftest import Site
from tests.adopt.tables import PLAIN, TWO_WORDS

pytestmark = pytest.mark.empty_database

BIG_TABLE = (
    "CREATE TABLE jobs (id bigserial PRIMARY KEY, status text NOT NULL DEFAULT 'pending', attempts integer)",
    "INSERT INTO jobs (status) SELECT CASE n % 20 WHEN 0 THEN 'processing' WHEN 1 THEN 'pending' ELSE 'done' END "
    "FROM generate_series(1, 12000) AS n",
)


async def indexes(site: Site, table: str) -> dict[str, bool]:
    rows = await site.rows(
        "SELECT c.relname, i.indisvalid FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indexrelid "
        f"WHERE i.indrelid = '{table}'::regclass AND c.relname LIKE 'rowmill%'"
    )
    return dict(rows)


async def test_a_big_table_gets_its_indexes_without_locking_out_writers(postgres: Site) -> None:
    await postgres.sql(*BIG_TABLE)

    found = await postgres.adopt("jobs")

    made = [change for change in found.plan.changes if change.part is StepKind.INDEX]
    assert all("CREATE INDEX CONCURRENTLY" in change.statements[-1] for change in made)
    assert await indexes(postgres, "jobs") == {"rowmill_jobs_work_ready": True, "rowmill_jobs_running": True}


async def test_a_small_table_is_indexed_in_place(postgres: Site) -> None:
    await postgres.make(PLAIN)

    found = await postgres.look("enrichment_requests")

    assert not any("CONCURRENTLY" in text for change in found.plan.changes for text in change.statements)


async def test_an_invalid_index_of_a_failed_attempt_is_made_again(postgres: Site) -> None:
    """IF NOT EXISTS would take it for the real one, and every claim would read the whole table."""
    await postgres.sql(*BIG_TABLE)
    await postgres.adopt("jobs")
    await postgres.sql(
        "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'rowmill_jobs_work_ready'::regclass",
    )

    found = await postgres.look("jobs")

    assert [change.what for change in found.plan.changes] == [
        "index rowmill_jobs_work_ready (claim) is invalid: an attempt to make it failed"
    ]
    await carry_out(postgres.store, found.plan)
    assert (await indexes(postgres, "jobs"))["rowmill_jobs_work_ready"]
    assert not (await postgres.look("jobs")).plan


async def test_rows_are_filled_in_batches_that_commit_by_themselves(
    postgres: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    await postgres.sql(*BIG_TABLE)
    found = await postgres.look("jobs")
    monkeypatch.setattr(fill_module.run, "__defaults__", (100,))
    told: dict[str, list[int]] = {}

    await carry_out(postgres.store, found.plan, lambda change, rows: told.setdefault(change.what, []).append(rows))

    leases, attempts = (told[change.what] for change in found.plan.changes if change.part is StepKind.ROWS)
    assert leases == [0, 100, 200, 300, 400, 500, 600]
    assert len(attempts) == 1 + 120 + 1
    assert attempts[-1] == 1200
    stamps = await postgres.value("SELECT count(DISTINCT xmin::text) FROM jobs WHERE status = 'processing'")
    assert stamps > 1, "in one transaction, all would carry its number"
    assert await postgres.value("SELECT count(*) FROM jobs WHERE attempts IS NULL AND status <> 'done'") == 0
    assert await postgres.value("SELECT count(*) FROM jobs WHERE attempts = 0 AND status = 'done'") == 0


async def test_a_fill_of_states_that_was_cut_short_goes_on(postgres: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    await postgres.sql(
        "CREATE TABLE outbox (id bigserial PRIMARY KEY, processed_at timestamptz)",
        "INSERT INTO outbox (processed_at) "
        "SELECT CASE WHEN n % 2 = 0 THEN now() END FROM generate_series(1, 1000) AS n",
    )
    monkeypatch.setattr(fill_module.run, "__defaults__", (100,))
    found = await postgres.look("outbox")

    def die(change: object, rows: int) -> None:
        if rows >= 300:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        await carry_out(postgres.store, found.plan, die)
    assert await postgres.value("SELECT count(*) FROM outbox WHERE state IS NULL") == 700
    await postgres.sql("INSERT INTO outbox DEFAULT VALUES")

    await postgres.adopt("outbox")

    assert dict(await postgres.rows("SELECT state, count(*) FROM outbox GROUP BY 1")) == {"ready": 501, "done": 500}
    assert await postgres.value("SELECT count(*) FROM outbox WHERE (processed_at IS NULL) = (state = 'done')") == 0


async def test_rows_in_progress_get_their_lease_after_a_fill_that_was_cut_short(
    postgres: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    await postgres.sql(
        "CREATE TABLE events (id bigserial PRIMARY KEY, done boolean, locked boolean, attempts integer)",
        "INSERT INTO events (done, locked) SELECT n % 2 = 0, n % 2 = 1 FROM generate_series(1, 1000) AS n",
    )
    monkeypatch.setattr(fill_module.run, "__defaults__", (100,))
    found = await postgres.look("events")

    def die(change: object, rows: int) -> None:
        if rows >= 300:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        await carry_out(postgres.store, found.plan, die)

    await postgres.adopt("events")

    assert await postgres.value("SELECT count(*) FROM events WHERE state = 'running'") == 500
    assert await postgres.value("SELECT count(*) FROM events WHERE state = 'running' AND leased_until IS NULL") == 0
    assert await postgres.value("SELECT count(*) FROM events WHERE state = 'running' AND attempts IS NULL") == 0


async def test_an_enum_gets_the_word_that_it_lacks(postgres: Site) -> None:
    await postgres.sql(
        "CREATE SCHEMA work",
        "CREATE TYPE work.\"Job State\" AS ENUM ('NEW', 'DONE', 'ERROR')",
        "CREATE TABLE work.jobs (id integer PRIMARY KEY, state work.\"Job State\" NOT NULL DEFAULT 'NEW')",
        "INSERT INTO work.jobs VALUES (1, 'NEW')",
    )

    found = await postgres.adopt("work.jobs")

    assert found.states[StateKind.RUNNING] == ("PROCESSING",)
    assert await postgres.value('SELECT enum_range(NULL::work."Job State")::text') == "{NEW,DONE,ERROR,PROCESSING}"
    assert (await postgres.drain_declared(found)).done == 1


async def test_a_check_gets_the_word_that_it_lacks(postgres: Site) -> None:
    await postgres.sql(
        "CREATE TABLE jobs (id integer PRIMARY KEY, state text, "
        "CONSTRAINT known CHECK (state IN ('new', 'done', 'error')))",
        "INSERT INTO jobs VALUES (1, 'new')",
    )

    found = await postgres.adopt("jobs")

    await postgres.sql("UPDATE jobs SET state = 'processing'")
    with pytest.raises(sa.exc.IntegrityError):
        await postgres.sql("UPDATE jobs SET state = 'banana'")
    assert next(change for change in found.plan.changes if change.part is StepKind.WORD).undo


async def test_an_index_for_other_words_is_made_again(postgres: Site) -> None:
    await postgres.make(PLAIN)
    await postgres.adopt("enrichment_requests")

    found = await postgres.look(
        "enrichment_requests", AdoptOptions(words={StateKind.WAITING: ("failed",), StateKind.DEAD: ("dead",)})
    )

    assert [change.part for change in found.plan.changes] == [StepKind.WORD, StepKind.INDEX]
    assert "rowmill_enrichment_requests_work_ready (claim) was made for other words" in found.plan.changes[1].what


async def test_a_table_with_a_dot_in_its_name_in_a_schema_with_a_dot(postgres: Site) -> None:
    await postgres.sql('CREATE SCHEMA "a.b"', 'CREATE TABLE "a.b"."c.d" (id integer PRIMARY KEY, status text)')

    found = await postgres.adopt('"a.b"."c.d"')

    assert found.table == "a.b.c.d"
    assert len(await indexes(postgres, '"a.b"."c.d"')) == 2


async def test_a_partitioned_table_is_adopted(postgres: Site) -> None:
    await postgres.sql(
        "CREATE TABLE jobs (id integer, day date, status text, PRIMARY KEY (id, day)) PARTITION BY RANGE (day)",
        "CREATE TABLE jobs_1 PARTITION OF jobs FOR VALUES FROM ('2026-01-01') TO ('2026-02-01')",
        "CREATE TABLE jobs_2 PARTITION OF jobs FOR VALUES FROM ('2026-02-01') TO ('2026-03-01')",
        "INSERT INTO jobs SELECT n, '2026-01-01'::date + n % 59, (ARRAY['pending','processing','done'])[1 + n % 3] "
        "FROM generate_series(1, 12000) AS n",
    )

    found = await postgres.adopt("jobs")

    assert not any("CONCURRENTLY" in text for change in found.plan.changes for text in change.statements)
    assert await postgres.value("SELECT count(*) FROM jobs WHERE status = 'processing' AND leased_until IS NULL") == 0


async def test_a_table_that_is_locked_is_left_alone_after_some_tries(
    postgres: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Waiting for an exclusive lock makes everyone else wait behind us."""
    monkeypatch.setattr(carrying, "LOCK_SECONDS", 0.05)
    monkeypatch.setattr(carrying, "TRIES", 2)
    await postgres.make(PLAIN)
    found = await postgres.look("enrichment_requests")
    async with postgres.store.engine.begin() as holder:
        await holder.execute(sa.text("LOCK TABLE enrichment_requests IN ACCESS SHARE MODE"))
        with pytest.raises(AdoptionFailed, match=r"lock timeout. Run it again"):
            await carry_out(postgres.store, found.plan)

    await postgres.adopt("enrichment_requests")
    settings = await postgres.rows("SELECT current_setting('lock_timeout'), current_setting('statement_timeout')")
    assert settings == [("0", "0")], "our settings don't stay with the connection"


async def test_an_end_of_a_lease_that_the_table_had_is_not_kept_to_the_letter(postgres: Site) -> None:
    """Rows in progress whose own lock ran out may still be worked on: they get a lease of ours once, not each time."""
    await postgres.make(TWO_WORDS)
    await postgres.adopt("tasks")
    running = "state IN ('processing', 'in_progress')"
    assert await postgres.value(f"SELECT count(*) FROM tasks WHERE {running} AND locked_until < now()") == 0
    await postgres.sql("UPDATE tasks SET locked_until = now() - interval '1 hour'")

    assert not (await postgres.look("tasks")).plan


async def test_times_without_a_zone_in_a_database_that_is_not_at_utc_are_pointed_out(postgres: Site) -> None:
    await postgres.sql("CREATE TABLE jobs (id integer PRIMARY KEY, status text, next_retry_at timestamp)")
    quiet = await postgres.look("jobs")
    name = await postgres.value("SELECT current_database()")
    await postgres.sql(f"ALTER DATABASE {name} SET timezone = 'Asia/Shanghai'")
    assert isinstance(postgres.store, PostgresStore)
    await greenlet_spawn(postgres.store.upkeep.dispose)

    found = await postgres.look("jobs")

    assert not any("Asia/Shanghai" in note for note in quiet.notes)
    assert any("next_retry_at" in note and "Asia/Shanghai" in note for note in found.notes)


async def test_a_trigger_that_calls_by_another_name_is_made_again(postgres: Site) -> None:
    """Sleepers are called by the table's name: a renamed table keeps a trigger that calls nobody."""
    await postgres.sql("CREATE TABLE jobs (id integer PRIMARY KEY, status text)")
    await postgres.adopt("jobs")
    await postgres.sql(
        "ALTER TABLE jobs RENAME TO work_items",
        "ALTER INDEX rowmill_jobs_work_ready RENAME TO rowmill_work_items_work_ready",
        "ALTER INDEX rowmill_jobs_running RENAME TO rowmill_work_items_running",
    )

    found = await postgres.adopt("work_items")

    assert [change.part for change in found.plan.changes] == [StepKind.TRIGGER]


async def test_a_trigger_that_is_switched_off_is_made_again(postgres: Site) -> None:
    await postgres.sql("CREATE TABLE jobs (id integer PRIMARY KEY, status text)")
    await postgres.adopt("jobs")
    await postgres.sql("ALTER TABLE jobs DISABLE TRIGGER rowmill_wake")

    found = await postgres.adopt("jobs")

    assert [change.part for change in found.plan.changes] == [StepKind.TRIGGER]


async def test_a_domain_is_taken_as_the_type_behind_it(postgres: Site) -> None:
    await postgres.sql(
        "CREATE DOMAIN job_status AS text CHECK (VALUE IN ('pending', 'running', 'done', 'failed'))",
        "CREATE DOMAIN short_status AS text CHECK (VALUE IN ('pending', 'done'))",
        "CREATE TABLE jobs (id integer PRIMARY KEY, status job_status NOT NULL DEFAULT 'pending', "
        "processed_at timestamptz)",
        "INSERT INTO jobs VALUES (1, 'pending'), (2, 'failed'), (3, 'done')",
        "CREATE TABLE tasks (id integer PRIMARY KEY, status short_status)",
        "INSERT INTO tasks VALUES (1, 'pending')",
    )

    found = await postgres.adopt("jobs")
    refused = await postgres.look("tasks")

    assert found.columns["state"] == "status"
    assert found.doubts == []
    assert (await postgres.drain_declared(found)).done == 1
    [obstacle] = refused.plan.obstacles
    assert "domain short_status of column status does not allow 'processing', 'failed'" in obstacle
    await postgres.sql(*obstacle.partition("change it: ")[2].split("; "))
    assert (await postgres.look("tasks")).plan.obstacles == []


async def test_a_table_that_others_inherit_from_is_refused(postgres: Site) -> None:
    await postgres.sql(
        "CREATE TABLE jobs (id integer PRIMARY KEY, status text DEFAULT 'pending')",
        "CREATE TABLE mails (address text) INHERITS (jobs)",
    )

    found = await postgres.look("jobs")

    assert "tables mails inherit from jobs" in found.plan.obstacles[0]


async def test_a_column_that_a_view_names_keeps_its_type(postgres: Site) -> None:
    await postgres.sql(
        "CREATE TABLE mails (id integer PRIMARY KEY, status varchar(10) NOT NULL, last_error varchar(20))",
        "CREATE VIEW shown AS SELECT status, last_error FROM mails",
        "INSERT INTO mails VALUES (1, 'pending'), (2, 'done')",
        "CREATE TABLE short (id integer PRIMARY KEY, status varchar(4) NOT NULL DEFAULT 'new', "
        "is_new boolean GENERATED ALWAYS AS (status = 'new') STORED, error varchar(20) DEFAULT 'x')",
    )

    found = await postgres.adopt("mails")
    refused = await postgres.look("short")
    said = await postgres.look("short", AdoptOptions(words={StateKind.RUNNING: ("busy",), StateKind.DEAD: ("bad",)}))

    names = postgres.declared(found)

    @names["mails"].handler()
    async def work(lease: rm.Lease[rm.Record]) -> None:
        raise rm.PermanentError("x" * 300)

    await names["mill"].migrate()
    await names["mill"].drain()
    assert await postgres.rows("SELECT status, length(last_error) FROM mails WHERE id = 1") == [("failed", 20)]
    [obstacle] = refused.plan.obstacles
    assert "status (state) takes only 4 characters" in obstacle
    assert said.plan.obstacles == []
    assert [change.what for change in said.plan.changes if "takes 20 characters" in change.what] != []


async def test_a_word_that_an_enum_lacks_is_not_asked_for(postgres: Site) -> None:
    await postgres.sql(
        "CREATE TYPE mail_state AS ENUM ('new', 'sent', 'error')",
        "CREATE TABLE mails (id integer PRIMARY KEY, state mail_state NOT NULL, locked_until timestamptz)",
        "INSERT INTO mails VALUES (1, 'new'), (2, 'sent')",
    )

    found = await postgres.adopt("mails")

    assert found.columns["leased_until"] == "locked_until"
    assert found.doubts == []


async def test_a_text_that_is_called_a_start_is_not_passed_over(postgres: Site) -> None:
    await postgres.sql(
        "CREATE TABLE sms (id integer PRIMARY KEY, status text, send_after varchar(30))",
        "INSERT INTO sms VALUES (1, 'queued', '2090-01-01 00:00'), (2, 'sent', '2020-01-01 00:00')",
    )

    found = await postgres.look("sms")

    assert any("send_after is set on 1 of 1 ready rows" in doubt for doubt in found.doubts)
