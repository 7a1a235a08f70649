"""Times with and without a zone, as epoch numbers, in columns that others fill."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any, Literal

import pytest
import sqlalchemy as sa
from sqlalchemy import Column

from rowmill import Columns, Lease, Mill, Queue
from tests.conformance.awkward.lifecycle import live
from tests.conformance.fleet import Declare, jobs, worker

ROLES = ("available_at", "leased_until", "finished_at", "created_at", "updated_at", "started_at")
ROWS: list[dict[str, Any]] = [{"title": str(n)} for n in range(4)]


class Utc(sa.types.TypeDecorator[datetime]):
    """Aware in Python, naive in the table."""

    impl = sa.DateTime
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Any) -> datetime | None:
        return None if value is None else value.astimezone(UTC).replace(tzinfo=None)

    def process_result_value(self, value: datetime | None, dialect: Any) -> datetime | None:
        return None if value is None else value.replace(tzinfo=UTC)


def timed(kind: Any, epoch: Literal["s", "ms"] = "s") -> Declare:
    def declare(mill: Mill) -> Queue[Any]:
        columns = Columns(created_at="created_at", updated_at="updated_at", started_at="started_at")
        return mill.queue(jobs(*(Column(role, kind) for role in ROLES)), columns=columns, epoch=epoch)

    return declare


KINDS: dict[str, tuple[Any, Literal["s", "ms"]]] = {
    "with a zone": (sa.DateTime(timezone=True), "s"),
    "without a zone": (sa.DateTime(), "s"),
    "timestamp": (sa.TIMESTAMP(), "s"),
    "decorated": (Utc(), "s"),
    "epoch seconds": (sa.BigInteger(), "s"),
    "epoch seconds in 32 bits": (sa.Integer(), "s"),
    "epoch milliseconds": (sa.BigInteger(), "ms"),
    "epoch as a float": (sa.Float(53), "s"),
    "epoch as a number": (sa.Numeric(20, 6, asdecimal=False), "s"),
    "epoch milliseconds as a float": (sa.Float(53), "ms"),
}


def seconds(value: Any, epoch: str) -> float:
    if isinstance(value, datetime):
        return value.replace(tzinfo=value.tzinfo or UTC).timestamp()
    return float(value) / (1000 if epoch == "ms" else 1)


@pytest.mark.parametrize("case", KINDS)
async def test_times_of_every_kind(database_url: str, case: str) -> None:
    kind, epoch = KINDS[case]
    async with worker(database_url, timed(kind, epoch)) as member:
        await live(member, list(ROWS))


@pytest.mark.parametrize("case", KINDS)
async def test_what_is_written_is_the_time(database_url: str, case: str) -> None:
    """To a few seconds, in the column's own unit; and a lease lasts as long as it should."""
    kind, epoch = KINDS[case]
    async with worker(database_url, timed(kind, epoch)) as member:
        await member.put({})
        [lease] = await member.claim()
        row = await member.row()
        now = datetime.now(UTC).timestamp()
        assert abs(seconds(row.started_at, epoch) - now) < 30
        assert abs(seconds(row.leased_until, epoch) - seconds(row.started_at, epoch) - 60) <= 1.001
        await member.settle((lease, None))
        row = await member.row()
        assert abs(seconds(row.finished_at, epoch) - now) < 30
        assert row.updated_at is not None


@pytest.mark.parametrize("case", KINDS)
async def test_a_time_of_the_application_is_understood(database_url: str, case: str) -> None:
    """What it puts into `available_at` is compared with the database's clock, in the same unit."""
    kind, epoch = KINDS[case]
    async with worker(database_url, timed(kind, epoch)) as member:

        def moment(shift: float) -> Any:
            at = datetime.now(UTC) + timedelta(seconds=shift)
            if isinstance(kind, (sa.DateTime, Utc)):
                zoned = isinstance(kind, Utc) or kind.timezone
                return at if zoned else at.replace(tzinfo=None)
            number = at.timestamp() * (1000 if epoch == "ms" else 1)
            return int(number) if isinstance(kind, sa.Integer) else number

        await member.put(
            *({"title": name, "available_at": moment(shift)} for name, shift in (("past", -60), ("future", 60)))
        )
        assert [lease.row.title for lease in await member.claim(10)] == ["past"]
        await member.bench.advance(61)
        assert [lease.row.title for lease in await member.claim(10)] == ["future"]


async def test_a_time_zone_of_the_session_changes_nothing(pg_url: str) -> None:
    async with worker(pg_url, timed(sa.DateTime())) as member:
        name = member.mill.url.database
        await member.sql(f"ALTER DATABASE {name} SET timezone = 'Asia/Shanghai'")
    mill = Mill(pg_url)
    queue = timed(sa.DateTime())(mill)
    async with mill.opened() as store:
        store.worker = 1
        then = (datetime.now(UTC) + timedelta(minutes=1)).replace(tzinfo=None)
        await store.run(lambda connection: connection.execute(queue.insert({"available_at": then})).close())
        assert await store.claim(queue, queue.step(), 1) == []


