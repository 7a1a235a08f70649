"""A name alone is not enough: what rows hold, and which other columns there are, decides; or a person does."""

import sqlite3
from contextlib import closing

import pytest
import sqlalchemy as sa

import rowmill as rm
from rowmill.adopt import AdoptOptions, StepKind, examine_table
from rowmill.model.errors import BadRequest
from rowmill.model.lifecycle import StateKind
from rowmill.store.open import parse_url
from tests.adopt.conftest import Site

pytestmark = pytest.mark.empty_database


def ahead(site: Site, days: int = 1) -> str:
    return f"now() + interval '{days} days'" if site.postgres else f"datetime('now', '{days:+} days')"


def doubt(doubts: list[str], about: str) -> str:
    [found] = [text for text in doubts if about in text]
    return found


async def test_states_that_a_row_reports_are_not_its_own(site: Site) -> None:
    """The old and the new state of an order: rows that were done would run again."""
    await site.sql(
        "CREATE TABLE status_changes (id integer PRIMARY KEY, old_status text, new_status text, processed boolean)",
        "INSERT INTO status_changes VALUES (1, 'pending', 'processing', true), (2, 'processing', 'done', true), "
        "(3, 'pending', 'failed', false)",
    )

    guessed = await site.look("status_changes")
    said = await site.look("status_changes", AdoptOptions(new=frozenset({"state"})))

    text = doubt(guessed.doubts, "which column holds the state")
    assert "old_status (pending: 2, processing: 1)" in text
    assert "--state-column" in text
    assert "--new state" in text
    assert said.doubts == []
    assert said.columns["state"] == "state"
    assert any("done where coalesce(processed, false): 2 rows" in note for note in said.notes)


async def test_of_two_columns_with_the_words_of_a_queue_neither_is_taken_by_itself(site: Site) -> None:
    await site.sql(
        "CREATE TABLE orders (id integer PRIMARY KEY, status text, export_status text)",
        "INSERT INTO orders VALUES (1, 'new', 'pending'), (2, 'cancelled', 'done'), (3, 'done', 'failed')",
    )

    found = await site.look("orders")
    said = await site.look("orders", AdoptOptions(state="export_status"))

    assert "export_status (" in doubt(found.doubts, "which column holds the state")
    assert said.doubts == []


async def test_an_index_tells_which_column_is_the_state(site: Site) -> None:
    await site.sql(
        "CREATE TABLE orders (id integer PRIMARY KEY, phase text, kind text)",
        "INSERT INTO orders VALUES (1, 'new', 'a'), (2, 'done', 'b')",
    )
    weak = await site.look("orders")
    await site.sql("CREATE INDEX orders_queue ON orders (id) WHERE phase = 'new'")

    found = await site.look("orders")

    assert doubt(weak.doubts, "which column holds the state")
    assert found.doubts == []
    assert found.columns["state"] == "phase"


@pytest.mark.parametrize("name", ["scheduled_time", "run_at", "consume_after", "ScheduledTime"])
async def test_the_start_time_goes_by_many_names(site: Site, name: str) -> None:
    await site.sql(
        f'CREATE TABLE jobs (id integer PRIMARY KEY, status text, "{name}" timestamp)',
        f"INSERT INTO jobs VALUES (1, 'pending', {ahead(site)}), (2, 'pending', {ahead(site, -1)})",
    )

    found = await site.look("jobs")

    assert found.doubts == []
    assert found.columns["available_at"] == name


async def test_a_time_that_lies_ahead_on_ready_rows_is_not_passed_over(site: Site) -> None:
    """Nobody knows its name, but tomorrow's rows would run today."""
    await site.sql(
        "CREATE TABLE jobs (id integer PRIMARY KEY, status text, launch timestamp)",
        f"INSERT INTO jobs VALUES (1, 'pending', {ahead(site)}), (2, 'pending', {ahead(site, -1)})",
    )

    guessed = await site.look("jobs")
    new = await site.look("jobs", AdoptOptions(new=frozenset({"available_at"})))
    said = await site.look("jobs", AdoptOptions(columns={"available_at": "launch"}))

    text = doubt(guessed.doubts, "available_at, which says from when on a row may run")
    assert "launch (set on 2 of 2 ready rows, 1 of them ahead; such as 20" in text
    assert "--column available_at=launch; or --new available_at" in text
    assert new.doubts == said.doubts == []
    assert new.columns["available_at"] == "available_at"
    assert said.columns["available_at"] == "launch"


async def test_an_end_that_lies_ahead_is_only_told(site: Site) -> None:
    await site.sql(
        "CREATE TABLE jobs (id integer PRIMARY KEY, status text, expires_at timestamp)",
        f"INSERT INTO jobs VALUES (1, 'pending', {ahead(site)})",
    )

    found = await site.look("jobs")

    assert found.doubts == []
    assert found.columns["available_at"] == "available_at"
    assert any(note.startswith("expires_at lies ahead") for note in found.notes)


