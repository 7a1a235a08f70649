"""A table that can't keep two rows, or two workers, apart is refused before a worker starts, with the way out."""

from contextlib import suppress
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import Column

from rowmill import Lease, Mill, Queue
from rowmill.adopt import examine_queue
from rowmill.doctor import audit
from rowmill.errors import DeclarationError
from rowmill.model.errors import RowmillError
from rowmill.store.table_checks import key_problem
from tests.conformance.fleet import jobs, worker

TIME = "timestamptz"
ALL = {
    "title": "text", "state": "text NOT NULL", "attempts": "integer NOT NULL DEFAULT 0", "available_at": TIME,
    "lease": "bigint", "leased_until": TIME, "error": "text", "finished_at": TIME,
}  # fmt: skip


def declared(url: str, *key: str, **options: Any) -> tuple[Mill, Queue[Any]]:
    """A queue whose key is declared in Python, whatever the database knows of it."""
    mill = Mill(url)
    columns = [Column(name, sa.Integer, primary_key=True, autoincrement=False) for name in key or ("id",)]
    queue = mill.queue(jobs(key=columns), **options)

    @queue.handler()
    async def work(lease: Lease[Any]) -> None: ...

    return mill, queue


def table(key: str, options: str = "", **changed: str) -> str:
    """As somebody wrote it by hand."""
    columns = ", ".join(f"{name} {kind}" for name, kind in (ALL | changed).items())
    return f"CREATE TABLE jobs ({key}, {columns}) {options}"


async def made(mill: Mill, *statements: str) -> None:
    def work(connection: sa.Connection) -> None:
        for statement in statements:
            connection.exec_driver_sql(statement)

    await mill.run(work)
    await mill.migrate()


async def start(mill: Mill) -> None:
    async with mill.worker():
        pass


async def refusal(mill: Mill) -> str:
    with pytest.raises(DeclarationError) as caught:
        await start(mill)
    return str(caught.value)


async def test_a_key_that_nothing_keeps_unique(database_url: str) -> None:
    """Two rows shared it: what the handler answered for one was written to the other too."""
    mill, _ = declared(database_url)
    await made(mill, table("id integer NOT NULL"))
    text = await refusal(mill)
    assert "nothing in the database keeps id unique in table jobs" in text
    assert "the result of one would be written to the other" in text
    assert "SELECT id, count(*) FROM jobs GROUP BY id HAVING count(*) > 1" in text
    how = "ON jobs (id)" if database_url.startswith("sqlite") else "CONCURRENTLY ON jobs (id)"
    assert "then: CREATE UNIQUE INDEX " in text
    assert text.endswith(how)


async def test_the_way_out_is_one(database_url: str) -> None:
    mill, _ = declared(database_url)
    await made(mill, table("id integer NOT NULL"))
    fix = (await refusal(mill)).rpartition("then: ")[2]

    def index(connection: sa.Connection) -> None:
        connection.exec_driver_sql(fix.replace("CONCURRENTLY ", "")).close()  # which no transaction takes

    await mill.run(index)
    await start(mill)


@pytest.mark.parametrize(
    "statements",
    [
        [table("id integer PRIMARY KEY")],
        [table("id integer UNIQUE")],
        [table("id integer NOT NULL"), "CREATE UNIQUE INDEX own ON jobs (id)"],
        [table("id integer NOT NULL"), "CREATE UNIQUE INDEX own ON jobs (id DESC)"],
    ],
)
async def test_what_keeps_a_key_unique(database_url: str, statements: list[str]) -> None:
    mill, _ = declared(database_url)
    await made(mill, *statements)
    await start(mill)


@pytest.mark.parametrize(
    ("statements", "why"),
    [
        (["CREATE INDEX own ON jobs (id)"], ""),
        (["CREATE UNIQUE INDEX own ON jobs (id, title)"], "Or declare (id, title) as the primary key"),
        (["CREATE UNIQUE INDEX own ON jobs (title)"], ""),
        (["CREATE UNIQUE INDEX own ON jobs (id) WHERE state = 'ready'"], "index own holds only some of the rows"),
        (["CREATE UNIQUE INDEX own ON jobs (abs(id))"], "index own is on an expression"),
    ],
)
async def test_what_does_not(database_url: str, statements: list[str], why: str) -> None:
    mill, _ = declared(database_url)
    await made(mill, table("id integer NOT NULL"), *statements)
    assert why in await refusal(mill)


@pytest.mark.parametrize(
    ("unique", "good"),
    [("(a, b)", True), ("(b, a)", True), ("(a)", True), ("(b)", True), ("(a, b, title)", False), ("(title)", False)],
)
async def test_a_key_of_two_columns(database_url: str, unique: str, good: bool) -> None:
    """A part that is unique by itself is enough."""
    mill, _ = declared(database_url, "a", "b")
    await made(mill, table("a integer NOT NULL, b integer NOT NULL"), f"CREATE UNIQUE INDEX own ON jobs {unique}")
    if good:
        await start(mill)
    else:
        assert "nothing in the database keeps a, b unique" in await refusal(mill)


