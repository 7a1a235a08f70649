"""The limit client of a process. It sends requests for permits to the database, many of them in one statement."""

import asyncio
import random
import secrets
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from sqlalchemy.exc import DBAPIError

from rowmill.limits.batcher import RequestBatcher
from rowmill.limits.clock import DatabaseClock
from rowmill.limits.grants import (
    CallRefused,
    CallsEnded,
    Grant,
    LimitTerms,
    PermitResult,
    group_ends,
    must_report,
    terms_of,
)
from rowmill.model.limits import BudgetPeriod, strictest
from rowmill.observe.events import Events
from rowmill.store.limits.asks import Change, FinishCalls, Limiter, Outcome, PermitsTaken, TakePermits
from rowmill.store.limits.declarations import declare
from rowmill.store.port import Disconnected, Store

MOST_CALLS = 2000
"""Calls in one request to the database."""
RETRY_SECONDS = 30.0
"""Seconds for which a request is retried while the database is unreachable."""
CLOSE_SECONDS = 5.0
DECLARE_EVERY = 5.0
"""Seconds between two rounds in which this process publishes its declarations and reads those of others."""
DECLARED_SECONDS = 15.0
"""Seconds after which the declarations of others are too old to rely on. They are read again before the next
request."""


@dataclass(slots=True)
class PermitRequest:
    """A request for permits for some calls with the same key."""

    key: str
    calls: int
    amounts: Sequence[int]
    """Cost of each call, if the limit has a budget."""
    hold: int
    horizon: float
    late: float
    result: "asyncio.Future[list[PermitResult]]"


@dataclass(slots=True)
class DeclarationStatus:
    """Which declaration of a limit is in effect for the fleet, as far as this process knows."""

    ours: LimitTerms
    effective: LimitTerms
    """Our declaration, or a stricter one that other processes made: see `strictest`."""
    known_at: float
    """When it was last read, on the monotonic clock."""