async def test_of_several_start_times_the_first_is_not_taken_by_itself(site: Site) -> None:
    await site.sql(
        "CREATE TABLE reminders (id integer PRIMARY KEY, status text, scheduled_at timestamp, run_at timestamp, "
        "remind_at timestamp)",
        f"INSERT INTO reminders VALUES (1, 'pending', {ahead(site, -2)}, {ahead(site, -1)}, {ahead(site)})",
    )

    found = await site.look("reminders")

    text = doubt(found.doubts, "available_at")
    assert all(f"--column available_at={name}" in text for name in ("scheduled_at", "run_at", "remind_at"))


async def test_a_start_time_of_the_wrong_type_is_not_passed_over(site: Site) -> None:
    await site.sql(
        "CREATE TABLE jobs (id integer PRIMARY KEY, status text, run_after text)",
        "INSERT INTO jobs VALUES (1, 'pending', 'next tuesday')",
    )

    found = await site.look("jobs")

    assert "set on 1 of 1 ready rows" in doubt(found.doubts, "run_after")
    assert "tuesday" not in str(found.doubts), "a text may be anybody's"


async def test_a_time_that_is_set_on_ready_rows_is_not_when_they_finished(site: Site) -> None:
    await site.sql(
        "CREATE TABLE posts (id integer PRIMARY KEY, status text, published_at timestamp, processed_at timestamp)",
        f"INSERT INTO posts VALUES (1, 'pending', {ahead(site, -2)}, {ahead(site, -2)}), "
        f"(2, 'done', {ahead(site, -3)}, {ahead(site, -2)})",
    )

    guessed = await site.look("posts")
    said = await site.look("posts", AdoptOptions(new=frozenset({"finished_at"})))

    text = doubt(guessed.doubts, "finished_at, which says when a row was finished")
    assert "published_at (set on 1 of 1 ready rows; set on 1 of 1 done rows" in text
    assert "--new finished_at" in text
    assert said.doubts == []
    assert said.columns["finished_at"] == "finished_at"


async def test_a_weak_name_is_enough_if_the_rows_bear_it_out(site: Site) -> None:
    await site.sql(
        "CREATE TABLE posts (id integer PRIMARY KEY, status text, published_at timestamp)",
        f"INSERT INTO posts VALUES (1, 'pending', NULL), (2, 'done', {ahead(site, -3)})",
    )

    found = await site.look("posts")

    assert found.doubts == []
    assert found.columns["finished_at"] == "published_at"


async def test_a_weak_name_alone_is_a_doubt(site: Site) -> None:
    await site.sql("CREATE TABLE posts (id integer PRIMARY KEY, status text, published_at timestamp)")

    found = await site.look("posts")

    assert "no rows to tell from" in doubt(found.doubts, "published_at")


async def test_a_text_on_rows_that_were_never_tried_is_no_error(site: Site) -> None:
    await site.sql(
        "CREATE TABLE reports (id integer PRIMARY KEY, status text, error text, attempts integer)",
        "INSERT INTO reports VALUES (1, 'pending', 'disk full', 0), (2, 'pending', 'no paper', 1)",
    )

    found = await site.look("reports")

    text = doubt(found.doubts, "error, which holds the last error")
    assert "disk full" not in text
    assert "--new error" in text


async def test_errors_of_earlier_tries_are_told_with_their_number(site: Site) -> None:
    await site.sql(
        "CREATE TABLE jobs (id integer PRIMARY KEY, status text, last_error text, attempts integer)",
        "INSERT INTO jobs VALUES (1, 'pending', 'disk full', 1), (2, 'pending', '', 0), (3, 'failed', 'x', 3)",
    )

    found = await site.look("jobs")

    assert found.doubts == []
    assert "1 ready rows have an error of an earlier try in last_error: their next claim clears it" in found.notes


async def test_a_lock_that_has_not_ended_on_a_ready_row_is_a_doubt(site: Site) -> None:
    await site.sql(
        "CREATE TABLE jobs (id integer PRIMARY KEY, status text, locked_until timestamp)",
        f"INSERT INTO jobs VALUES (1, 'pending', {ahead(site)})",
    )

    found = await site.look("jobs")

    assert "--column leased_until=locked_until" in doubt(found.doubts, "leased_until")


async def test_a_count_of_something_else_is_not_taken_by_itself(site: Site) -> None:
    await site.sql(
        "CREATE TABLE cleanups (id integer PRIMARY KEY, status text DEFAULT 'new', login_attempts integer)",
        "CREATE TABLE uploads (id integer PRIMARY KEY, cleanup_status text DEFAULT 'new', cleanup_attempts integer)",
        "CREATE TABLE retries (id integer PRIMARY KEY, status text DEFAULT 'new', retried integer, "
        "max_retries integer)",
    )

    other, related, short = [await site.look(name) for name in ("cleanups", "uploads", "retries")]

    assert "--column attempts=login_attempts; or --new attempts" in doubt(other.doubts, "attempts")
    assert related.doubts == short.doubts == []
    assert related.columns["attempts"] == "cleanup_attempts"
    assert short.columns["attempts"] == "retried"


