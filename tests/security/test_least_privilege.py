"""Roles with the rights that `rowmill grants` prints: they can do their work, and nothing else."""

import asyncio
import importlib
import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from psycopg.errors import InsufficientPrivilege
from sqlalchemy import Connection, make_url
from sqlalchemy.orm import Session

from rowmill import Dead, Done, Outcome, RetryLater
from rowmill.cli.exits import Exit
from rowmill.cli.main import run
from rowmill.limits import Budget
from rowmill.maintenance import cleanup
from rowmill.model import lifecycle
from rowmill.model.errors import MissingRights
from rowmill.model.judge import Verdict, judge
from rowmill.model.limits import LimitDeclaration
from rowmill.operator import browse
from rowmill.operator.filters import Filter
from rowmill.store import rescue
from rowmill.store.own import fleet, schema
from rowmill.testing import QUICK, Bench
from tests.conformance.fleet import until
from tests.docs.pages import block_of
from tests.security.guild import Guild, guild, mill, orders, parts, pieces

pytestmark = pytest.mark.empty_database


@pytest.fixture
def found(pg_url: str, capsys: pytest.CaptureFixture[str]) -> Iterator[Guild]:
    with guild(pg_url, capsys) as made:
        yield made


def put(guild: Guild) -> None:
    guild.sql(
        """INSERT INTO "Shop Floor".pieces (title, state) VALUES
           ('fine', 'ready'), ('transient', 'ready'), ('permanent', 'ready')""",
        """INSERT INTO "Shop Floor".pieces (title, state, attempts, lease, leased_until)
           VALUES ('left', 'cutting', 1, 77, now() - interval '1 hour')""",
        "INSERT INTO orders (customer, state) VALUES ('a', 'ready'), ('a', 'ready'), ('b', 'ready')",
    )


def states(guild: Guild, table: str) -> list[Any]:
    with psycopg.connect(guild.owner) as connection:
        return connection.execute(f"SELECT state, topic FROM {table} ORDER BY id".encode()).fetchall()


def test_a_worker_does_all_of_its_work(found: Guild) -> None:
    """Stages, retries, rescue, order, both kinds of settling, history, upkeep; and it is woken by an INSERT."""
    url = found.granted("worker")
    mill.move_to(url)
    put(found)
    heard: list[tuple[str, Any]] = []
    mill.observe(lambda event, fields: heard.append((event, fields)))

    async def work() -> None:
        async with mill.worker(settings=QUICK) as worker:
            running = asyncio.create_task(worker.run())
            await until(lambda: worker.report.done >= 6)
            await until(lambda: bool(mill.store.listener._asleep))  # type: ignore[attr-defined]
            found.sql("INSERT INTO orders (customer, state) VALUES ('late', 'ready')")
            await until(lambda: worker.report.done >= 7)
            worker.stop()
            await running

    asyncio.run(work())
    mill.events.observers.clear()

    assert states(found, '"Shop Floor".pieces') == [
        ("done", "sanded"), ("done", "sanded"), ("dead", None), ("done", "sanded"),
    ]  # fmt: skip
    assert states(found, "orders") == [("done", "delivered")] * 4
    assert "rescued" in [event for event, _ in heard]
    assert {"maintenance_failed", "wakeup_unavailable", "stuck", "away"}.isdisjoint(event for event, _ in heard)


READS = [["stats"], ["list", "pieces"], ["show", "pieces", "1"], ["why", "pieces", "1"], ["doctor"], ["rescue"],
         ["migrate", "--check"], ["adopt", "pieces"], ["drain"]]  # fmt: skip


@pytest.mark.parametrize("command", READS, ids=" ".join)
def test_a_worker_may_look(found: Guild, command: list[str]) -> None:
    url = found.granted("worker")
    put(found)
    code, out, err = found.run(url, *command, *(["--yes"] if command == ["rescue"] else []))
    assert code in (0, 5), out + err
    assert "could not be looked at" not in out


FORBIDDEN = [
    "DELETE FROM orders",
    "TRUNCATE orders",
    "DROP TABLE orders",
    "ALTER TABLE orders ADD COLUMN x integer",
    "CREATE INDEX ON orders (customer)",
    "UPDATE orders SET id = 9",
    "INSERT INTO orders (state) VALUES ('ready')",
    "SELECT * FROM ledger",
    "CREATE TABLE mine (id integer)",
    "CREATE TABLE rowmill.mine (id integer)",
    "CREATE SCHEMA mine",
    "CREATE TEMPORARY TABLE mine (id integer)",
    "DROP SCHEMA rowmill CASCADE",
    "UPDATE rowmill.attempt SET message = ''",
    "INSERT INTO rowmill.pause (queue, since) VALUES ('orders', now())",
    "UPDATE rowmill.meta SET version = 9",
    "ALTER TABLE orders DISABLE TRIGGER ALL",
    "CREATE OR REPLACE FUNCTION rowmill.wake() RETURNS trigger LANGUAGE sql AS ''",
]


