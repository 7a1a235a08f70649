"""`rowmill doctor --table`: a table that no application declares, before it is adopted."""

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa

import rowmill as rm
from rowmill.adopt import AdoptOptions
from rowmill.cli.main import run
from rowmill.doctor import DoctorFinding, FindingSeverity, TableGuess, Thresholds, audit_table
from rowmill.doctor.unadopted import clock
from rowmill.model.errors import BadRequest, UnknownQueue
from rowmill.model.lifecycle import StateKind
from rowmill.store import expressions
from tests.doctor.conftest import public_first

pytestmark = pytest.mark.empty_database

Printed = pytest.CaptureFixture[str]


class Database:
    """A database with a table of somebody's."""

    def __init__(self, mill: rm.Mill) -> None:
        self.mill = mill

    @property
    def postgres(self) -> bool:
        return self.mill.store.dialect.name == "postgresql"

    async def sql(self, *statements: str) -> None:
        def work(connection: sa.Connection) -> None:
            for statement in statements:
                expressions.run(connection, statement)

        await self.mill.run(work)

    async def create(self, more: str = "", key: str = "PRIMARY KEY") -> None:
        """The table `requests`, as teams write it by hand, with more columns."""
        moment = "timestamptz" if self.postgres else "DATETIME"
        await self.sql(
            f"CREATE TABLE requests (id INTEGER {key}, status VARCHAR(20), attempts INTEGER DEFAULT 0, "
            f"next_retry_at {moment}, last_error TEXT, created_at {moment}, updated_at {moment}{more})"
        )

    async def put(self, *rows: dict[str, str]) -> None:
        """Rows whose values are SQL; a status of pending, changed now, if they do not say otherwise."""
        for row in rows:
            values = {"status": "'pending'", "updated_at": self.at(0), "created_at": self.at(0)} | row
            values = {"id": "(SELECT coalesce(max(id), 0) + 1 FROM requests)"} | values
            await self.sql(f"INSERT INTO requests ({', '.join(values)}) VALUES ({', '.join(values.values())})")

    def at(self, seconds: float) -> str:
        """A time, as SQL."""
        if self.postgres:
            return f"now() + {seconds} * interval '1 second'"
        return f"strftime('%Y-%m-%d %H:%M:%f000', 'now', '{seconds} seconds')"

    async def audit(self, limits: Thresholds | None = None, **told: Any) -> tuple[TableGuess, list[DoctorFinding]]:
        choices = told.pop("choices", AdoptOptions())
        return await audit_table(self.mill.store, "requests", choices, limits=limits, **told)

    async def codes(self, limits: Thresholds | None = None, **told: Any) -> set[str]:
        """Of all findings that are more than worth knowing."""
        _, found = await self.audit(limits, **told)
        return {finding.code for finding in found if finding.severity is not FindingSeverity.INFO}

    async def find(self, code: str, limits: Thresholds | None = None, **told: Any) -> DoctorFinding:
        _, found = await self.audit(limits, **told)
        [one] = [finding for finding in found if finding.code == code]
        assert one.fix
        return one


@pytest.fixture
async def database(clinic_url: str) -> AsyncIterator[Database]:
    mill = rm.Mill(clinic_url)
    async with mill.opened():
        yield Database(mill)


@pytest.fixture
async def postgres(pg_url: str) -> AsyncIterator[Database]:
    public_first(pg_url)
    mill = rm.Mill(pg_url)
    async with mill.opened():
        yield Database(mill)


async def test_a_table_in_order_has_no_warnings_and_says_what_it_was_taken_for(database: Database) -> None:
    await database.create()
    await database.put({}, {"status": "'processing'"}, {"status": "'done'"}, {"status": "'failed'"})
    guess, found = await database.audit()
    assert {finding.code for finding in found} == {"no_lease_columns"}
    assert found[0].fix == "rowmill adopt requests shows the migration"
    assert guess.columns["state"] == "status"
    assert "lease" not in guess.columns
    assert guess.words["running"] == ["processing"]


async def test_rows_in_progress_for_too_long_and_since_when(database: Database) -> None:
    await database.create()
    day_ago = database.at(-86400)
    await database.put(*({"status": "'processing'", "updated_at": at} for at in (day_ago, database.at(-7200), "NULL")))
    await database.put({"status": "'processing'"}, {"status": "'done'", "updated_at": day_ago})
    finding = await database.find("stuck_rows")
    since = datetime.now(UTC) - timedelta(days=1)
    assert finding.what.startswith("3 rows in progress for more than 15 min by updated_at, the oldest since ")
    assert any(f"{since + timedelta(minutes=n):%Y-%m-%d %H:%M}" in finding.what for n in (-2, -1, 0))
    [update] = [part for part in finding.fix.split(": ") if part.startswith("UPDATE")]
    await database.sql(update.partition(". For good")[0])
    assert "stuck_rows" not in await database.codes()