async def test_a_limit_is_not_taken_for_the_count(site: Site) -> None:
    await site.sql(
        "CREATE TABLE jobs (id integer PRIMARY KEY, status text, max_attempts integer NOT NULL DEFAULT 5)",
        "INSERT INTO jobs VALUES (1, 'pending', 5)",
    )

    found = await site.look("jobs")

    assert found.columns["attempts"] == "attempts"
    assert found.columns.get("max_attempts") == "max_attempts" or any("max_attempts" in note for note in found.notes)


async def test_what_may_be_somebody_elses_is_left_alone_where_a_queue_does_without(site: Site) -> None:
    await site.sql(
        "CREATE TABLE visits (id integer PRIMARY KEY, status text, start_time timestamp, last_modified timestamp)",
        f"INSERT INTO visits VALUES (1, 'pending', {ahead(site, -1)}, {ahead(site, -1)})",
    )

    found = await site.look("visits")

    assert "started_at" not in found.columns
    assert "updated_at" not in found.columns
    assert any("--column started_at=start_time" in note for note in found.notes)
    assert found.doubts == []


async def test_words_for_several_phases_are_not_merged(site: Site) -> None:
    await site.sql(
        "CREATE TABLE mails (id integer PRIMARY KEY, status text)",
        "INSERT INTO mails VALUES (1, 'pending'), (2, 'processed'), (3, 'sent'), (4, 'delivered')",
        "CREATE TABLE pages (id integer PRIMARY KEY, status text)",
        "INSERT INTO pages VALUES (1, 'pending'), (2, 'fetching'), (3, 'fetched'), (4, 'done')",
    )

    mails, pages = await site.look("mails"), await site.look("pages")
    said = await site.look("mails", AdoptOptions(words={StateKind.DONE: ("delivered", "sent", "processed")}))

    assert "rm.Stage" in doubt(mails.doubts, "'processed'")
    assert "'fetching', 'fetched' may be phases" in doubt(pages.doubts, "rm.Stage")
    assert said.doubts == []


async def test_flags_say_the_state_of_a_table_that_has_none(site: Site) -> None:
    yes, no = ("true", "false") if site.postgres else ("1", "0")
    flag = "boolean" if site.postgres else "integer"
    await site.sql(
        f"CREATE TABLE events (id integer PRIMARY KEY, delivered {flag}, error {flag}, archived {flag}, locked {flag})",
        f"INSERT INTO events VALUES (1, {no}, {no}, {no}, {no}), (2, {yes}, {no}, {yes}, {no}), "
        f"(3, {no}, {yes}, {no}, {yes}), (4, {no}, {no}, {yes}, {no}), (5, {no}, {no}, {no}, {yes}), "
        "(6, NULL, NULL, NULL, NULL)",
    )

    found = await site.adopt("events")

    assert found.doubts == []
    assert dict(await site.rows("SELECT id, state FROM events")) == {
        1: "ready", 2: "done", 3: "dead", 4: "cancelled", 5: "running", 6: "ready",
    }  # fmt: skip
    assert await site.rows("SELECT id FROM events WHERE leased_until IS NOT NULL") == [(5,)]
    assert any("return them" in note for note in found.notes)


async def test_conditions_say_the_state_of_a_table_that_has_none(site: Site) -> None:
    await site.sql(
        "CREATE TABLE mails (id integer PRIMARY KEY, code integer, bounced text, attempts integer)",
        "INSERT INTO mails VALUES (1, NULL, NULL, NULL), (2, 250, NULL, 1), (3, 500, 'x:y', 2), (4, 1, NULL, 1), "
        "(5, -1, NULL, NULL)",
    )
    where = {
        StateKind.DONE: "code = 250",
        StateKind.DEAD: "bounced LIKE '%:%'",
        StateKind.RUNNING: "code = 1",
        StateKind.READY: "code IS NULL",
    }

    found = await site.adopt("mails", AdoptOptions(where=where))

    states = {1: "ready", 2: "done", 3: "dead", 4: "running", 5: None}
    assert dict(await site.rows("SELECT id, state FROM mails")) == states
    assert any("none of these: 1 rows" in note for note in found.notes)
    assert await site.value("SELECT attempts FROM mails WHERE id = 1") == 0


async def test_a_condition_that_is_none_is_refused(site: Site) -> None:
    await site.sql("CREATE TABLE mails (id integer PRIMARY KEY, code integer)")

    with pytest.raises(BadRequest, match=r"--done-where is no condition on this table: .*nope"):
        await site.look("mails", AdoptOptions(where={StateKind.DONE: "nope = 1"}))