@pytest.mark.parametrize(
    "made_by",
    [
        table("id INTEGER PRIMARY KEY"),
        table("ID INTEGER PRIMARY KEY DESC").replace("ID", "id"),
        table("id INT PRIMARY KEY", "WITHOUT ROWID"),
        table("id integer NOT NULL CONSTRAINT own UNIQUE"),
    ],
)
async def test_keys_of_sqlite(sqlite_url: str, made_by: str) -> None:
    mill, _ = declared(sqlite_url)
    await made(mill, made_by)
    await start(mill)


async def test_an_index_that_is_invalid(pg_url: str) -> None:
    """CREATE INDEX CONCURRENTLY met two equal rows, and left a ruin that looks like an index."""
    mill, _ = declared(pg_url)
    await made(mill, table("id integer NOT NULL"), "CREATE UNIQUE INDEX own ON jobs (id)")
    await start(mill)
    await made(mill, "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'own'::regclass")
    text = await refusal(mill)
    assert "index own is invalid" in text
    assert "DROP INDEX CONCURRENTLY own; then: CREATE UNIQUE INDEX CONCURRENTLY" in text


async def test_a_check_that_is_deferred_still_comes_before_the_commit(pg_url: str) -> None:
    mill, _ = declared(pg_url)
    await made(mill, table("id integer NOT NULL, UNIQUE (id) DEFERRABLE INITIALLY DEFERRED"))
    await start(mill)


async def test_partitions_that_are_unique_each_for_itself(pg_url: str) -> None:
    mill, _ = declared(pg_url)
    partitioned = table("id integer NOT NULL, day date NOT NULL", "PARTITION BY RANGE (day)")
    part = "CREATE TABLE jobs_1 PARTITION OF jobs FOR VALUES FROM ('2026-01-01') TO ('2027-01-01')"
    await made(mill, partitioned, part, "CREATE UNIQUE INDEX own ON jobs_1 (id)")
    text = await refusal(mill)
    assert "CREATE UNIQUE INDEX ON jobs (id)" in text
    await made(mill, "CREATE UNIQUE INDEX ON jobs (id, day)")
    assert "Or declare (id, day) as the primary key: that is unique" in await refusal(mill)


async def test_a_collation_in_which_different_texts_are_equal(pg_url: str) -> None:
    """The index tells a from A; the column, and so every statement, does not."""
    mill = Mill(pg_url)
    mill.queue(jobs(key=[Column("id", sa.Text, primary_key=True)])).handler()(lambda lease: None)
    blind = "CREATE COLLATION blind (provider = icu, locale = 'und-u-ks-level2', deterministic = false)"
    try:
        await made(mill, blind)
    except sa.exc.DBAPIError:
        pytest.skip("this server has no ICU")
    await made(mill, table("id text COLLATE blind NOT NULL"), 'CREATE UNIQUE INDEX own ON jobs (id COLLATE "C")')
    assert "index own compares texts in another way than the column" in await refusal(mill)
    await made(mill, "DROP INDEX own", "CREATE UNIQUE INDEX own ON jobs (id)")
    await start(mill)


async def test_a_view(database_url: str) -> None:
    mill, _ = declared(database_url)
    await mill.migrate()
    await mill.run(
        lambda c: c.exec_driver_sql(table("id integer PRIMARY KEY").replace("TABLE jobs", "TABLE j")).close()
    )
    await mill.run(lambda c: c.exec_driver_sql("CREATE VIEW jobs AS SELECT * FROM j").close())
    assert "view" in await refusal(mill)
    assert "declare the table behind it" in await refusal(mill)


async def test_a_role_with_few_rights_can_ask(pg_url: str) -> None:
    """Nothing but USAGE on the schema: the catalogues are open to everybody."""
    mill, queue = declared(pg_url)
    await made(mill, table("id integer NOT NULL"))

    def asked(connection: sa.Connection) -> Any:
        connection.exec_driver_sql("CREATE ROLE rowmill_nobody")
        connection.exec_driver_sql("SET LOCAL ROLE rowmill_nobody")
        found = key_problem(connection, mill.store.sql(queue))
        connection.exec_driver_sql("RESET ROLE")
        connection.exec_driver_sql("DROP ROLE rowmill_nobody")
        return found

    assert (await mill.run(asked)) is not None


async def test_doctor_and_adopt_name_it(database_url: str) -> None:
    mill, queue = declared(database_url)
    await made(mill, table("id integer NOT NULL"))
    async with mill.opened() as store:
        [finding] = [one for one in await audit(store, [queue]) if one.code == "key_not_unique"]
        found = await store.run(lambda connection: examine_queue(connection, store.sql(queue), queue))
    assert (str(finding.severity), "CREATE UNIQUE INDEX" in finding.fix) == ("error", True)
    assert "nothing in the database keeps id unique" in found.plan.obstacles[0]


