"""A queue with `where=...` claims only the rows that its condition lets through."""

from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import Column, ForeignKey, MetaData, Table
from sqlalchemy.orm import DeclarativeBase, Mapped, aliased, mapped_column

import rowmill as rm
from rowmill import Mill, Order, OrderPerKey, Queue
from rowmill.doctor import audit
from rowmill.model.errors import DeclarationError
from rowmill.operator import activity, change, counts
from rowmill.operator.counts import LEFT_OUT, How
from rowmill.operator.filters import Filter
from rowmill.operator.why import Obstacle, why
from rowmill.store import rescue
from tests.conformance.fleet import Declare, Member, jobs, sign_up, worker
from tests.conformance.test_refused import forbid

NEVER_OPENED = "sqlite:///never-opened.db"


def kinds(*more: Any, **options: Any) -> Table:
    return jobs(Column("kind", sa.Text), Column("version", sa.Integer), *more, **options)


def only_mail(*more: Any, **options: Any) -> Declare:
    table = kinds(*more)
    return lambda mill: mill.queue(table, where=table.c.kind == "mail", **options)


async def titles(member: Member, limit: int = 10) -> list[str]:
    return [lease.row.title for lease in await member.claim(limit)]


async def put(member: Member, *rows: dict[str, Any]) -> None:
    await member.put(*({"kind": None, "version": None} | row for row in rows))


MAIL, FAX, NONE = {"title": "m", "kind": "mail"}, {"title": "f", "kind": "fax"}, {"title": "n"}


async def test_only_its_rows_are_claimed(database_url: str) -> None:
    async with worker(database_url, only_mail()) as member:
        await put(member, FAX, MAIL, NONE, FAX, MAIL)
        assert await titles(member) == ["m", "m"]
        assert [row.state for row in await member.rows()] == ["ready", "running", "ready", "ready", "running"]
        assert await member.claim(10) == []


async def test_a_row_that_comes_to_fit_is_claimed(database_url: str) -> None:
    async with worker(database_url, only_mail()) as member:
        await put(member, FAX, MAIL)
        assert await titles(member) == ["m"]
        await member.sql("UPDATE jobs SET kind = 'mail' WHERE title = 'f'")
        member.store.drop_watermarks(member.queue)
        assert await titles(member) == ["f"]


async def test_with_priorities_and_with_times(database_url: str) -> None:
    declare = only_mail(Column("rank", sa.Integer), order=Order(priority="rank"))
    async with worker(database_url, declare) as member:
        past = datetime.now(UTC) - timedelta(hours=1)
        await put(member, FAX | {"rank": 9, "available_at": None}, MAIL | {"rank": 1, "available_at": past},
                  FAX | {"rank": 1, "available_at": past}, MAIL | {"title": "first", "rank": 5, "available_at": None},
                  )  # fmt: skip
        assert await titles(member) == ["first", "m"]


async def test_rows_of_others_hold_back_ours_of_the_same_key(database_url: str) -> None:
    declare = only_mail(Column("tenant", sa.Text), order_per_key=OrderPerKey(per="tenant"))
    async with worker(database_url, declare) as member:
        await put(member, FAX | {"tenant": "a"}, MAIL | {"tenant": "a"}, MAIL | {"tenant": "b", "title": "free"},
                  FAX | {"tenant": None}, MAIL | {"tenant": None, "title": "alone"})  # fmt: skip
        assert sorted(await titles(member)) == ["alone", "free"]
        await member.sql("UPDATE jobs SET state = 'done' WHERE id = 1")
        member.store.drop_watermarks(member.queue)
        assert await titles(member) == ["m"]


async def test_in_order_behind_many_rows_of_others(database_url: str) -> None:
    declare = only_mail(Column("tenant", sa.Text), order_per_key=OrderPerKey(per="tenant"))
    async with worker(database_url, declare) as member:
        others = [FAX | {"tenant": f"x{n}"} for n in range(500)]
        held = [MAIL | {"tenant": "x1"} for _ in range(300)]
        await put(member, *others, *held, MAIL | {"tenant": "z", "title": "free"})
        assert await titles(member) == ["free"]