async def test_a_queue_that_keeps_what_it_has_to_do_as_times(site: Site) -> None:
    """No state: rows are deleted when they are done, locked while they run, and marked when they failed."""
    await site.sql(
        "CREATE TABLE delayed_jobs (id integer PRIMARY KEY, attempts integer NOT NULL DEFAULT 0, last_error text, "
        "run_at timestamp, locked_at timestamp, failed_at timestamp)",
        f"INSERT INTO delayed_jobs VALUES (1, 0, NULL, {ahead(site, -1)}, NULL, NULL), "
        f"(2, 0, NULL, {ahead(site)}, NULL, NULL), (3, 1, NULL, {ahead(site, -1)}, {ahead(site, -1)}, NULL), "
        f"(4, 9, 'x', {ahead(site, -1)}, {ahead(site, -1)}, {ahead(site, -1)})",
    )

    guessed = await site.look("delayed_jobs")
    assert "--done-where SQL" in doubt(guessed.doubts, "done already")
    choices = AdoptOptions(
        where={
            StateKind.DONE: "false",
            StateKind.RUNNING: "locked_at IS NOT NULL",
            StateKind.DEAD: "failed_at IS NOT NULL",
        }
    )
    found = await site.adopt("delayed_jobs", choices)

    assert found.doubts == []
    states = {1: "ready", 2: "ready", 3: "running", 4: "dead"}
    assert dict(await site.rows("SELECT id, state FROM delayed_jobs")) == states


async def test_a_column_of_ours_is_known_again_beside_its_rivals(site: Site) -> None:
    await site.sql(
        "CREATE TABLE jobs (id integer PRIMARY KEY, status text, scheduled_at timestamp, run_at timestamp, "
        "finished_at timestamp)",
        f"INSERT INTO jobs VALUES (1, 'pending', {ahead(site)}, {ahead(site)}, {ahead(site, -1)})",
    )

    await site.adopt("jobs", AdoptOptions(new=frozenset({"available_at", "finished_at"})))
    again = await site.look("jobs")

    assert not again.plan
    assert again.doubts == []
    assert again.columns["available_at"] == "available_at"
    assert again.columns["finished_at"] == "queue_finished_at"


async def test_local_times_are_noticed(sqlite: Site) -> None:
    await sqlite.sql(
        "CREATE TABLE jobs (id INTEGER PRIMARY KEY, status TEXT, created_at TEXT, next_retry_at TEXT)",
        "INSERT INTO jobs VALUES (1, 'pending', datetime('now', '+8 hours'), NULL)",
    )
    harmless = await sqlite.look("jobs")
    await sqlite.sql("UPDATE jobs SET next_retry_at = datetime('now', '+8 hours')")

    found = await sqlite.look("jobs")

    assert harmless.doubts == []
    assert any("created_at lies ahead of the database's clock on 1 rows" in note for note in harmless.notes)
    assert "datetime(next_retry_at, 'utc')" in doubt(found.doubts, "local time")


async def test_local_times_that_lie_behind_are_noticed_by_the_time_that_the_database_writes(sqlite: Site) -> None:
    await sqlite.sql(
        "CREATE TABLE jobs (id INTEGER PRIMARY KEY, status TEXT, updated_at TEXT, next_retry_at TEXT, "
        "created_at TEXT DEFAULT CURRENT_TIMESTAMP)",
        "INSERT INTO jobs (id, status, updated_at, next_retry_at) "
        "VALUES (1, 'pending', datetime('now', '-5 hours'), datetime('now', '-5 hours'))",
    )

    found = await sqlite.look("jobs")

    assert "updated_at lies hours before created_at on 1 rows" in doubt(found.doubts, "local time")


async def test_a_database_that_writes_local_time_is_noticed(postgres: Site) -> None:
    await postgres.sql(
        "CREATE TABLE jobs (id integer PRIMARY KEY, status text, next_retry_at timestamp, "
        "created_at timestamp NOT NULL DEFAULT now())",
        "INSERT INTO jobs VALUES (1, 'pending', now() + interval '1 day', now() - interval '5 hours')",
    )

    def look(connection: sa.Connection, zone: str) -> list[str]:
        connection.execute(sa.text(f"SET LOCAL timezone = '{zone}'"))
        return examine_table(connection, "jobs").doubts

    local = await postgres.store.run(lambda connection: look(connection, "America/New_York"))
    utc = await postgres.store.run(lambda connection: look(connection, "UTC"))

    assert "created_at has a default in local time" in doubt(local, "next_retry_at would let rows run hours early")
    assert utc == []


async def test_a_flag_that_is_called_a_start_is_none(site: Site) -> None:
    await site.sql(
        "CREATE TABLE jobs (id integer PRIMARY KEY, status text, scheduled boolean)",
        "INSERT INTO jobs VALUES (1, 'pending', false)",
    )

    assert (await site.look("jobs")).doubts == []


async def test_a_default_in_local_time_is_noticed(sqlite: Site) -> None:
    await sqlite.sql(
        "CREATE TABLE jobs (id INTEGER PRIMARY KEY, status TEXT, "
        "created_at DATETIME NOT NULL DEFAULT (datetime('now', 'localtime')))",
    )

    found = await sqlite.look("jobs")

    assert any("created_at has a default in local time" in note for note in found.notes)