async def test_rows_in_progress_when_nothing_says_since_when(database: Database) -> None:
    await database.sql("CREATE TABLE requests (id INTEGER PRIMARY KEY, status VARCHAR(20))")
    await database.sql("INSERT INTO requests VALUES (1, 'processing'), (2, 'pending'), (3, 'done')")
    finding = await database.find("stuck_rows")
    assert finding.what.startswith("1 row in progress, and no column says since when")


async def test_words_outside_of_the_lifecycle_and_no_word_at_all(database: Database) -> None:
    await database.create()
    await database.put({"status": "NULL"}, {"status": "'penidng'"}, {"status": "'archived_by_bob'"})
    await database.put(*({"status": f"'{word}'"} for word in ("pending", "processing", "done", "failed")))
    finding = await database.find("unknown_words")
    assert "'penidng' (1)" in finding.what
    assert "'archived_by_bob' (1)" in finding.what
    assert (await database.find("state_null")).what.startswith("1 row without a state")
    finding = await database.find("unknown_words", others=("archived_by_bob",))
    assert "archived_by_bob" not in finding.what
    assert "unknown_words" not in await database.codes(others=("archived_by_bob", "penidng"))


async def test_attempts_beyond_the_limit(database: Database) -> None:
    await database.create(", most INTEGER")
    await database.put({"attempts": "3"}, {"attempts": "9"}, {"attempts": "2"}, {"status": "'failed'", "attempts": "9"})
    finding = await database.find("attempts_used_up")
    assert finding.what.startswith("2 rows ready that have had 3 attempts or more")
    await database.sql("UPDATE requests SET most = 20 WHERE attempts = 9")
    mapped = AdoptOptions(columns={"max_attempts": "most"})
    finding = await database.find("attempts_used_up", choices=mapped)
    assert finding.what.startswith("1 row ready that have had their most or more")


async def test_times_in_the_future(database: Database) -> None:
    await database.create()
    await database.put({"updated_at": database.at(7200)}, {"next_retry_at": database.at(400 * 86400)},
                       {"next_retry_at": database.at(3600)})  # fmt: skip
    finding = await database.find("future_times")
    assert finding.what.startswith("1 row whose updated_at lies more than 60 s in the future")
    finding = await database.find("far_future")
    assert finding.what.startswith("1 row ready, but not before more than a year from now by next_retry_at")


async def test_duplicates_of_what_should_be_unique(database: Database) -> None:
    await database.create(", external_id TEXT, tenant INTEGER")
    same = {"external_id": "'a'", "tenant": "1"}
    await database.put(same, same | {"tenant": "2"}, same | {"status": "'done'"}, {"external_id": "NULL"})
    finding = await database.find("duplicates")
    assert finding.what.startswith("2 unfinished rows share their external_id with another (1 different values)")
    assert "duplicates" not in await database.codes(unique=(("external_id", "tenant"),))
    await database.put(same)
    finding = await database.find("duplicates", unique=(("external_id", "tenant"),))
    assert "share their external_id and tenant" in finding.what
    await database.sql("DELETE FROM requests WHERE id > 1", finding.fix.partition("forbid it: ")[2])
    with pytest.raises(sa.exc.IntegrityError):
        await database.put(same)
    assert "duplicates" not in await database.codes(unique=(("external_id", "tenant"),))


async def test_no_index_by_which_ready_rows_are_found(database: Database) -> None:
    await database.create()
    await database.put({}, {}, {})
    limits = Thresholds(scanned=3)
    assert "claim_scans" not in await database.codes()
    finding = await database.find("claim_scans", limits)
    assert "no index leads to rows by status" in finding.what
    assert "3 rows" in finding.what
    await database.sql("CREATE INDEX by_id ON requests (id) WHERE status = 'pending'")
    assert "claim_scans" not in await database.codes(limits)
    await database.sql("DROP INDEX by_id", "CREATE INDEX by_time ON requests (created_at, status)")
    assert "claim_scans" in await database.codes(limits)
    await database.sql("CREATE INDEX by_status ON requests (status, created_at)")
    assert "claim_scans" not in await database.codes(limits)


