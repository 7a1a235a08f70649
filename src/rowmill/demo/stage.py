"""The demo's temporary folder, database and tables."""

import os
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy import Connection

import rowmill as rm
from rowmill.demo import companies
from rowmill.demo.companies import Company
from rowmill.demo.fate import Fates
from rowmill.store.clock import moment
from rowmill.store.limits.functions import FUNCTION_NAMES
from rowmill.store.open import parse_url
from rowmill.store.own.schema import SCHEMA, own_tables, version_of

FRESH = 5.0
"""Seconds since its last heartbeat in which a worker of another demo counts as alive."""


PREFIX = "rowmill-demo-"


class AnotherDemo(rm.RowmillError):
    """Another demo is running on this database."""


@dataclass(frozen=True, slots=True)
class DemoPlace:
    folder: Path
    """Holds ledgers and logs of the workers, and the database if it is a SQLite file of the demo."""
    url: str
    queue: rm.Queue[Company]


@asynccontextmanager
async def set_up(url: str | None, fates: Fates, *, keep: bool) -> AsyncIterator[DemoPlace]:
    """Create and fill the tables. Remove everything afterwards, unless `keep`."""
    with ExitStack() as cleaning:
        clear_leftovers()
        folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{'kept' if keep else os.getpid()}-"))
        if not keep:
            cleaning.callback(shutil.rmtree, folder)
        ours = url is None
        file = None if url is None else _new_file(url)
        if file is not None and not keep:
            for end in ("", "-wal", "-shm"):
                cleaning.callback(Path(f"{file}{end}").unlink, missing_ok=True)
        chosen = f"sqlite:///{folder / 'companies.db'}" if url is None else url
        mill, queue = companies.demo_mill(chosen)
        async with mill.opened():
            was_there = await mill.run(version_of, write=False) is not None
            if not ours and file is None:
                await mill.run(_make_room)
            await mill.migrate(tables=True)
            try:
                await mill.run(companies.create_witness)
                await queue.load(companies.made_up(fates.rows, fates.seed))
                yield DemoPlace(folder, chosen, queue)
            finally:
                if not ours and not keep:
                    await mill.run(lambda connection: _clear(connection, queue.name))
                    if not was_there and mill.store.dialect.name == "postgresql":
                        await _leave_nothing(mill)


def clear_leftovers() -> None:
    """Remove folders of killed demos, whose process no longer exists."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*-*"):
        number = folder.name.removeprefix(PREFIX).partition("-")[0]
        if number.isdigit() and not _lives(int(number)):
            shutil.rmtree(folder, ignore_errors=True)


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _new_file(url: str) -> Path | None:
    """Return the SQLite file that this run will create; None if it exists, or if the database is no file."""
    parsed = parse_url(url)
    if parsed.get_backend_name() != "sqlite" or not parsed.database:
        return None
    return None if Path(parsed.database).exists() else Path(parsed.database)


def _make_room(connection: Connection) -> None:
    """Drop the tables of an earlier demo. Raises AnotherDemo if one is running."""
    if version_of(connection) is not None:
        worker = own_tables(connection.dialect.name).worker
        alive = sa.select(sa.func.count()).where(
            worker.c.queues == Company.__tablename__,
            worker.c.stopped_at.is_(None),
            worker.c.seen_at > moment(connection.dialect.name, -FRESH),
        )
        if connection.scalar(alive):
            raise AnotherDemo("another demo runs on this database. Wait for it, or try again in a few seconds")
        _clear(connection, Company.__tablename__)
    companies.drop_tables(connection)


def _clear(connection: Connection, queue: str) -> None:
    """Drop the demo's tables, and delete their traces in Rowmill's own tables."""
    companies.drop_tables(connection)
    own = own_tables(connection.dialect.name)
    workers = sa.select(own.worker.c.id).where(own.worker.c.queues == queue)
    connection.execute(sa.delete(own.leader).where(own.leader.c.worker.in_(workers)))
    for table in reversed(own.metadata.sorted_tables):
        if "queue" in table.columns:
            connection.execute(sa.delete(table).where(table.c.queue == queue))
    connection.execute(sa.delete(own.worker).where(own.worker.c.queues == queue))


async def _leave_nothing(mill: rm.Mill) -> None:
    """Drop Rowmill's own schema if this run created it, unless it is in use by now."""

    def work(connection: Connection) -> None:
        own = own_tables("postgresql")
        if not connection.scalar(sa.select(sa.func.count()).select_from(own.worker)):
            own.metadata.drop_all(connection)
            for name in ("wake", *FUNCTION_NAMES):
                connection.exec_driver_sql(f"DROP FUNCTION IF EXISTS {SCHEMA}.{name}")
            connection.exec_driver_sql(f"DROP SCHEMA {SCHEMA}")

    with suppress(sa.exc.DBAPIError):  # something of somebody else's stands on it: it stays
        await mill.run(work)