async def test_the_number_of_rows_in_progress_is_told(site: Site) -> None:
    await site.sql(
        "CREATE TABLE jobs (id integer PRIMARY KEY, status text, locked_until timestamp)",
        "INSERT INTO jobs VALUES (1, 'processing', NULL), (2, 'processing', NULL), (3, 'done', NULL)",
    )

    found = await site.look("jobs")

    [change] = [change for change in found.plan.changes if change.part is StepKind.ROWS and "progress" in change.what]
    assert change.what == "2 rows in progress (processing) have no lease: they get one of 900 s, and are rescued after"


async def test_a_column_that_only_sounds_like_a_state_is_a_doubt_and_shows_no_other_values(site: Site) -> None:
    await site.sql(
        "CREATE TABLE jobs (id integer PRIMARY KEY, event text)",
        "INSERT INTO jobs VALUES (1, 'created'), (2, 'failed'), (3, 'anna@example.org')",
    )

    found = await site.look("jobs")

    text = doubt(found.doubts, "which column holds the state")
    assert "event (created: 1, failed: 1, 1 other values)" in text or "event (failed: 1, created: 1, 1 other" in text
    assert "anna" not in text


async def test_a_foreign_key_is_no_obstacle(site: Site) -> None:
    await site.sql(
        "CREATE TABLE p (id integer PRIMARY KEY)",
        "CREATE TABLE t (id integer PRIMARY KEY, p integer REFERENCES p, status text)",
        "INSERT INTO t VALUES (1, NULL, 'pending')",
    )

    found = await site.adopt("t")

    assert (await site.drain_declared(found)).done == 1


async def test_a_key_into_a_table_that_is_not_there_is_no_obstacle(sqlite: Site) -> None:
    with closing(sqlite3.connect(str(parse_url(sqlite.url).database))) as connection:  # which checks no keys
        connection.executescript(
            "CREATE TABLE t (id INTEGER PRIMARY KEY, p INTEGER REFERENCES nowhere (x), status TEXT);"
            "INSERT INTO t VALUES (1, 7, 'pending');"
        )

    found = await sqlite.adopt("t")

    assert (await sqlite.drain_declared(found)).done == 1


async def test_what_the_caller_says_is_the_end_is_the_only_one(site: Site) -> None:
    await site.sql(
        "CREATE TABLE mails (id integer PRIMARY KEY, sent_at timestamp, processed_at timestamp)",
        f"INSERT INTO mails VALUES (1, {ahead(site, -1)}, NULL), (2, {ahead(site, -1)}, {ahead(site, -1)})",
    )

    guessed = await site.look("mails")
    await site.adopt("mails", AdoptOptions(columns={"finished_at": "processed_at"}))

    assert doubt(guessed.doubts, "finished_at")
    assert dict(await site.rows("SELECT id, state FROM mails")) == {1: "ready", 2: "done"}


async def test_times_may_be_numbers_with_a_fraction(site: Site) -> None:
    kind = "double precision" if site.postgres else "REAL"
    await site.sql(
        f"CREATE TABLE jobs (id integer PRIMARY KEY, status text, run_at {kind}, finished_at {kind})",
        "INSERT INTO jobs VALUES (1, 'pending', 1700000000.5, NULL), (2, 'pending', 4000000000.25, NULL), "
        "(3, 'done', NULL, 1700000000.5)",
    )

    found = await site.adopt("jobs")

    assert found.doubts == []
    assert found.columns["available_at"] == "run_at"
    assert found.columns["finished_at"] == "finished_at"
    await site.drain_declared(found)
    assert dict(await site.rows("SELECT id, status FROM jobs")) == {1: "done", 2: "pending", 3: "done"}


async def test_an_end_is_known_by_its_last_letters_too(site: Site) -> None:
    await site.sql(
        "CREATE TABLE jobs (id integer PRIMARY KEY, state text, startafter timestamp, keepuntil timestamp)",
        f"INSERT INTO jobs VALUES (1, 'created', {ahead(site)}, {ahead(site, 9)})",
    )

    found = await site.look("jobs")

    assert found.doubts == []
    assert found.columns["available_at"] == "startafter"


@pytest.mark.parametrize("name", ["NextRetryAtUtc", "next_retry_dt", "nextretryat", "run_at_gmt"])
async def test_a_name_is_known_without_its_marks_and_with_its_clock(site: Site, name: str) -> None:
    await site.sql(
        f'CREATE TABLE jobs (id integer PRIMARY KEY, status text, "{name}" timestamp)',
        f"INSERT INTO jobs VALUES (1, 'pending', {ahead(site, -1)}), (2, 'done', NULL)",
    )

    found = await site.look("jobs")

    assert found.doubts == []
    assert found.columns["available_at"] == name