async def test_two_fleets_share_a_table(database_url: str) -> None:
    async with worker(database_url, only_mail()) as member:
        table, other = kinds(), Mill(database_url)
        second = Member(other, other.queue(table, where=table.c.kind != "mail"))
        async with other.opened():
            await sign_up(other, second.queue)
            await put(member, FAX, MAIL, FAX, NONE)
            assert await titles(second) == ["f", "f"]
            assert await titles(member) == ["m"]
            assert [row.title for row in await member.rows() if row.state == "ready"] == ["n"]


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        (lambda t: t.c.kind.in_(["mail", "fax"]), "ab"),
        (lambda t: t.c.kind.like("%a%"), "ab"),
        (lambda t: t.c.kind == "it's: 100% $1 ?2 :x", "c"),
        (lambda t: t.c.version <= 2, "ab"),
        (lambda t: t.c.version % 2 == 1, "ac"),
        (lambda t: sa.or_(t.c.kind == "mail", t.c.version == 3), "ac"),
        (lambda t: ~(t.c.kind == "mail"), "bc"),
        (lambda t: sa.func.coalesce(t.c.version, 0) == 0, "d"),
        (lambda t: sa.case((t.c.version > 1, "new"), else_="old") == "new", "bc"),
        (lambda t: t.c.kind.is_(None), "d"),
        (lambda t: sa.func.lower(t.c["Sent Off"]) == "yes", "b"),
        (lambda t: t.c.day < datetime(2026, 1, 1, tzinfo=UTC), "a"),
        (lambda t: t.c.live, "a"),
        (lambda t: sa.not_(t.c.live), "b"),
        (lambda t: sa.false(), ""),
    ],
)
async def test_conditions_of_many_shapes(database_url: str, where: Any, expected: str) -> None:
    more = [Column("Sent Off", sa.Text), Column("day", sa.DateTime(timezone=True)), Column("live", sa.Boolean)]
    table = kinds(*more)
    async with worker(database_url, lambda mill: mill.queue(table, where=where(table))) as member:
        blank: dict[str, Any] = {"Sent Off": None, "day": None, "live": None}
        await put(
            member,
            blank | {"title": "a", "kind": "mail", "version": 1, "day": datetime(2025, 1, 1, tzinfo=UTC), "live": True},
            blank | {"title": "b", "kind": "fax", "version": 2, "Sent Off": "Yes", "live": False},
            blank | {"title": "c", "kind": "it's: 100% $1 ?2 :x", "version": 3},
            blank | {"title": "d"},
        )
        assert "".join(await titles(member)) == expected
        sql = member.store.sql(member.queue)
        for key in ("1", "2", "3", "4"):
            await member.mill.run(partial(why, sql=sql, key=key))
        found = await member.mill.run(lambda c: counts.counts(c, sql))
        assert sum(state.rows for state in found if state.kind == LEFT_OUT) == 4 - len(expected)
        await member.mill.run(lambda c: activity.oldest_ready(c, sql))


class Base(DeclarativeBase):
    pass


class Letter(rm.QueueMixin, Base):
    __tablename__ = "letters"
    id: Mapped[int] = mapped_column(primary_key=True)
    sort: Mapped[str] = mapped_column("letter_kind")


async def test_attributes_of_an_orm_class_will_do(database_url: str) -> None:
    async with worker(database_url, lambda mill: mill.queue(Letter, where=Letter.sort == "mail")) as member:
        await member.put({"sort": "fax"}, {"sort": "mail"})
        assert [lease.row.sort for lease in await member.claim(5)] == ["mail"]


async def test_a_table_in_a_schema_of_its_own(pg_url: str) -> None:
    table = kinds(schema="other")
    async with worker(pg_url, lambda mill: mill.queue(table, where=table.c.kind == "mail")) as member:
        await put(member, FAX, MAIL)
        assert await titles(member) == ["m"]


async def test_a_crashed_row_comes_back_whatever_it_has_become(database_url: str) -> None:
    """One worker sweeps for all: rows of another fleet, and rows that changed while they ran, must not be stranded."""
    async with worker(database_url, only_mail()) as member:
        await put(member, MAIL)
        assert len(await member.claim()) == 1
        await member.sql("UPDATE jobs SET kind = 'fax'")
        await member.expire()
        assert await member.rescue() == rescue.Rescued(returned=1)


