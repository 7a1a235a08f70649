"""Adopting for a queue that is declared: the code knows the mapping, the database lacks things."""

import enum

import pytest
import sqlalchemy as sa
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

import rowmill as rm
from rowmill.adopt import Adoption, StepKind, carry_out, examine_queue
from rowmill.model.errors import BadRequest
from rowmill.model.lifecycle import StateKind
from tests.adopt.conftest import Site

pytestmark = pytest.mark.empty_database


async def look(site: Site, mill: rm.Mill, name: str) -> Adoption:
    queue = mill[name]
    sql = mill.store.sql(queue)
    return await site.store.run(lambda connection: examine_queue(connection, sql, queue))


async def adopt(site: Site, mill: rm.Mill, name: str) -> Adoption:
    found = await look(site, mill, name)
    await carry_out(site.store, found.plan)
    again = await look(site, mill, name)
    assert not again.plan, again.plan
    return found


async def test_a_class_with_the_mixin_on_a_table_that_never_was_a_queue(site: Site) -> None:
    class Base(DeclarativeBase):
        pass

    class Article(rm.QueueMixin, Base):
        __tablename__ = "articles"
        id: Mapped[int] = mapped_column(primary_key=True)
        title: Mapped[str]

    await site.sql(
        "CREATE TABLE articles (id integer PRIMARY KEY, title text NOT NULL)",
        "INSERT INTO articles VALUES (1, 'a'), (2, 'b')",
    )
    mill = rm.Mill(site.url)
    queue = mill.queue(Article)
    titles: list[str] = []

    @queue.handler()
    async def work(lease: rm.Lease[Article]) -> None:
        titles.append(lease.row.title)

    found = await adopt(site, mill, "articles")

    assert found.declaration is None
    await mill.migrate()
    report = await mill.drain()
    assert sorted(titles) == ["a", "b"]
    assert report.done == 2
    if site.postgres:
        null = (
            "SELECT is_nullable FROM information_schema.columns WHERE table_name = 'articles' AND column_name = 'state'"
        )
        assert await site.value(null) == "NO", "as the class has it"


async def test_stages_each_get_their_index_and_their_lease(site: Site) -> None:
    table = sa.Table(
        "entities",
        sa.MetaData(),
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("state", sa.String(20)),
        sa.Column("attempts", sa.Integer, nullable=False, server_default="0"),
        *(sa.Column(name, sa.DateTime(timezone=True)) for name in ("available_at", "leased_until", "finished_at")),
        sa.Column("lease", sa.BigInteger),
        sa.Column("error", sa.Text),
    )
    await site.sql(
        "CREATE TABLE entities (id integer PRIMARY KEY, state varchar(20))",
        "INSERT INTO entities VALUES (1, 'PENDING'), (2, 'LINKING'), (3, 'LINKED'), (4, 'ENRICHING'), (5, 'HUH')",
    )
    mill = rm.Mill(site.url)
    mill.queue(
        table,
        states=rm.States(done="COMPLETE", dead="FAILED"),
        stages=[
            rm.Stage("link", ready="PENDING", running="LINKING", lease=60),
            rm.Stage("enrich", ready="LINKED", running="ENRICHING", lease=600),
        ],
    )

    found = await adopt(site, mill, "entities")

    names = [change.what for change in found.plan.changes if change.part is StepKind.INDEX]
    assert len(names) == 3
    assert found.unknown == {"HUH": 1}
    order = await site.rows("SELECT id FROM entities WHERE leased_until IS NOT NULL ORDER BY leased_until")
    assert order == [(2,), (4,)], "the stage with the shorter lease ends first"