async def test_adopt_takes_a_declared_key_that_is_unique_without_being_the_primary_key(database_url: str) -> None:
    mill, queue = declared(database_url)
    await made(mill, table("id integer NOT NULL"), "CREATE UNIQUE INDEX own ON jobs (id)")
    async with mill.opened() as store:
        found = await store.run(lambda connection: examine_queue(connection, store.sql(queue), queue))
        assert found.plan.obstacles == []
        assert "key_not_unique" not in {one.code for one in await audit(store, [queue])}


async def test_doctor_names_rows_without_a_key(database_url: str) -> None:
    mill, queue = declared(database_url)
    await made(mill, table("id int UNIQUE"), "INSERT INTO jobs (state) VALUES ('ready'), ('ready'), ('done')")
    async with mill.opened() as store:
        [finding] = [one for one in await audit(store, [queue]) if one.code == "key_null"]
    assert finding.what.startswith("2 rows ready without a key")


@pytest.mark.parametrize(
    ("column", "kind", "said"),
    [
        ("lease", "integer", "column lease (lease) is INTEGER: tokens do not fit"),
        ("lease", "text", "tokens do not fit"),
        ("lease", "bigint NOT NULL", "column lease (lease) does not allow NULL"),
        ("leased_until", "date", "column leased_until (leased_until) is DATE in the database"),
        ("leased_until", "text", "in your code. Mend it: ALTER TABLE jobs ALTER COLUMN leased_until TYPE"),
        ("leased_until", "bigint", "Mend it: declare it as BIGINT"),
        ("available_at", "bigint", "column available_at (available_at) is BIGINT"),
        ("attempts", "text", "column attempts (attempts) is TEXT"),
        ("finished_at", "timestamptz NOT NULL", "column finished_at (finished_at) does not allow NULL"),
    ],
)
async def test_columns_that_can_t_hold_what_is_written(pg_url: str, column: str, kind: str, said: str) -> None:
    mill, _ = declared(pg_url)
    with suppress(sa.exc.DBAPIError):  # an index of ours may not fit either
        await made(mill, table("id integer PRIMARY KEY", **{column: kind}))
    assert said in await refusal(mill)


@pytest.mark.parametrize(
    ("column", "kind", "said"),
    [
        ("lease", "text", "tokens are numbers"),
        ("lease", "double", "tokens are numbers"),
        ("lease", "bigint NOT NULL", "does not allow NULL"),
    ],
)
async def test_columns_of_sqlite_that_can_t(sqlite_url: str, column: str, kind: str, said: str) -> None:
    mill, _ = declared(sqlite_url)
    await made(mill, table("id integer PRIMARY KEY", **{column: kind}))
    assert said in await refusal(mill)


async def test_a_lease_of_a_domain_type(pg_url: str) -> None:
    mill, _ = declared(pg_url)
    await made(mill, "CREATE DOMAIN token AS bigint", table("id integer PRIMARY KEY", lease="token"))
    await start(mill)


async def test_milliseconds_that_do_not_fit_their_column(pg_url: str) -> None:
    mill = Mill(pg_url)
    numbers = [Column(name, sa.BigInteger) for name in ("available_at", "leased_until", "finished_at")]
    mill.queue(jobs(*numbers), epoch="ms").handler()(lambda lease: None)
    kinds = dict.fromkeys(("available_at", "leased_until", "finished_at"), "bigint") | {"leased_until": "integer"}
    await made(mill, table("id bigint PRIMARY KEY", **kinds))
    assert "column leased_until (leased_until) is INTEGER: milliseconds do not fit" in await refusal(mill)


async def test_doctor_names_a_default_of_the_lease(database_url: str) -> None:
    mill, queue = declared(database_url)
    await made(mill, table("id integer PRIMARY KEY", lease="bigint DEFAULT 0"))
    async with mill.opened() as store:
        assert "lease_default" in {one.code for one in await audit(store, [queue])}
    await start(mill)


async def test_a_trigger_that_writes_another_lease(pg_url: str) -> None:
    """Every claim would have the same token: a worker whose lease is gone could still settle."""
    async with worker(pg_url, lambda mill: mill.queue(jobs())) as member:
        await member.sql(
            "CREATE FUNCTION mark() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.lease = 1; RETURN NEW; END $$"
        )
        await member.sql("CREATE TRIGGER mark BEFORE UPDATE ON jobs FOR EACH ROW EXECUTE FUNCTION mark()")
        await member.put({})
        with pytest.raises(RowmillError, match="is there a trigger that writes to it"):
            await member.claim()