@pytest.mark.parametrize("how", ["insert", "load"])
async def test_a_time_of_another_zone_is_the_same_time(database_url: str, how: str) -> None:
    """SQLite has no zones: of five o'clock in Karachi, it would keep the five."""
    async with worker(database_url, timed(sa.DateTime(timezone=True))) as member:
        rows = [
            {"title": f"{name} {zone}", "available_at": datetime.now(timezone(timedelta(hours=zone))) + shift}
            for zone in (-5, 5)
            for name, shift in (("past", timedelta(minutes=-1)), ("future", timedelta(minutes=1)))
        ]
        await (member.put(*rows) if how == "insert" else member.queue.load(rows))
        assert {lease.row.title for lease in await member.claim(10)} == {"past -5", "past 5"}


async def test_an_updated_at_without_a_default_that_may_not_be_empty(database_url: str) -> None:
    def declare(mill: Mill) -> Queue[Any]:
        table = jobs(Column("updated_at", sa.DateTime(timezone=True), nullable=False))
        return mill.queue(table, columns=Columns(updated_at="updated_at"))

    async with worker(database_url, declare) as member:
        old = datetime(2020, 1, 1, tzinfo=UTC)
        await live(member, [{"updated_at": old} for _ in range(4)])
        assert all(row.updated_at.replace(tzinfo=UTC) > old for row in await member.rows())


async def test_an_available_at_that_may_not_be_empty(database_url: str) -> None:
    """Without a default: `insert` and `load` put rows in as available now."""

    def declare(mill: Mill) -> Queue[Any]:
        return mill.queue(jobs(Column("available_at", sa.DateTime(timezone=True), nullable=False)))

    async with worker(database_url, declare) as member:
        await live(member, list(ROWS))


async def test_times_that_sqlite_was_given_by_others(sqlite_url: str) -> None:
    """CURRENT_TIMESTAMP has no fractions; a date alone is midnight. Both are due."""
    async with worker(sqlite_url, timed(sa.DateTime())) as member:
        for at in ("CURRENT_TIMESTAMP", "'2024-01-01'", "'2024-01-01 10:00'", "datetime('now', '+1 hour')"):
            await member.sql(f"INSERT INTO jobs (title, state, available_at) VALUES ('x', 'ready', {at})")
        leases = await member.claim(10)
        assert len(leases) == 3
        assert all(lease.row.available_at is not None for lease in leases)


@pytest.mark.parametrize("kind", ["with a zone", "without a zone"])
@pytest.mark.parametrize("sync", [False, True], ids=["async", "sync"])
async def test_infinite_times_of_users_are_lived_with(pg_url: str, kind: str, sync: bool) -> None:
    """In whatever column they stand, on either driver: what is due since ever is done, what is due never waits, and
    only a lease that has ended is rescued."""
    async with worker(pg_url, timed(*KINDS[kind])) as member:
        await member.sql(
            "INSERT INTO jobs (title, state, lease, available_at, leased_until, finished_at, created_at, updated_at, "
            "started_at) VALUES ('since ever', 'ready', NULL, '-infinity', NULL, NULL, NULL, NULL, NULL), "
            "('all over', 'ready', NULL, NULL, 'infinity', '-infinity', 'infinity', '-infinity', 'infinity'), "
            "('never', 'ready', NULL, 'infinity', NULL, NULL, NULL, NULL, NULL), "
            "('left', 'running', 7, NULL, '-infinity', NULL, NULL, NULL, NULL), "
            "('held', 'running', 8, NULL, 'infinity', NULL, NULL, NULL, NULL)"
        )

        if sync:

            @member.queue.handler()
            def work(lease: Lease[Any]) -> None:
                with lease.settling() as session:
                    session.execute(sa.select(sa.func.count()).select_from(member.queue.table)).one()

        else:

            @member.queue.handler()
            async def work_async(lease: Lease[Any]) -> None:
                assert lease.row.created_at is None or lease.row.created_at.year == 9999

        report = await member.bench.drain()
        states = {row.title: row.state for row in await member.rows()}
        assert states == {
            "since ever": "done", "all over": "done", "left": "done", "never": "ready", "held": "running"
        }  # fmt: skip
        assert (report.done, report.rescued, report.lost) == (3, 1, 0)


@pytest.mark.parametrize("when", ["20000-01-01", "0044-03-15 BC"])
async def test_a_time_that_no_driver_can_read_fails_its_row_alone(pg_url: str, when: str) -> None:
    """And keeps no list of rows from being shown."""
    async with worker(pg_url, timed(sa.DateTime(timezone=True))) as member:
        await member.sql(
            f"INSERT INTO jobs (title, state, created_at) VALUES ('far', 'ready', '{when}'), ('near', 'ready', now())"
        )

        @member.queue.handler()
        async def work(lease: Lease[Any]) -> None:
            pass

        await member.bench.drain()
        far, near = await member.rows()
        assert (far.title, far.state, near.state) == ("far", "dead", "done")
        assert far.error.startswith("unreadable")
        assert far.created_at.year in (1, 9999)