def test_a_worker_may_do_nothing_else(found: Guild) -> None:
    with psycopg.connect(found.granted("worker"), autocommit=True) as connection:
        for statement in FORBIDDEN:
            with pytest.raises(InsufficientPrivilege):
                connection.execute(statement.encode())


def test_only_an_operator_may_pause(found: Guild) -> None:
    worker, operator = found.granted("worker"), found.granted("operator", "--operator")
    put(found)
    code, _, err = found.run(worker, "pause", "orders")
    assert (code, "rowmill grants" in err) == (Exit.SCHEMA, True)
    found.run(operator, "drain")
    for command in (["pause", "orders"], ["resume", "orders"], ["requeue", "pieces", "--yes"],
                    ["cancel", "pieces", "--all", "--yes"], ["rescue", "--yes"]):  # fmt: skip
        code, _, err = found.run(operator, *command)
        assert code == 0, err
    assert ("cancelled", None) in states(found, '"Shop Floor".pieces')
    with psycopg.connect(operator, autocommit=True) as connection, pytest.raises(InsufficientPrivilege):
        connection.execute("DELETE FROM orders")


def test_a_producer_puts_rows_in_and_sees_none(found: Guild) -> None:
    url = found.granted("producer", "--producer")
    mill.move_to(url)
    with Session(mill.store.sync_engine) as session:
        made = session.scalar(orders.insert({"customer": "a"}).returning(orders.table.c.id))
        session.commit()
    assert made == 1
    assert asyncio.run(pieces.load([{"title": "x"}])) == 1
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in ("SELECT title FROM \"Shop Floor\".pieces", "UPDATE orders SET state = 'done'",
                          "DELETE FROM orders", "SELECT * FROM rowmill.attempt", "SELECT * FROM ledger"):  # fmt: skip
            with pytest.raises(InsufficientPrivilege):
                connection.execute(statement.encode())
    mill.store.sync_engine.dispose()