async def test_the_end_of_a_table_without_a_state_is_known_by_such_names_too(site: Site) -> None:
    await site.sql(
        'CREATE TABLE outbox (id integer PRIMARY KEY, "ProcessedAtUtc" timestamp, deletedat timestamp)',
        f"INSERT INTO outbox VALUES (1, NULL, NULL), (2, {ahead(site, -1)}, NULL), (3, NULL, {ahead(site, -1)})",
    )

    found = await site.adopt("outbox")

    assert found.doubts == []
    assert dict(await site.rows("SELECT id, state FROM outbox")) == {1: "ready", 2: "done", 3: "cancelled"}


@pytest.mark.parametrize("name", ["scheduled_slot", "next_fetch_at", "execution_time", "deliver_after"])
async def test_a_name_that_sounds_like_a_start_is_not_passed_over_while_nothing_lies_ahead(
    site: Site, name: str
) -> None:
    await site.sql(
        f"CREATE TABLE jobs (id integer PRIMARY KEY, status text, {name} timestamp, last_execution timestamp)",
        f"INSERT INTO jobs VALUES (1, 'pending', {ahead(site, -1)}, {ahead(site, -2)})",
    )

    found = await site.look("jobs")

    text = doubt(found.doubts, "available_at, which says from when on a row may run")
    assert f"--column available_at={name}; or --new available_at" in text
    assert "last_execution" not in text


async def test_a_time_by_which_ready_rows_are_indexed_may_be_their_start(site: Site) -> None:
    await site.sql(
        "CREATE TABLE notes (id integer PRIMARY KEY, status text, notification_date timestamp, "
        "came timestamp DEFAULT CURRENT_TIMESTAMP)",
        "CREATE INDEX notes_due ON notes (notification_date) WHERE status = 'pending'",
        "CREATE INDEX notes_came ON notes (status, came)",
        "INSERT INTO notes (id, status, notification_date) "
        f"VALUES (1, 'pending', {ahead(site, -1)}), (2, 'sent', {ahead(site, -2)})",
    )

    found = await site.look("notes")

    text = doubt(found.doubts, "available_at")
    assert "--column available_at=notification_date" in text
    assert "came" not in text


async def test_a_second_start_that_is_set_is_a_doubt_though_nothing_lies_ahead(site: Site) -> None:
    await site.sql(
        "CREATE TABLE sends (id integer PRIMARY KEY, status text, send_at timestamp, next_retry_at timestamp)",
        f"INSERT INTO sends VALUES (1, 'pending', {ahead(site, -1)}, NULL), (2, 'sent', {ahead(site, -2)}, NULL)",
    )

    found = await site.look("sends")
    await site.sql("UPDATE sends SET send_at = NULL")
    unused = await site.look("sends")

    assert "--column available_at=send_at" in doubt(found.doubts, "available_at")
    assert unused.doubts == []


async def test_a_start_that_was_decided_against_is_told_where_it_lies_ahead(site: Site) -> None:
    await site.sql(
        "CREATE TABLE sends (id integer PRIMARY KEY, status text, scheduled_at timestamp, next_retry_at timestamp)",
        f"INSERT INTO sends VALUES (1, 'pending', {ahead(site, -1)}, {ahead(site)}), (2, 'sent', NULL, NULL)",
    )

    found = await site.look("sends", AdoptOptions(columns={"available_at": "scheduled_at"}))

    assert found.doubts == []
    assert any(note.startswith("1 rows are ready whose next_retry_at lies ahead") for note in found.notes)


async def test_a_date_is_not_offered_as_a_start(site: Site) -> None:
    await site.sql(
        "CREATE TABLE sends (id integer PRIMARY KEY, status text, send_at date)",
        "INSERT INTO sends VALUES (1, 'pending', '2090-01-01')",
    )

    text = doubt((await site.look("sends")).doubts, "available_at")

    assert "--column available_at=send_at" not in text
    assert "send_at would have to be a timestamp first" in text


async def test_rows_that_failed_and_have_a_next_try_are_a_doubt(site: Site) -> None:
    await site.sql(
        "CREATE TABLE hooks (id integer PRIMARY KEY, status text, attempts integer, next_retry_at timestamp)",
        f"INSERT INTO hooks VALUES (1, 'pending', 0, NULL), (2, 'failed', 1, {ahead(site)}), (3, 'success', 1, NULL)",
    )

    guessed = await site.look("hooks")
    dead = await site.look("hooks", AdoptOptions(words={StateKind.DEAD: ("failed",)}))
    retried = await site.look("hooks", AdoptOptions(words={StateKind.WAITING: ("failed",)}))

    text = doubt(guessed.doubts, "1 rows in state 'failed', which is taken for dead, have a next_retry_at ahead")
    assert "--waiting failed" in text
    assert "--dead failed" in text
    assert dead.doubts == retried.doubts == []
    assert retried.states[StateKind.DEAD] == ("dead",), "another word than the one that waits"


