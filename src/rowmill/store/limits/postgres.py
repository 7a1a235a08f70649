"""Grants permits on PostgreSQL: one function call each, on a connection of its own."""

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from rowmill.model.limits import RefusalReason
from rowmill.store.limits.asks import Change, FinishCalls, PermitsTaken, TakePermits
from rowmill.store.postgres.connection import DedicatedConnection

NOW = "extract(epoch FROM clock_timestamp())::float8"


# served by: the primary keys, inside the function. In the order of the keys, so that two who ask for the same ones lock
# them in the same order.
TAKE = """
SELECT given.place, taken.* FROM unnest($1::text[], $2::int[], $3::int[], $4::int[], $5::float8[])
  WITH ORDINALITY AS given(key, first, calls, hold, horizon, place),
LATERAL rowmill.limit_take($6, given.key, given.calls, ($7::bigint[])[given.first : given.first + given.calls - 1],
  ($8::bigint[])[given.first : given.first + given.calls - 1], $9, $10, $11, $12, $13, $14, $15, $16, $17, $18,
  given.hold, given.horizon, $19, $20) AS taken
"""
FINISH = f"SELECT rowmill.limit_finish({', '.join(f'${place}' for place in range(1, 19))})"
# served by: the primary key
RENEW = f"UPDATE rowmill.ticket SET until = {NOW} + $2::float8 WHERE id = ANY ($1::bigint[]) AND NOT done RETURNING id"


class PostgresLimiter:
    """Grants permits over one connection."""

    def __init__(self, line: DedicatedConnection) -> None:
        self._line = line

    async def take(self, asks: Sequence[TakePermits]) -> list[PermitsTaken]:
        given, asks = asks, sorted(asks, key=lambda ask: ask.key)
        rules, spans = asks[0].rules, asks[0].spans
        counts = [ask.calls for ask in asks]
        firsts = [end - calls + 1 for end, calls in zip(accumulate(counts), counts, strict=True)]
        rows = await self._line.fetch(
            TAKE,
            [ask.key for ask in asks], firsts, counts, [ask.hold for ask in asks], [ask.horizon for ask in asks],
            rules.name, [ticket for ask in asks for ticket in ask.tickets],
            [amount for ask in asks for amount in ask.amounts], rules.calls, rules.reach, rules.width,
            min(ask.late for ask in asks),
            rules.slots, rules.budget, [span.name for span in spans],
            [span.start for span in spans] + [span.end for span in spans[-1:]], rules.spent_by_crash, rules.lease,
            asks[0].at, rules.breaker is not None,
        )  # fmt: skip
        found = {asks[row[0] - 1].key: taken(tuple(row)[1:]) for row in rows}
        return [found[ask.key] for ask in given]

    async def finish(self, ask: FinishCalls) -> Change | None:
        rules, breaker = ask.rules, ask.rules.breaker
        failures, pause, longest = (0, 0.0, 0.0) if breaker is None else (
            breaker.failures, breaker.pause, breaker.longest,
        )  # fmt: skip
        [row] = await self._line.fetch(
            FINISH,
            rules.name, ask.key, ask.outcome, list(ask.tickets), list(ask.costs), list(ask.estimates), list(ask.spans),
            rules.spent_by_crash, ask.seconds, ask.held, ask.bucket, rules.width, ask.unused, ask.probe, failures,
            pause, longest, ask.at,
        )  # fmt: skip
        found: Change | None = row[0]
        return found

    async def renew(self, tickets: Sequence[int], seconds: float) -> set[int]:
        return {row[0] for row in await self._line.fetch(RENEW, list(tickets), seconds)}


def taken(row: Sequence[Any]) -> PermitsTaken:
    granted, kept, now, line, step, soon, reason, bucket, late, failures, probe, span = row
    if reason == "astray":
        return PermitsTaken(0, 0, now, now, 0.0, 0.0, None, 0, 0.0, 0, False, None, astray=True)
    known = None if reason is None else RefusalReason(reason)
    return PermitsTaken(granted, kept, now, line, step, soon, known, bucket or 0, late, failures, probe, span)