async def test_no_index_by_which_open_rows_are_found_where_flags_are_the_state(database: Database) -> None:
    await database.sql("CREATE TABLE requests (id INTEGER PRIMARY KEY, body TEXT, processed BOOLEAN)")
    await database.sql("INSERT INTO requests (id, processed) VALUES (1, false), (2, true), (3, false)")
    limits = Thresholds(scanned=3)
    assert "no index leads to rows by processed" in (await database.find("claim_scans", limits)).what
    await database.sql("CREATE INDEX by_id ON requests (id) WHERE NOT processed")
    assert "claim_scans" not in await database.codes(limits)


async def test_dead_versions_of_rows(postgres: Database) -> None:
    await postgres.create()
    await postgres.sql(
        "ALTER TABLE requests SET (autovacuum_enabled = off)",
        "INSERT INTO requests (id, status, updated_at) SELECT n, 'pending', now() FROM generate_series(1, 300) AS n",
    )
    await postgres.sql("DELETE FROM requests WHERE id > 100")
    limits = Thresholds(dead_tuples=50)
    async with asyncio.timeout(60):
        while "dead_tuples" not in await postgres.codes(limits):  # the server's own counters follow when they like
            await asyncio.sleep(0.05)
    assert "dead_tuples" not in await postgres.codes()
    assert "dead_tuples" not in await postgres.codes(Thresholds(dead_tuples=50, dead_share=100.0))
    finding = await postgres.find("dead_tuples", limits)
    assert "200 dead versions of rows beside " in finding.what
    assert "(vacuumed never)" in finding.what
    assert finding.fix.startswith("VACUUM (ANALYZE) requests")


@pytest.mark.parametrize(("seconds", "way"), [(-60, "ahead of"), (60, "behind"), (0, None)])
async def test_clocks_that_disagree(postgres: Database, seconds: int, way: str | None) -> None:
    def here() -> datetime:
        return datetime.now(UTC) + timedelta(seconds=seconds)

    # A busy machine may stand still between the two looks at its clock: what lies between them is no difference.
    found = await postgres.mill.run(lambda c: list(clock(c, Thresholds(), here)))
    assert [finding.code for finding in found] == ([] if way is None else ["clock_skew"])
    assert way is None or f"s {way} that of this machine" in found[0].what


async def test_numbers_whose_meaning_is_a_guess(database: Database) -> None:
    await database.sql("CREATE TABLE requests (id INTEGER PRIMARY KEY, status INTEGER)")
    await database.sql("INSERT INTO requests VALUES (1, 4), (2, 5), (3, 77)")
    assert "guess_doubtful" in await database.codes()
    words = {StateKind.READY: ("4",), StateKind.RUNNING: ("5",), StateKind.DONE: ("6",), StateKind.DEAD: ("7",)}
    codes = await database.codes(choices=AdoptOptions(words=words))
    assert "guess_doubtful" not in codes
    assert "unknown_words" in codes
    assert "unknown_words" not in await database.codes(choices=AdoptOptions(words=words), others=("77",))


async def test_a_table_without_a_key(database: Database) -> None:
    await database.create(key="NOT NULL")
    await database.put({"status": "'processing'", "updated_at": database.at(-86400)})
    assert {"key_missing", "stuck_rows"} <= await database.codes()


async def test_a_table_without_states_and_names_that_need_quotes(database: Database) -> None:
    await database.sql('CREATE TABLE requests (id INTEGER PRIMARY KEY, "Request Id" TEXT, "order" TEXT)')
    await database.sql("INSERT INTO requests VALUES (1, 'a', 'x'), (2, 'a', 'x')")
    finding = await database.find("duplicates", unique=(("Request Id", "order"),))
    assert "share their Request Id and order" in finding.what


async def test_a_table_with_times_in_place_of_states(database: Database) -> None:
    """Rows are deleted when they are done, locked while they run, and marked when they failed."""
    moment = "timestamptz" if database.postgres else "DATETIME"
    await database.sql(
        f"CREATE TABLE requests (id INTEGER PRIMARY KEY, attempts INTEGER, last_error TEXT, run_at {moment}, "
        f"locked_at {moment}, failed_at {moment}, message_id TEXT)",
        "INSERT INTO requests (id, attempts, run_at, locked_at, failed_at, message_id) VALUES "
        f"(1, 1, NULL, {database.at(-86400)}, NULL, 'a'), (2, 9, NULL, NULL, NULL, 'a'), "
        f"(3, 9, NULL, {database.at(-86400)}, {database.at(-86400)}, 'a'), "
        f"(4, 0, {database.at(400 * 86400)}, {database.at(-5)}, NULL, 'b'), "
        f"(5, 0, {database.at(400 * 86400)}, NULL, NULL, 'c')",
    )

    guess, found = await database.audit()

    texts = {finding.code: finding for finding in found}
    assert texts["stuck_rows"].what.startswith("1 row in progress for more than 15 min by locked_at, the oldest since ")
    assert "clear what says that they are in progress (locked_at IS NOT NULL)" in texts["stuck_rows"].fix
    assert texts["attempts_used_up"].what.startswith("1 row ready that have had 3 attempts or more")
    assert texts["far_future"].what.startswith("1 row ready")
    assert texts["duplicates"].what.startswith("2 unfinished rows share their message_id")
    assert "check_failed" not in texts
    assert guess.words == {"dead": ["failed_at IS NOT NULL"], "running": ["locked_at IS NOT NULL"]}