async def test_a_time_of_success_is_left_empty_where_a_row_fails(site: Site) -> None:
    await site.sql(
        "CREATE TABLE mails (id integer PRIMARY KEY, status text, sent_at timestamp)",
        f"INSERT INTO mails VALUES (1, 'pending', NULL), (2, 'sent', {ahead(site, -1)})",
        "CREATE TABLE runs (id integer PRIMARY KEY, status text, processed_at timestamp)",
        f"INSERT INTO runs VALUES (1, 'pending', NULL), (2, 'done', {ahead(site, -1)}), (3, 'failed', NULL)",
        "CREATE TABLE ends (id integer PRIMARY KEY, status text, sent_at timestamp)",
        f"INSERT INTO ends VALUES (1, 'pending', NULL), (2, 'sent', {ahead(site, -1)}), "
        f"(3, 'failed', {ahead(site, -1)})",
    )

    by_name, by_rows, not_so = [await site.adopt(name) for name in ("mails", "runs", "ends")]

    assert site.declared(by_name)["mails"].finished_on == "done"
    assert site.declared(by_rows)["runs"].finished_on == "done"
    assert site.declared(not_so)["ends"].finished_on == "final"
    assert any("sent_at is taken for the time of success" in note for note in by_name.notes)


async def test_a_condition_says_which_ends_set_the_time(site: Site) -> None:
    await site.sql(
        "CREATE TABLE jobs (id integer PRIMARY KEY, status text DEFAULT 'new', ended_at timestamp, "
        "CHECK ((status = 'done') = (ended_at IS NOT NULL)))",
        "CREATE TABLE runs (id integer PRIMARY KEY, status text DEFAULT 'new', ended_at timestamp, "
        "CHECK ((status IN ('done', 'failed')) = (ended_at IS NOT NULL)))",
        "INSERT INTO jobs (id) VALUES (1)",
    )

    jobs, runs = await site.adopt("jobs"), await site.look("runs")
    names = site.declared(jobs)

    @names["jobs"].handler()
    async def work(lease: rm.Lease[rm.Record]) -> None:
        raise rm.PermanentError("no")

    await names["mill"].migrate()
    await names["mill"].drain()
    assert await site.rows("SELECT status, ended_at FROM jobs") == [("failed", None)]
    assert "finished_on" not in str(runs.declaration)


@pytest.mark.parametrize(
    ("columns", "values"),
    [
        ("attempt_number integer NOT NULL", "2"),
        ("attempt integer NOT NULL DEFAULT 1", "1"),
        ("error_count integer NOT NULL DEFAULT 0, total_rows integer", "0, 9"),
    ],
)
async def test_a_number_that_may_be_part_of_the_work_is_not_taken_for_the_attempts(
    site: Site, columns: str, values: str
) -> None:
    await site.sql(
        f"CREATE TABLE jobs (id integer PRIMARY KEY, status text, {columns})",
        f"INSERT INTO jobs VALUES (1, 'pending', {values})",
    )

    found = await site.look("jobs")
    new = await site.look("jobs", AdoptOptions(new=frozenset({"attempts"})))

    assert "--new attempts" in doubt(found.doubts, "attempts, which counts the attempts: is it?")
    assert new.doubts == []


async def test_numbers_of_tries_that_begin_at_0_are_attempts(site: Site) -> None:
    await site.sql(
        "CREATE TABLE jobs (id integer PRIMARY KEY, status text, attempt integer NOT NULL DEFAULT 0)",
        "CREATE TABLE tasks (id integer PRIMARY KEY, status text, attempt_number integer)",
        "INSERT INTO jobs VALUES (1, 'pending', 1)",
        "INSERT INTO tasks VALUES (1, 'pending', 0), (2, 'pending', 2)",
    )

    for table, name in (("jobs", "attempt"), ("tasks", "attempt_number")):
        found = await site.look(table)
        assert found.doubts == []
        assert found.columns["attempts"] == name


async def test_a_start_that_every_row_must_have_is_left_alone(site: Site) -> None:
    await site.sql(
        "CREATE TABLE jobs (id integer PRIMARY KEY, status text DEFAULT 'pending', "
        "started_at timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP)"
    )

    found = await site.look("jobs")

    assert found.doubts == []
    assert "started_at" not in found.columns
    assert not any("started_at" in change.what for change in found.plan.changes)


async def test_rows_that_are_deleted_are_left_out(site: Site) -> None:
    flag, yes, no = ("boolean", "true", "false") if site.postgres else ("BOOLEAN", "1", "0")
    await site.sql(
        f"CREATE TABLE invites (id integer PRIMARY KEY, status text, deleted_at timestamp, is_paused {flag})",
        f"INSERT INTO invites VALUES (1, 'pending', NULL, NULL), (2, 'pending', {ahead(site, -1)}, {no}), "
        f"(3, 'pending', NULL, {yes}), (4, 'pending', NULL, {no})",
    )

    found = await site.adopt("invites")
    await site.drain_declared(found)

    assert found.doubts == []
    assert any(
        note.startswith("rows with deleted_at set are left out") and "; 1 of them" in note for note in found.notes
    )
    assert dict(await site.rows("SELECT id, status FROM invites")) == {1: "done", 2: "pending", 3: "pending", 4: "done"}