def test_a_producer_adds_rows_of_an_orm_class(found: Guild, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An ORM reads back what the database fills in: of a class with the mixin, its times."""
    (tmp_path / "app_of_producer.py").write_text(block_of("docs/guides/start.md", "python"))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("DATABASE_URL", found.owner)
    app: Any = importlib.import_module("app_of_producer")
    asyncio.run(app.mill.migrate(tables=True))
    url = found.role("web")
    name = str(make_url(url).username)
    found.capsys.readouterr()
    assert run(["grants", "--app", "app_of_producer:mill", "--role", name, "--producer", "--json"]) == 0
    found.sql(*json.loads(found.capsys.readouterr().out)["statements"])

    engine = sa.create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    with Session(engine) as session, session.begin():
        session.add(app.Article(title="World cup"))
    with engine.connect() as connection, pytest.raises(sa.exc.ProgrammingError, match="permission denied"):
        connection.execute(sa.select(app.Article.title))
    engine.dispose()


def test_results_can_be_kept_to_some_columns(found: Guild) -> None:
    """A handler that then writes another column stops its worker; its row is not buried for it."""
    url = found.granted("worker", "--result", "orders.topic")
    found.sql("INSERT INTO \"Shop Floor\".pieces (title, state) VALUES ('fine', 'ready')")

    code, _, err = found.run(url, "drain", "--queue", "pieces")

    assert code == Exit.SCHEMA, err
    assert "lacks UPDATE (topic) on table Shop Floor.pieces" in err
    assert states(found, '"Shop Floor".pieces') == [("cutting", None)]
    with psycopg.connect(found.owner) as connection:
        assert connection.execute("SELECT count(*) FROM rowmill.attempt").fetchone() == (0,)


def test_a_worker_without_its_rights_says_what_it_lacks(found: Guild) -> None:
    url = found.role("stranger")
    role = str(make_url(url).username)
    [connect] = [each for each in found.grants(url) if "CONNECT" in each]
    found.sql(connect)

    code, _, err = found.run(url, "drain")

    assert code == Exit.SCHEMA
    assert "it lacks USAGE on schema rowmill; SELECT on table rowmill.meta;" in err
    assert "UPDATE (state, attempts, available_at, lease, leased_until, error, finished_at" in err
    assert "USAGE on schema public" in err
    assert f"rowmill grants --role {role}" in err


def test_a_right_that_is_taken_away_from_a_worker_at_work_is_named(found: Guild) -> None:
    """A claim, a settle and a renewal say what lacks now, and not only that something does."""
    url = found.granted("worker", "--result", "orders.topic")
    mill.move_to(url)
    put(found)

    async def each() -> list[str]:
        said = []
        async with mill.opened() as store:
            store.worker = 1
            [lease] = await store.claim(orders, orders.steps[0], 1)
            found.sql(f'REVOKE UPDATE (leased_until) ON orders FROM "{make_url(url).username}"')
            claim, renew = store.claim(orders, orders.steps[0], 1), store.renew([lease])
            for work in (claim, renew, store.settle([judge(lease, None, 0.0)])):
                with pytest.raises(MissingRights) as lacking:
                    await work
                said.append(str(lacking.value))
        return said

    for told in asyncio.run(each()):
        assert "lacks UPDATE (leased_until) on table" in told


SPENT = LimitDeclaration(budget=Budget(10, crashed="spent"))


async def everything(connection_url: str) -> None:
    """All that a worker does, without the look at its rights that comes first. Any right that lacks ends it."""
    mill.move_to(connection_url)
    async with mill.opened() as store:

        async def done(work: Any) -> Any:
            return await store.run(work)

        def sign_up(connection: Connection) -> int:
            schema.check_version(connection)
            number = fleet.register(connection, [pieces, orders])
            for queue in (pieces, orders):
                fleet.agree_on_words(connection, store.sql(queue), number)
            fleet.record_heartbeat(connection, number)
            assert fleet.lead(connection, number, 60, f"leadership {number}")
            assert fleet.lead(connection, number, 60, f"leadership {number}")
            return number

        store.worker = await done(sign_up)
        for queue in (pieces, orders):
            step, sql = queue.steps[0], store.sql(queue)
            leases = await store.claim(queue, step, 10)
            assert len(leases) >= 5
            assert (await store.renew(leases)).lost == []
            await store.crashed(queue, leases)
            answers: list[Outcome] = [Done({"topic": "x"}), RetryLater(0), RetryLater(0, count_attempt=False), Dead()]
            verdicts = [judge(lease, answer, 0.0) for lease, answer in zip(leases, answers, strict=False)]
            verdicts += [Verdict(lease, lifecycle.RELEASE) for lease in leases[len(answers) :]]
            assert (await store.settle(verdicts)).kept == len(leases)
            left = await store.claim(queue, step, 2)
            assert await done(partial(rescue.note_running_alone, sql=sql, lease=left[0]))
            await Bench(mill).advance(100)
            assert (await done(partial(rescue.rescue, sql=sql, step=step, most=9))).returned
            await done(lambda c, t=sql: browse.list_rows(c, t, Filter(), 9))
            await done(lambda c, q=queue: fleet.paused(c, q))
        await done(cleanup.roll_up)
        await done(lambda c: cleanup.tidy(c, 0.0))
        await done(lambda c: cleanup.tidy_ticks(c, 0.0))
        await done(lambda c: fleet.sign_off(c, store.worker))


def test_each_right_is_needed(found: Guild) -> None:
    """Without any one of them, something of a worker's fails: with all of them, nothing does."""
    url = found.granted("worker", "--result", "pieces.topic", "--result", "orders.topic")

    def fresh() -> None:
        found.sql(
            'TRUNCATE "Shop Floor".pieces, orders, rowmill.receipt, rowmill.attempt, rowmill.throughput',
            "INSERT INTO \"Shop Floor\".pieces (state) SELECT 'ready' FROM generate_series(1, 9)",
            "INSERT INTO orders (customer, state) SELECT n, 'ready' FROM generate_series(1, 9) AS n",
            """INSERT INTO rowmill.receipt SELECT 999, n, 'orders', 'work', 'done', 1, 1, now() - interval '1 hour'
               FROM generate_series(1, 2) AS n""",
            """INSERT INTO rowmill.throughput VALUES
               ('orders', 'work', date_trunc('minute', now() - interval '1 hour'), 'done', 1, 1)""",
            # What a crashed process of another application had reserved of a budget.
            "TRUNCATE rowmill.limiter, rowmill.ticket, rowmill.spending, rowmill.limit_declaration",
            "INSERT INTO rowmill.limiter (name, key) VALUES ('eqc', '')",
            "INSERT INTO rowmill.ticket (id, name, key, span, amount, until) VALUES (1, 'eqc', '', 'day', 1, 1)",
            f"INSERT INTO rowmill.limit_declaration VALUES ('eqc', '{SPENT.to_json()}', 1e10)",
        )

    fresh()
    asyncio.run(everything(url))
    wanted = parts(found.grants(url, "--result", "pieces.topic", "--result", "orders.topic"))
    assert len(wanted) > 40

    async def anew() -> None:
        fresh()
        await everything(url)

    assert found.superfluous(url, wanted, anew) == []


def test_row_security_that_refuses_a_row_is_about_that_row(found: Guild) -> None:
    """The server says the same as of a right that lacks. Here none does: the row fails, and its neighbours go on."""
    url = found.granted("worker")
    put(found)
    found.sql(
        'ALTER TABLE "Shop Floor".pieces ENABLE ROW LEVEL SECURITY',
        """CREATE POLICY careful ON "Shop Floor".pieces
           USING (true) WITH CHECK (title <> 'fine' OR topic IS DISTINCT FROM 'cut')""",
    )

    code, _, err = found.run(url, "drain", "--queue", "pieces")

    assert code == 0, err
    assert states(found, '"Shop Floor".pieces') == [
        ("dead", None), ("done", "sanded"), ("dead", None), ("done", "sanded"),
    ]  # fmt: skip
    with psycopg.connect(found.owner) as connection:
        codes = connection.execute("SELECT code FROM rowmill.attempt WHERE key = '1'").fetchall()
    assert codes == [("value_refused",)]