async def test_words_of_a_python_enum_are_known_again(site: Site) -> None:
    class Progress(enum.Enum):
        NEW = "new"
        BUSY = "busy"
        OK = "ok"
        BAD = "bad"

    table = sa.Table(
        "jobs",
        sa.MetaData(),
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("state", sa.Enum(Progress, name="progress")),
        sa.Column("attempts", sa.Integer),
        *(sa.Column(name, sa.DateTime) for name in ("available_at", "leased_until", "finished_at")),
        sa.Column("lease", sa.BigInteger),
        sa.Column("error", sa.Text),
    )
    if site.postgres:
        await site.sql("CREATE TYPE progress AS ENUM ('NEW', 'OK', 'BAD')")
    kind = "progress" if site.postgres else "varchar(4)"
    await site.sql(f"CREATE TABLE jobs (id integer PRIMARY KEY, state {kind})", "INSERT INTO jobs VALUES (1, 'NEW')")
    mill = rm.Mill(site.url)
    mill.queue(table, states=rm.States(Progress.NEW, Progress.BUSY, Progress.OK, Progress.BAD))

    found = await adopt(site, mill, "jobs")

    assert found.unknown == {}
    if site.postgres:
        assert await site.value("SELECT enum_range(NULL::progress)::text") == "{NEW,OK,BAD,BUSY}"


async def test_a_column_of_your_own_that_is_missing_is_an_obstacle(site: Site) -> None:
    class Base(DeclarativeBase):
        pass

    class Article(rm.QueueMixin, Base):
        __tablename__ = "articles"
        id: Mapped[int] = mapped_column(primary_key=True)
        title: Mapped[str]

    await site.sql("CREATE TABLE articles (id integer PRIMARY KEY)")
    mill = rm.Mill(site.url)
    mill.queue(Article)

    found = await look(site, mill, "articles")

    assert "lacks column title" in found.plan.obstacles[0]


async def test_a_table_that_is_not_there_is_refused(site: Site) -> None:
    class Base(DeclarativeBase):
        pass

    class Article(rm.QueueMixin, Base):
        __tablename__ = "articles"
        id: Mapped[int] = mapped_column(primary_key=True)

    mill = rm.Mill(site.url)
    mill.queue(Article)

    with pytest.raises(BadRequest, match=r"no table articles. .*rowmill migrate --tables"):
        await look(site, mill, "articles")


async def test_rows_that_would_get_no_state_are_refused_where_one_is_declared(site: Site) -> None:
    class Base(DeclarativeBase):
        pass

    class Mail(rm.QueueMixin, Base):
        __tablename__ = "mails"
        id: Mapped[int] = mapped_column(primary_key=True)
        code: Mapped[int | None]

    await site.sql(
        "CREATE TABLE mails (id integer PRIMARY KEY, code integer)",
        "INSERT INTO mails VALUES (1, NULL), (2, 250), (3, 7)",
    )
    mill = rm.Mill(site.url)
    queue = mill.queue(Mail)
    where = {StateKind.READY: "code IS NULL", StateKind.DONE: "code = 250"}

    sql = mill.store.sql(queue)
    found = await site.store.run(lambda connection: examine_queue(connection, sql, queue, where))
    more = {**where, StateKind.CANCELLED: "code = 7"}
    said = await site.store.run(lambda connection: examine_queue(connection, sql, queue, more))

    [obstacle] = found.plan.obstacles
    assert obstacle.startswith("1 rows fit none of the conditions")
    assert said.plan.obstacles == []


async def test_states_that_are_declared_as_others_are_no_news(site: Site) -> None:
    await site.sql(
        "CREATE TABLE jobs (id integer PRIMARY KEY, status text)", "INSERT INTO jobs VALUES (1, 'archived'), (2, 'odd')"
    )
    table = sa.Table(
        "jobs",
        sa.MetaData(),
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("status", sa.Text),
        sa.Column("attempts", sa.Integer),
        *(sa.Column(name, sa.DateTime) for name in ("available_at", "leased_until", "finished_at")),
        sa.Column("lease", sa.BigInteger),
        sa.Column("error", sa.Text),
    )
    mill = rm.Mill(site.url)
    mill.queue(table, columns=rm.Columns(state="status"), states=rm.States(others="archived"))

    found = await look(site, mill, "jobs")

    assert found.unknown == {"odd": 1}