async def test_a_running_row_that_no_longer_fits_is_settled(database_url: str) -> None:
    async with worker(database_url, only_mail()) as member:
        await put(member, MAIL)
        [lease] = await member.claim()
        await member.sql("UPDATE jobs SET kind = 'fax'")
        assert (await member.settle((lease, None))).kept == 1


async def test_rows_of_others_are_not_buried_here(database_url: str) -> None:
    async with worker(database_url, only_mail()) as member:
        await put(member, FAX | {"attempts": 9}, MAIL | {"attempts": 9})
        assert await member.claim(5) == []
        assert [row.state for row in await member.rows()] == ["ready", "dead"]


@pytest.mark.parametrize("order_per_key", [None, OrderPerKey(per="title")])
async def test_rows_that_can_not_be_claimed_are_stepped_over_and_those_of_others_left(
    database_url: str, order_per_key: OrderPerKey | None
) -> None:
    async with worker(database_url, only_mail(order_per_key=order_per_key)) as member:
        await forbid(member)
        await put(member, FAX, MAIL | {"title": "bad"}, MAIL, FAX | {"title": "bad fax"})
        assert await titles(member) == ["m"]
        assert [row.state for row in await member.rows()] == ["ready", "ready", "running", "ready"]


async def test_drain_ends_when_only_rows_of_others_are_left(database_url: str) -> None:
    async with worker(database_url, only_mail()) as member:
        queue: Queue[Any] = member.queue

        @queue.handler()
        async def work(lease: rm.Lease[Any]) -> None:
            pass

        await put(member, FAX, MAIL, NONE, MAIL)
        await member.bench.drain()
        assert [row.state for row in await member.rows()] == ["ready", "done", "ready", "done"]


async def test_why_says_that_the_filter_leaves_a_row_out(database_url: str) -> None:
    async with worker(database_url, only_mail()) as member:
        await put(member, FAX, MAIL, NONE)
        sql = member.store.sql(member.queue)
        for key, left_out in (("1", True), ("2", False), ("3", True)):
            _, holds = await member.mill.run(partial(why, sql=sql, key=key))
            assert (holds[0].reason is Obstacle.LEFT_OUT) is left_out
            if left_out:
                assert holds[0].text.startswith("this application's filter leaves it out: queue jobs is declared with")
                assert holds[0].facts == {"where": "kind = 'mail'"}


@pytest.mark.parametrize("cap", [2, 1000])
async def test_counts_tell_our_ready_rows_from_those_of_others(database_url: str, cap: int) -> None:
    async with worker(database_url, only_mail()) as member:
        await put(member, FAX, MAIL, FAX, FAX | {"state": "done"}, FAX | {"state": "running"})
        sql = member.store.sql(member.queue)
        found = await member.mill.run(lambda c: counts.counts(c, sql, cap=cap))
        rows = {(state.word, state.kind): (state.rows, state.count) for state in found if state.rows}
        exact = How.EXACT
        assert rows == {("ready", "ready"): (1, exact), ("ready", LEFT_OUT): (2, exact),
                        ("done", "done"): (1, exact), ("running", "running"): (1, exact)}  # fmt: skip
        depth = await member.mill.run(lambda c: counts.depth(c, sql, 100))
        assert depth == counts.Depth(1, exact)


async def test_the_oldest_ready_row_is_one_of_ours(database_url: str) -> None:
    async with worker(database_url, only_mail()) as member:
        long_ago = datetime.now(UTC) - timedelta(days=9)
        await put(member, FAX | {"available_at": long_ago})
        sql = member.store.sql(member.queue)
        assert await member.mill.run(lambda c: activity.oldest_ready(c, sql)) is None
        assert not await member.mill.run(lambda c: counts.has_work(c, sql))
        await put(member, MAIL | {"available_at": datetime.now(UTC) - timedelta(days=2)})
        age = await member.mill.run(lambda c: activity.oldest_ready(c, sql))
        assert await member.mill.run(lambda c: counts.has_work(c, sql))
        assert age is not None
        assert 2 * 86400 <= age < 3 * 86400


