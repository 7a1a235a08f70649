"""Rows that are stuck, and rows that nobody will ever claim."""

import pytest
import sqlalchemy as sa

import rowmill as rm
from rowmill.doctor import FindingSeverity, Thresholds
from rowmill.operator import change
from rowmill.operator.filters import Filter
from rowmill.store.own import fleet
from rowmill.store.own.history import note_refused
from tests.doctor.conftest import WORDS, Clinic, jobs_table


async def sign_up(clinic: Clinic) -> int:
    """A worker that lives."""
    return await clinic.mill.run(lambda connection: fleet.register(connection, list(clinic.mill.queues.values())))


async def test_rows_in_progress_whose_lease_ran_out_long_ago(clinic: Clinic) -> None:
    await sign_up(clinic)
    await clinic.sql(clinic.insert("'processing'", leased_until=clinic.at(-30), lease="1"))
    assert await clinic.audit() == [], "a rescue is due, but not overdue"
    await clinic.sql(clinic.insert("'processing'", leased_until=clinic.at(-3600), lease="2"))

    finding = await clinic.only()

    assert (finding.code, finding.severity) == ("lease_expired", FindingSeverity.ERROR)
    assert finding.what.startswith("1 row in progress")
    assert "rowmill rescue jobs" in finding.fix


async def test_rows_in_progress_without_a_lease(clinic: Clinic) -> None:
    await sign_up(clinic)
    await clinic.sql(*[clinic.insert("'processing'")] * 2)

    finding = await clinic.only()

    assert finding.code == "lease_missing"
    assert finding.what.startswith("2 rows")


async def test_rows_in_progress_and_nobody_there(clinic: Clinic) -> None:
    await clinic.sql(clinic.insert("'processing'", leased_until=clinic.at(600), lease="1"))
    assert (await clinic.only()).code == "running_without_worker"

    await sign_up(clinic)

    assert await clinic.audit() == []


async def test_rows_that_the_table_did_not_let_be_claimed(clinic: Clinic) -> None:
    await sign_up(clinic)
    await clinic.sql(*[clinic.insert("'pending'")] * 3)
    [queue] = clinic.mill.queues.values()
    refused = [("2", "RaiseError"), ("3", "RaiseError")]
    await clinic.mill.run(lambda connection: note_refused(connection, queue, queue.step(), 7, refused))

    finding = await clinic.only()

    assert (finding.code, finding.severity) == ("claim_refused", FindingSeverity.WARNING)
    assert finding.what == "2 rows that the table did not let be claimed: 2, 3"
    assert "rowmill why jobs 2" in finding.fix
    await clinic.sql("UPDATE jobs SET status = 'done' WHERE id <> 1")
    assert await clinic.audit() == [], "they are no longer in the queue"


async def test_ready_rows_and_nobody_there(clinic: Clinic) -> None:
    await clinic.sql(clinic.insert("'pending'"))
    finding = await clinic.only()
    assert (finding.code, finding.fix) == ("no_worker", "rowmill work --queue jobs")

    number = await sign_up(clinic)
    assert await clinic.audit() == []
    await clinic.mill.run(lambda connection: fleet.sign_off(connection, number))

    assert (await clinic.only()).code == "no_worker"


async def test_a_pause_is_worth_knowing(clinic: Clinic) -> None:
    await clinic.mill.run(lambda connection: fleet.pause(connection, clinic.mill["jobs"]))

    finding = await clinic.only()

    assert (finding.code, finding.severity) == ("paused", FindingSeverity.INFO)


async def test_many_rows_are_counted_up_to_what_matters(clinic: Clinic) -> None:
    await sign_up(clinic)
    await clinic.sql(*[clinic.insert("'processing'")] * 5)

    assert (await clinic.only(Thresholds(most=3))).what.startswith("more than 3 rows")


async def test_rows_without_a_state(clinic: Clinic) -> None:
    await clinic.sql(clinic.insert("NULL"))

    finding = await clinic.only()

    assert finding.code == "state_null"
    assert "WHERE status IS NULL" in finding.fix


async def test_words_that_the_lifecycle_does_not_know(clinic: Clinic) -> None:
    await clinic.sql(*[clinic.insert("'banana'")] * 3, clinic.insert("'Pending'"))

    finding = await clinic.only()

    assert finding.code == "unknown_words"
    assert "'banana' (3)" in finding.what
    assert "'Pending' (1)" in finding.what


async def test_dead_rows_are_worth_knowing(clinic: Clinic) -> None:
    await clinic.sql(*[clinic.insert("'failed'")] * 3)

    finding = await clinic.only()

    assert (finding.code, finding.severity) == ("dead_rows", FindingSeverity.INFO)
    assert finding.what == "3 rows dead"