class LimitClient:
    """Takes, renews and gives back permits, for one event loop and one open store."""

    def __init__(self, store: Store, events: Events) -> None:
        self._store = store
        self._limiter: Limiter = store.limiter
        self._events = events
        self._declarations: dict[str, DeclarationStatus] = {}
        self._declaring: dict[str, asyncio.Task[None]] = {}
        """Tasks that publish a declaration right now, by limit."""
        self._redeclaring: asyncio.Task[None] | None = None
        self._clock = DatabaseClock()
        self._requests: dict[str, tuple[LimitTerms, RequestBatcher[PermitRequest]]] = {}
        """Requests for permits that wait for the batch before them, by limit."""
        self._held: dict[int, Grant] = {}
        self._renewing: dict[float, asyncio.Task[None]] = {}
        """Renewal tasks by lease length, so that a short lease does not wait for the renewal of a long one."""
        self._ends: RequestBatcher[CallsEnded] = RequestBatcher(self._send_ends, "limit ends")

    async def take(
        self,
        terms: LimitTerms,
        key: str,
        calls: int,
        amounts: Sequence[int] = (),
        *,
        hold: int = 0,
        horizon: float = 0.0,
        late: float = 0.0,
    ) -> list[PermitResult]:
        """Ask for permits. Return one result per call, in the order of the calls.

        Up to `hold` refused calls keep waiting here if a permit may become free within `horizon` seconds. `late` asks
        for permits that may be used that many seconds later, where the limit has room for it.
        """
        status = self._declarations.get(terms.rules.name)
        if status is None or status.ours is not terms or time.monotonic() - status.known_at > DECLARED_SECONDS:
            status = await self._declare_and_read(terms)
        terms = status.effective
        result: asyncio.Future[list[PermitResult]] = asyncio.get_running_loop().create_future()
        name = terms.rules.name
        found = self._requests.get(name)
        if found is None or found[0] is not terms:
            send = partial(self._send_requests, terms)
            batcher = RequestBatcher(send, f"limit {name}", size=lambda request: request.calls, most=MOST_CALLS)
            found = self._requests[name] = terms, batcher
        found[1].put(PermitRequest(key, calls, amounts, hold, horizon, late, result))
        try:
            return await result
        except asyncio.CancelledError:
            if result.done() and not result.cancelled() and result.exception() is None:
                self.give_back(result.result())  # it arrived just now, and the caller is gone
            raise

    async def _declare_and_read(self, terms: LimitTerms) -> DeclarationStatus:
        """Publish our declaration of a limit and read those of other processes. This comes before the first request for
        permits."""
        name = terms.rules.name
        there = self._declaring.get(name)
        if there is None or there.done():
            there = self._declaring[name] = asyncio.create_task(
                self._retry_on_disconnect(lambda: self._declare([terms])), name=f"limit {name} declared"
            )
        await asyncio.shield(there)
        if self._declarations[name].ours is not terms:  # the task published an older declaration
            return await self._declare_and_read(terms)
        if self._redeclaring is None or self._redeclaring.done():
            self._redeclaring = asyncio.create_task(self._keep_declaring(), name="limits declared")
        return self._declarations[name]

    async def _keep_declaring(self) -> None:
        """Publish our declarations again and again. A declaration counts only while its process is alive."""
        while True:
            await asyncio.sleep(DECLARE_EVERY * (0.75 + random.random() / 2))
            with suppress(Disconnected, DBAPIError):
                await self._declare([status.ours for status in self._declarations.values()])

    async def _declare(self, limits: Sequence[LimitTerms]) -> None:
        """Publish these declarations, and store which ones are in effect."""
        ours = {terms.rules.name: terms for terms in limits}
        asked = time.monotonic()
        found = await self._store.run(
            lambda connection: declare(connection, {name: terms.declared for name, terms in ours.items()})
        )
        for name, terms in ours.items():
            others = [one for one in found.get(name, ()) if one.to_json() != terms.declared.to_json()]
            effective = terms if not others else terms_of(
                name, strictest([terms.declared, *others]), terms.rules.lease, terms.run
            )  # fmt: skip
            before = self._declarations.get(name)
            if before is not None and before.ours is terms and before.effective == effective:
                effective = before.effective  # keep the same object: requests are batched by its identity
            self._declarations[name] = DeclarationStatus(terms, effective, asked)
            if others:
                texts = "; ".join(map(str, others))
                self._events.limit_differs(name, str(terms.declared), texts, str(effective.declared))
            else:
                self._events.limit_agrees(name)

    def give_back(self, results: Sequence[PermitResult]) -> None:
        """Give back permits that are not used."""
        self.end_soon([result for result in results if isinstance(result, Grant)], "unused")

    async def _send_requests(self, terms: LimitTerms, batch: list[PermitRequest]) -> None:
        """Send requests, and give each the error if that fails."""
        try:
            await self._send(terms, batch)
        except BaseException as error:
            cancelled = isinstance(error, asyncio.CancelledError)
            for request in batch:
                if not request.result.done():
                    request.result.set_exception(Disconnected("it was closed meanwhile") if cancelled else error)
            if not isinstance(error, Exception):
                raise

    async def _send(self, terms: LimitTerms, batch: list[PermitRequest]) -> None:
        """Send one batch to the database, for all keys of a limit. Requests that would wait here come first, since they
        are next in turn."""
        by_key: dict[str, list[PermitRequest]] = {}
        for request in sorted(batch, key=lambda one: not one.hold):
            by_key.setdefault(request.key, []).append(request)
        asked = time.monotonic()
        takes = [self._take_of(terms, key, requests) for key, requests in by_key.items()]
        results = await self._retry_on_disconnect(lambda: self._limiter.take(numbered(takes)))
        if any(taken.astray for taken in results):
            for ask in takes:
                ask.spans = terms.budget.spans(results[0].now, terms.run) if terms.budget else ()
            results = await self._retry_on_disconnect(lambda: self._limiter.take(numbered(takes)))
        self._clock.note(asked, results[0].now)
        for ask, taken in zip(takes, results, strict=True):
            self._resolve(terms, ask, taken, by_key[ask.key])

    def _take_of(self, terms: LimitTerms, key: str, requests: list[PermitRequest]) -> TakePermits:
        ticketed = terms.rules.ticketed
        spans: Sequence[BudgetPeriod] = ()
        if terms.budget is not None:
            spans = terms.budget.spans(self._clock.theirs(time.monotonic(), time.time()), terms.run)
        return TakePermits(
            terms.rules, key, sum(one.calls for one in requests), (),
            [amount for one in requests for amount in one.amounts] if ticketed else (),
            spans, sum(one.hold for one in requests), max(one.horizon for one in requests),
            min(one.late for one in requests),
        )  # fmt: skip

    def _resolve(self, terms: LimitTerms, ask: TakePermits, taken: PermitsTaken, requests: list[PermitRequest]) -> None:
        now = time.monotonic()
        fresh = now + terms.rules.lease
        if terms.rate is not None:
            fresh = min(self._clock.ours(taken.now), now) + terms.rate.fresh + taken.late
        plain = not ask.tickets and not taken.probe and not taken.failures
        results: list[PermitResult] = []
        if ask.tickets:
            amounts = ask.amounts or [0] * taken.granted
            results += [
                Grant(terms, ask.key, taken, ask.tickets[place], amounts[place], fresh, now, plain)
                for place in range(taken.granted)
            ]
            self._hold([result for result in results if isinstance(result, Grant)])
        elif taken.granted:  # without tickets, one Grant serves all calls
            results += [Grant(terms, ask.key, taken, 0, 0, fresh, now, plain)] * taken.granted
        for place in range(ask.calls - taken.granted):
            assert taken.reason is not None
            stays = place < taken.kept
            wait = taken.soon if stays else taken.wait(place - taken.kept)
            results.append(CallRefused(taken.reason, wait, stays, taken.soon))
        start = 0
        for request in requests:
            part = results[start : start + request.calls]
            start += request.calls
            if request.result.done():  # the caller is gone
                self.give_back(part)
            else:
                request.result.set_result(part)

    async def _retry_on_disconnect(self, ask: Any) -> Any:
        """Retry on disconnect for up to 30 s. Permits of a request whose reply was lost are never used, and expire by
        their lease."""
        pause, until = 0.05, time.monotonic() + RETRY_SECONDS
        while True:
            try:
                return await ask()
            except Disconnected:
                if time.monotonic() > until:
                    raise
                await asyncio.sleep(pause * (0.5 + random.random()))
                pause = min(pause * 2, 1.0)

    def _hold(self, grants: Sequence[Grant]) -> None:
        """Renew these tickets until their calls end."""
        self._held |= {grant.ticket: grant for grant in grants}
        for lease in {grant.terms.rules.lease for grant in grants}:
            there = self._renewing.get(lease)
            if there is None or there.done():
                self._renewing[lease] = asyncio.create_task(self._renew(lease), name="limit renewals")

    async def _renew(self, lease: float) -> None:
        while True:
            await asyncio.sleep(lease / 3)
            tickets = [number for number, grant in self._held.items() if grant.terms.rules.lease == lease]
            if not tickets:
                return
            try:
                good = await self._limiter.renew(tickets, lease)
            except Disconnected:
                continue
            for number in tickets:
                if number not in good and number in self._held:
                    self._held[number].lost = True

    def end_soon(
        self,
        grants: Sequence[Grant],
        outcome: Outcome,
        *,
        cost: int | None = None,
        seconds: float = 0.0,
        opened: Callable[[], None] | None = None,
    ) -> "asyncio.Future[None] | None":
        """Report calls that have ended: give back their tickets and record the provider's condition. Ends that come in
        while a report is under way are sent together.

        Return None if the database need not know. `opened` is called if this failure opens the circuit breaker.
        """
        reported = [grant for grant in grants if must_report(grant, outcome)]
        if not reported:
            return None
        ended = asyncio.get_running_loop().create_future()
        self._ends.put(CallsEnded(reported, outcome, cost, seconds, ended, opened))
        return ended

    async def _send_ends(self, ends: list[CallsEnded]) -> None:
        """Report ended calls, and give each the error if that fails."""
        groups = group_ends(ends, time.monotonic())
        reported = await asyncio.gather(*(self._end(finish, group) for finish, group in groups), return_exceptions=True)
        for error, (_, group) in zip(reported, groups, strict=True):
            for _, end in group:
                if error is not None and not end.ended.done():  # only the caller gets the error
                    end.ended.set_exception(error)
        for end in ends:
            if not end.ended.done():
                end.ended.set_result(None)

    async def _end(self, finish: FinishCalls, group: list[tuple[Grant, CallsEnded]]) -> None:
        try:
            change: Change | None = await self._retry_on_disconnect(lambda: self._limiter.finish(finish))
            if change is not None:
                self._events.limit(change, finish.rules.name, finish.seconds)
            if change == "opened" and (opened := group[0][1].opened) is not None:
                opened()
        except Disconnected:
            pass  # the tickets expire by their lease
        finally:
            for grant, _ in group:
                self._held.pop(grant.ticket, None)

    async def close(self) -> None:
        """Send the reports of ended calls, then cancel all tasks."""
        if self._ends.task is not None:
            await asyncio.wait({self._ends.task}, timeout=CLOSE_SECONDS)
        tasks = (
            self._ends.task, self._redeclaring, *self._declaring.values(), *self._renewing.values(),
            *(batcher.task for _, batcher in self._requests.values()),
        )  # fmt: skip
        await cancel_all([task for task in tasks if task is not None])


def numbered(takes: Sequence[TakePermits]) -> Sequence[TakePermits]:
    """Give each call a new ticket number for every attempt. If the reply of an attempt is lost, its tickets are taken,
    and expire by their lease."""
    for ask in takes:
        ask.tickets = [secrets.randbits(63) for _ in range(ask.calls)] if ask.rules.ticketed else ()
    return takes


async def cancel_all(tasks: "Sequence[asyncio.Task[Any]]") -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
