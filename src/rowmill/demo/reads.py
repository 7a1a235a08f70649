"""Queries of the demo, during the run and at the end."""

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy import Connection

import rowmill as rm
from rowmill.demo.companies import Company, Effect
from rowmill.model.lease import CLAIM_BITS
from rowmill.store.own.schema import own_tables

FINAL = ("done", "dead")
LOCK_SECONDS = 0.2
"""Seconds for which a lock may be busy with a worker that makes progress."""


@dataclass(frozen=True, slots=True)
class HeldRows:
    """The rows that a halted worker holds."""

    answers: Mapping[int, int]
    """Attempt by company, for handlers that return values which the worker will try to settle."""
    rows: int


async def states(queue: rm.Queue[Company]) -> dict[str, int]:
    """Count rows by state."""
    wanted = sa.select(Company.state, sa.func.count()).group_by(Company.state)
    rows = await queue.mill.run(lambda c: c.execute(wanted).all(), write=False)
    return {row[0]: row[1] for row in rows}


async def held_by(queue: rm.Queue[Company], worker: int) -> dict[int, int]:
    """Return the attempt by company for every row leased by this worker."""
    wanted = sa.select(Company.id, Company.attempts).where(
        Company.lease >= worker << CLAIM_BITS, Company.lease < (worker + 1) << CLAIM_BITS
    )
    rows = await queue.mill.run(lambda c: c.execute(wanted).all(), write=False)
    return {row.id: row.attempts for row in rows}


async def taken_over(queue: rm.Queue[Company], attempts: Mapping[int, int]) -> bool:
    """Return whether each of these rows was claimed again since this attempt, and at least one was finished."""
    wanted = sa.select(Company.id, Company.attempts, Company.state).where(Company.id.in_(list(attempts)))
    rows = await queue.mill.run(lambda c: c.execute(wanted).all(), write=False)
    return all(row.attempts > attempts[row.id] for row in rows) and any(row.state in FINAL for row in rows)


def others_can_write(mill: rm.Mill) -> bool:
    """Return whether the halted worker holds no lock that the others need. SQLite has one lock for all writers."""
    return mill.url.get_backend_name() != "sqlite" or _can_write(str(mill.url.database))


def _can_write(path: str) -> bool:
    with closing(sqlite3.connect(path, timeout=LOCK_SECONDS, isolation_level=None)) as connection:
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return False
        connection.execute("ROLLBACK")
        return True


@dataclass(frozen=True, slots=True)
class Facts:
    """Everything that the database knows at the end."""

    rows: dict[int, tuple[str, int, str]]
    """State, attempts and error by company."""
    effects: dict[int, int]
    """How often a result was written, by company."""
    failures: list[tuple[int, int, str]]
    """(company, attempt, code) of every attempt in the history."""


async def facts(queue: rm.Queue[Company]) -> Facts:
    def work(connection: Connection) -> Facts:
        attempt = own_tables(connection.dialect.name).attempt
        rows = connection.execute(sa.select(Company.id, Company.state, Company.attempts, Company.error))
        effects = connection.execute(sa.select(Effect.company_id, sa.func.count()).group_by(Effect.company_id))
        history = connection.execute(
            sa.select(attempt.c.key, attempt.c.attempt, attempt.c.code).where(attempt.c.queue == queue.name)
        )
        return Facts(
            {row.id: (row.state, row.attempts, row.error or "") for row in rows},
            {row[0]: row[1] for row in effects},
            [(int(key), number, code) for key, number, code in history],
        )

    return await queue.mill.run(work, write=False)
