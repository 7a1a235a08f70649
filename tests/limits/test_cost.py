"""What a question costs does not grow with what was asked before."""

import itertools
from typing import Any

import sqlalchemy as sa

import rowmill as rm
from rowmill.model.limits import MICRO, Budget
from rowmill.store.limits.asks import PermitRules, TakePermits
from rowmill.store.limits.postgres import PostgresLimiter
from rowmill.store.own.schema import own_tables
from tests.limits.granting import NOON, numbers, rules

SEEN = "SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_xact_user_tables WHERE relid = 'rowmill.ticket'::regclass"


async def looked_at(store: Any, given: PermitRules, budget: Budget) -> int:
    """What a database looks at to answer one question: entries on PostgreSQL, steps of its machine on SQLite."""
    spans = budget.spans(NOON, "r")
    ask = TakePermits(given, "", 1, [next(numbers)], [MICRO], spans, at=NOON)
    if store.dialect.name == "sqlite":
        steps = itertools.count()
        store.writer.connection.set_progress_handler(lambda: next(steps) * 0, 10)
        await store.limiter.take([ask])
        store.writer.connection.set_progress_handler(None, 10)
        return next(steps)
    async with store.limits._in_use() as connection, connection.transaction():
        await PostgresLimiter(connection).take([ask])
        return int(await connection.fetchval(SEEN))


async def test_what_has_ended_does_not_slow_down_what_comes(database_url: str) -> None:
    budget = Budget(1_000_000)
    mill = rm.Mill(database_url)
    async with mill.opened() as store:
        await mill.migrate()
        given = rules(slots=5, budget=budget)
        before = await looked_at(store, given, budget)
        ticket = own_tables(store.dialect.name).limits.ticket
        ended = [
            {"id": 10**12 + n, "name": "eqc", "key": "", "amount": 0, "until": NOON + 60, "done": True, "span": "day"}
            for n in range(5000)
        ]
        await mill.run(lambda connection: connection.execute(sa.insert(ticket), ended).close())
        assert await looked_at(store, given, budget) < before + 100