async def test_rows_that_are_ready_by_their_state_and_done_by_a_flag_are_a_doubt(site: Site) -> None:
    yes, no = ("true", "false") if site.postgres else ("1", "0")
    await site.sql(
        "CREATE TABLE mails (id integer PRIMARY KEY, status text, sent boolean)",
        f"INSERT INTO mails VALUES (1, 'pending', {no}), (2, 'pending', {yes}), (3, 'done', {yes})",
    )

    text = doubt((await site.look("mails")).doubts, "1 rows are ready by their state, and sent is set on them")
    await site.sql(text.partition("If they are done: ")[2].partition(". If sent")[0])

    assert (await site.look("mails")).doubts == []
    assert dict(await site.rows("SELECT id, status FROM mails")) == {1: "pending", 2: "done", 3: "done"}


async def test_a_row_that_was_started_and_not_finished_is_in_progress(site: Site) -> None:
    await site.sql(
        "CREATE TABLE runs (id integer PRIMARY KEY, started_at timestamp, finished_at timestamp)",
        f"INSERT INTO runs VALUES (1, NULL, NULL), (2, {ahead(site, -1)}, NULL), "
        f"(3, {ahead(site, -1)}, {ahead(site, -1)})",
    )

    await site.adopt("runs")

    assert dict(await site.rows("SELECT id, state FROM runs")) == {1: "ready", 2: "running", 3: "done"}


async def test_a_zero_among_numbers_that_are_times_is_no_time(site: Site) -> None:
    await site.sql(
        "CREATE TABLE jobs (id integer PRIMARY KEY, run_at bigint NOT NULL, finished_at bigint, failed_at bigint)",
        "INSERT INTO jobs VALUES (1, 0, 0, 0), (2, 4000000000, 0, 0), (3, 1700000000, 1700000000, 0), "
        "(4, 1700000000, 0, 1700000000)",
    )

    found = await site.adopt("jobs")

    assert found.doubts == []
    assert found.columns["available_at"] == "run_at"
    assert found.columns["finished_at"] == "finished_at"
    assert dict(await site.rows("SELECT id, state FROM jobs")) == {1: "ready", 2: "ready", 3: "done", 4: "dead"}


async def test_a_unit_of_time_that_no_row_shows_is_asked_for(site: Site) -> None:
    await site.sql("CREATE TABLE jobs (id integer PRIMARY KEY, status text DEFAULT 'new', run_at bigint)")

    guessed = await site.look("jobs")
    said = await site.look("jobs", AdoptOptions(epoch="ms"))

    assert "run_at (empty). Say --epoch s or --epoch ms" in doubt(guessed.doubts, "in which unit")
    assert said.doubts == []
    assert 'epoch="ms"' in str(said.declaration)


async def test_two_units_of_time_are_a_doubt(site: Site) -> None:
    await site.sql(
        "CREATE TABLE jobs (id integer PRIMARY KEY, status text, run_at bigint, created_at bigint)",
        "INSERT INTO jobs VALUES (1, 'new', 1700000000000, 1700000000)",
    )

    guessed = await site.look("jobs")
    said = await site.look("jobs", AdoptOptions(new=frozenset({"created_at"})))

    assert "run_at (ms)" in doubt(guessed.doubts, "some times are in seconds, others in milliseconds")
    assert said.doubts == []
    assert 'epoch="ms"' in str(said.declaration)


async def test_rows_that_are_over_are_told(site: Site) -> None:
    await site.sql(
        "CREATE TABLE codes (id integer PRIMARY KEY, status text, expires_at timestamp)",
        f"INSERT INTO codes VALUES (1, 'pending', {ahead(site, -1)}), (2, 'done', {ahead(site, -1)})",
    )

    found = await site.look("codes")

    assert found.doubts == []
    assert any(note.startswith("1 rows are ready whose expires_at is over") for note in found.notes)


async def test_a_condition_takes_the_place_of_the_one_that_is_guessed_and_of_no_other(site: Site) -> None:
    await site.sql(
        "CREATE TABLE jobs (id integer PRIMARY KEY, run_at timestamp, locked_at timestamp, failed_at timestamp, "
        "checked_on timestamp)",
        f"INSERT INTO jobs VALUES (1, NULL, NULL, NULL, NULL), (2, NULL, {ahead(site, -1)}, NULL, NULL), "
        f"(3, NULL, {ahead(site, -1)}, {ahead(site, -1)}, NULL)",
    )

    text = doubt((await site.look("jobs")).doubts, "done already")
    found = await site.adopt("jobs", AdoptOptions(where={StateKind.DONE: "false"}))

    assert "It may be one of: checked_on. If every row is meant, say --done-where false" in text
    assert found.doubts == []
    assert dict(await site.rows("SELECT id, state FROM jobs")) == {1: "ready", 2: "running", 3: "dead"}