async def test_rows_that_are_ready_in_another_age(clinic: Clinic) -> None:
    await clinic.sql(clinic.insert("'pending'", available_at="'9999-01-01 00:00:00'"))

    assert (await clinic.only()).code == "far_future"


async def test_rows_that_are_ready_at_infinity(postgres: Clinic) -> None:
    await postgres.sql(postgres.insert("'pending'", available_at="'infinity'"))

    assert (await postgres.only()).code == "far_future"


async def test_milliseconds_in_a_column_of_seconds(clinic_url: str) -> None:
    mill = rm.Mill(clinic_url)
    table = jobs_table(sa.Column("run_at", sa.BigInteger))
    mill.queue(table, columns=rm.Columns(state="status", available_at="run_at"), states=WORDS, epoch="s")
    clinic = Clinic(mill)
    await mill.migrate(tables=True)
    await clinic.sql("INSERT INTO jobs (status, run_at) VALUES ('pending', 1700000000000)")

    assert (await clinic.only()).code == "far_future"


async def test_times_that_sort_wrongly_on_sqlite(sqlite: Clinic) -> None:
    await sqlite.sql(sqlite.insert("'pending'", available_at="strftime('%Y-%m-%dT%H:%M:%S', 'now', '-1 minute')"))

    codes = await sqlite.codes()

    assert codes - {"no_worker"} == {"time_text"}


async def test_a_null_in_the_order(clinic_url: str) -> None:
    mill = rm.Mill(clinic_url)
    mill.queue(
        jobs_table(sa.Column("born", sa.Integer)),
        columns=rm.Columns(state="status"),
        states=WORDS,
        order=rm.Order(by=("born",)),
    )
    clinic = Clinic(mill)
    await mill.migrate(tables=True)
    await sign_up(clinic)
    await clinic.sql("INSERT INTO jobs (status, born) VALUES ('pending', 1), ('done', NULL)")
    assert await clinic.audit() == []
    await clinic.sql("INSERT INTO jobs (status) VALUES ('pending')")

    finding = await clinic.only()

    assert finding.code == "order_null"
    assert "born" in finding.what


async def test_no_finding_says_what_is_in_a_row(clinic: Clinic) -> None:
    secret = "'4111-1111-1111-1111'"
    await clinic.sql(
        clinic.insert("NULL", secret=secret),
        clinic.insert("'banana'", secret=secret, error=secret),
        clinic.insert("'failed'", secret=secret, error=secret),
        clinic.insert("'processing'", secret=secret),
        clinic.insert("'processing'", secret=secret, leased_until=clinic.at(-3600)),
        clinic.insert("'pending'", secret=secret, available_at="'9999-01-01 00:00:00'"),
        clinic.insert("'pending'", secret=secret),
    )

    found = await clinic.audit()

    assert len(found) >= 7
    assert "4111" not in str(found)


async def test_a_table_that_cannot_be_looked_at_is_a_finding(postgres: Clinic, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rowmill.doctor.checks.SECONDS", 0.05)
    async with postgres.mill.store.engine.begin() as holder:
        await holder.execute(sa.text("LOCK TABLE jobs IN ACCESS EXCLUSIVE MODE"))

        codes = await postgres.codes()

    assert codes == {"check_failed"}


async def test_rows_are_held_against_their_own_limits_of_attempts(clinic_with_limits: Clinic) -> None:
    clinic = clinic_with_limits
    rows = ((3, 5), (5, 5), (2, 1), (3, None), (2, None))
    await clinic.sql(*(
        clinic.insert("'pending'", attempts=str(made), max_retries="NULL" if most is None else str(most))
        for made, most in rows
    ))  # fmt: skip

    [finding] = [one for one in await clinic.audit() if one.code == "attempts_used_up"]
    assert finding.what.startswith(
        "3 rows of stage work ready with all their attempts used up (max_retries, or else 3)"
    )


async def test_rows_that_were_put_back_with_their_attempts_used_up(clinic: Clinic) -> None:
    await clinic.sql(*(clinic.insert("'pending'", attempts=str(made)) for made in (0, 2, 3, 9)))
    await clinic.sql(clinic.insert("'failed'", attempts="3"))

    [finding] = [one for one in await clinic.audit() if one.code == "attempts_used_up"]
    assert finding.what == ("2 rows of stage work ready with all 3 attempts used up: the next claim buries them")
    assert finding.fix == "if they should run: rowmill requeue jobs --state ready --state waiting"
    async with clinic.mill.opened() as store:
        wanted = Filter(states=("ready", "waiting"))
        assert (await change.requeue(store, clinic.mill["jobs"], wanted)).rows == 2

    assert "attempts_used_up" not in await clinic.codes()
