"""Limiters on fresh databases, asked at times that the test says."""

import itertools
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import rowmill as rm
from rowmill.limits.client import LimitClient
from rowmill.model.limits import MICRO, Breaker, Budget, Rate
from rowmill.store.limits.asks import Change, FinishCalls, Limiter, Outcome, PermitRules, PermitsTaken, TakePermits
from tests.work.shop import Shop

NOON = 1_800_014_400.0
"""2027-01-15, 12:00 UTC."""
numbers = itertools.count(1)


def rules(
    name: str = "eqc",
    rate: Rate | None = None,
    slots: int = 0,
    budget: Budget | None = None,
    **more: Any,
) -> PermitRules:
    counted = {} if rate is None else {"calls": rate.calls, "reach": rate.reach, "width": rate.width}
    spent = {} if budget is None else {"budget": int(budget.limit) * MICRO, "spent_by_crash": budget.crashed == "spent"}
    return PermitRules(name, slots=slots, **{"breaker": Breaker(), **counted, **spent, **more})


class Asker:
    """Asks a limiter for one limit."""

    def __init__(self, limiter: Limiter, given: PermitRules, budget: Budget | None = None) -> None:
        self.limiter, self.rules, self.budget = limiter, given, budget

    async def take(
        self, at: float, calls: int = 1, *, key: str = "", costs: Sequence[int] = (), run: str = "r", **more: Any
    ) -> tuple[PermitsTaken, list[int]]:
        """What was granted, and the tickets."""
        tickets = [next(numbers) for _ in range(calls)]
        amounts = [cost * MICRO for cost in costs] or [MICRO] * calls
        spans = [] if self.budget is None else self.budget.spans(at, run)
        [taken] = await self.limiter.take([TakePermits(self.rules, key, calls, tickets, amounts, spans, at=at, **more)])
        return taken, tickets[: taken.granted]

    async def finish(
        self,
        at: float,
        outcome: Outcome = "ok",
        tickets: Sequence[int] = (),
        *,
        key: str = "",
        span: str | None = None,
        cost: int = 1,
        **more: Any,
    ) -> Change | None:
        many = len(tickets)
        ask = FinishCalls(
            self.rules, key, outcome, tickets, [cost * MICRO] * many, [MICRO] * many, [span] * many, at=at, **more
        )
        return await self.limiter.finish(ask)


@asynccontextmanager
async def limiter_on(url: str) -> AsyncIterator[Limiter]:
    mill = rm.Mill(url)
    async with mill.opened() as store:
        await mill.migrate()
        yield store.limiter


def client_of(shop: Shop) -> LimitClient:
    """Where calls of this process ask for room."""
    return shop.mill.limits.own_client()