async def test_a_big_table_is_looked_at_in_part(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rowmill.adopt.table_facts.ALL", 5)
    await database.create(", external_id TEXT")
    await database.put(*({"external_id": "'a'", "status": "'processing'", "updated_at": database.at(-86400)},) * 9)
    guess, found = await database.audit(Thresholds(most=4, scanned=5))
    assert not guess.facts.exact
    texts = {finding.code: finding.what for finding in found}
    assert "(of a sample)" in texts["duplicates"]
    assert texts["stuck_rows"].startswith("more than 4 rows in progress")
    assert "check_failed" not in texts


async def test_what_is_not_there_is_said(database: Database) -> None:
    with pytest.raises(UnknownQueue, match="there is no table requests"):
        await database.audit()
    await database.create()
    with pytest.raises(BadRequest, match="has no column nope"):
        await database.audit(unique=(("nope",),))


async def test_an_adopted_table_can_be_looked_at_so_too(database: Database) -> None:
    columns: list[sa.Column[Any]] = [sa.Column("id", sa.Integer, primary_key=True)]
    columns += [sa.Column(name, sa.DateTime(timezone=True)) for name in ("available_at", "leased_until", "finished_at")]
    columns += [sa.Column("state", sa.Text), sa.Column("attempts", sa.Integer), sa.Column("lease", sa.BigInteger)]
    table = sa.Table("requests", sa.MetaData(), *columns, sa.Column("error", sa.Text))
    database.mill.queue(table)
    await database.mill.migrate(tables=True)
    assert await database.codes() == set()


@pytest.fixture
def made(clinic_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> list[str]:
    """A table with a stuck row; the command that looks at it, without any application."""
    monkeypatch.chdir(tmp_path)

    async def make() -> None:
        mill = rm.Mill(clinic_url)
        async with mill.opened():
            database = Database(mill)
            await database.create()
            await database.put({"status": "'processing'", "updated_at": database.at(-86400)}, {"status": "'odd'"}, {})

    asyncio.run(make())
    return ["doctor", "--table", "requests", "--database-url", clinic_url]


def test_the_command_needs_no_application(made: list[str], capsys: Printed) -> None:
    assert run(made) == 5
    printed = capsys.readouterr().out
    assert printed.startswith("requests, 3 rows. Guessed columns: state status, attempts attempts")
    assert "warning  stuck_rows" in printed
    assert "fix: see that nothing works on them, then: UPDATE requests SET status = 'pending'" in printed


def test_json_says_what_the_table_was_taken_for(made: list[str], capsys: Printed) -> None:
    assert run([*made, "--json", "--other", "odd"]) == 5
    answer = json.loads(capsys.readouterr().out)
    assert (answer["table"], answer["rows"], answer["columns"]["state"]) == ("requests", 3, "status")
    assert answer["states"]["ready"] == ["pending"]
    assert (answer["errors"], answer["warnings"]) == (0, 1)
    assert {finding["code"] for finding in answer["findings"]} == {"stuck_rows", "no_lease_columns"}


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["doctor", "--table", "requests", "files"], "not both"),
        (["doctor", "--other", "odd"], "name it with --table"),
    ],
)
def test_options_that_do_not_go_together(arguments: list[str], problem: str, capsys: Printed) -> None:
    assert run(arguments) == 2
    assert problem in capsys.readouterr().err


async def test_a_word_that_an_enum_lacks_is_not_asked_for(postgres: Database) -> None:
    await postgres.sql(
        "CREATE TYPE word AS ENUM ('pending', 'done', 'failed')",
        "CREATE TABLE requests (id INTEGER PRIMARY KEY, status word, message_id TEXT)",
        "INSERT INTO requests VALUES (1, 'pending', 'a'), (2, 'pending', 'a')",
    )
    assert await postgres.codes() == {"duplicates"}