async def test_doctor_holds_only_our_ready_rows_against_us(database_url: str) -> None:
    async with worker(database_url, only_mail()) as member:
        await member.sql("DELETE FROM " + ("rowmill.worker" if member.postgres else "rowmill_worker"))
        await put(member, FAX | {"attempts": 0}, FAX | {"attempts": 9})
        codes = {finding.code for finding in await audit(member.store, [member.queue])}
        assert codes.isdisjoint({"no_worker", "attempts_used_up", "index_unreachable", "check_failed"})
        await put(member, MAIL | {"attempts": 0}, MAIL | {"attempts": 9})
        found = {finding.code: finding.what for finding in await audit(member.store, [member.queue])}
        assert found["no_worker"].startswith("2 rows ready")
        assert found["attempts_used_up"].startswith("1 row of stage work")


async def test_operators_see_and_change_the_whole_table(database_url: str) -> None:
    async with worker(database_url, only_mail()) as member:
        await put(member, FAX | {"state": "dead"}, MAIL | {"state": "dead"})
        assert (await change.requeue(member.store, member.queue, Filter(states=("dead",)))).rows == 2


other_table = Table("others", MetaData(), Column("id", sa.Integer, primary_key=True), Column("kind", sa.Text))


class Opaque:
    pass


@pytest.mark.parametrize(
    ("where", "problem"),
    [
        (
            lambda t: "kind = 'mail'",
            "takes a condition over columns, as in where=jobs.c.id == ..., not \"kind = 'mail'\"",
        ),
        (lambda t: True, "takes a condition over columns"),
        (lambda t: Opaque(), "not Opaque"),
        (lambda t: sa.text("kind = 'mail'"), "has SQL as text, which can't be checked"),
        (lambda t: other_table.c.kind == "mail", "names column others.kind, which is not one of table jobs"),
        (lambda t: t.alias("j").c.kind == "mail", "names column j.kind, which is not one of table jobs"),
        (lambda t: sa.column("kind") == "mail", "names column kind, which is not one of table jobs"),
        (lambda t: sa.literal_column("kind") == "mail", "names column kind, which is not one of table jobs"),
        (lambda t: aliased(Letter).sort == "mail", "which is not one of table jobs"),
        (lambda t: t.c.kind.in_(sa.select(other_table.c.kind)), "has a sub-query"),
        (lambda t: sa.exists().where(other_table.c.kind == t.c.kind), "has a sub-query"),
        (lambda t: sa.select(sa.func.max(other_table.c.id)).scalar_subquery() > t.c.version, "has a sub-query"),
        (lambda t: sa.func.count(t.c.id) > 3, "has the aggregate count()"),
        (lambda t: sa.func.max(t.c.id) > 3, "has the aggregate max()"),
        (lambda t: sa.func.row_number().over(order_by=t.c.id) == 1, "has a window or an aggregate"),
        (lambda t: t.c.version, "is Integer(), not a condition: compare it with something"),
        (lambda t: t.c.kind == sa.bindparam("kind"), "has the parameter kind without a value"),
        (lambda t: t.c.kind == "%(kind)s", "has a text that SQLAlchemy takes for a parameter"),
        (lambda t: t.c.bag == Opaque(), "has a value that can't be written into a statement"),
    ],
)
def test_a_condition_that_a_claim_can_not_use_is_refused(where: Any, problem: str) -> None:
    table = kinds(Column("bag", sa.PickleType))
    with pytest.raises(DeclarationError) as caught:
        Mill(NEVER_OPENED).queue(table, where=where(table))
    assert problem in str(caught.value)


def test_a_foreign_key_is_a_column_like_others() -> None:
    metadata = MetaData()
    Table("tenants", metadata, Column("id", sa.Integer, primary_key=True))
    table = kinds(Column("tenant", sa.Integer, ForeignKey("tenants.id")))
    assert Mill(NEVER_OPENED).queue(table, where=table.c.tenant == 3).where is not None


def test_a_table_is_declared_once_whatever_its_filter() -> None:
    mill, table = Mill(NEVER_OPENED), kinds()
    mill.queue(table, where=table.c.kind == "mail")
    with pytest.raises(DeclarationError, match="is declared already"):
        mill.queue(table, name="second", where=table.c.kind == "fax")
