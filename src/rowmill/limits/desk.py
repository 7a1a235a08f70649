"""Where the limits of one process turn to: what they ask at the same time becomes one question."""

import asyncio
import random
import secrets
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy.exc import DBAPIError

from rowmill.limits.answers import Answer, CallRefused, CallsEnded, Grant, LimitTerms, must_tell, terms_of, together
from rowmill.limits.clock import DatabaseClock
from rowmill.model.limits import BudgetPeriod, strictest
from rowmill.observe.events import Events
from rowmill.store.limits.asks import Change, FinishCalls, Limiter, Outcome, PermitsTaken, TakePermits
from rowmill.store.limits.declarations import declare
from rowmill.store.port import Disconnected, Store

MOST = 2000
"""Calls in one question."""
PATIENCE = 30.0
"""Seconds for which a database that is away is asked again."""
CLOSE_SECONDS = 5.0
AGREE_EVERY = 5.0
"""Seconds after which we say again how we declare our limits, and hear how others do."""
AGREED_SECONDS = 15.0
"""Seconds after which what we heard is too old to ask for room by it: this process was away."""


@dataclass(slots=True)
class PermitRequest:
    """Some calls for one key."""

    key: str
    calls: int
    amounts: Sequence[int]
    """Of each call, where there is a budget."""
    hold: int
    horizon: float
    late: float
    answered: "asyncio.Future[list[Answer]]"


@dataclass(slots=True)
class PermitBatcher:
    """Questions about one limit. While one is under way, the next ones gather."""

    terms: LimitTerms
    questions: list[PermitRequest] = field(default_factory=list)
    asking: "asyncio.Task[None] | None" = None


@dataclass(slots=True)
class DeclarationStatus:
    """What holds for a limit of ours, as far as we know."""

    ours: LimitTerms
    holds: LimitTerms
    """Ours, or something stricter: see `strictest`."""
    known_at: float
    """When we last looked, on the system's monotonic clock."""


class LimitClient:
    """Of one process, one loop and one open database."""

    def __init__(self, store: Store, events: Events) -> None:
        self._store = store
        self._limiter: Limiter = store.limiter
        self._events = events
        self._standings: dict[str, DeclarationStatus] = {}
        self._agreeing: dict[str, asyncio.Task[None]] = {}
        """Of each limit that we are asking about just now."""
        self._keeping: asyncio.Task[None] | None = None
        self._clock = DatabaseClock()
        self._counters: dict[str, PermitBatcher] = {}
        self._held: dict[int, Grant] = {}
        self._renewing: dict[float, asyncio.Task[None]] = {}
        """By lease: a short one must not wait for the turn of a long one."""
        self._ends: list[CallsEnded] = []
        self._ending: asyncio.Task[None] | None = None

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
    ) -> list[Answer]:
        """An answer for each call, in their order. Up to `hold` of them stay, if there may be room by the horizon;
        permits may be used so much later, where that does no harm."""
        standing = self._standings.get(terms.rules.name)
        if standing is None or standing.ours is not terms or time.monotonic() - standing.known_at > AGREED_SECONDS:
            standing = await self._agree(terms)
        terms = standing.holds
        answered: asyncio.Future[list[Answer]] = asyncio.get_running_loop().create_future()
        counter = self._counters.get(terms.rules.name)
        if counter is None or counter.terms is not terms:
            counter = self._counters[terms.rules.name] = PermitBatcher(terms)
        counter.questions.append(PermitRequest(key, calls, amounts, hold, horizon, late, answered))
        if counter.asking is None or counter.asking.done():
            counter.asking = asyncio.create_task(self._ask(counter), name=f"limit {terms.rules.name}")
        try:
            return await answered
        except asyncio.CancelledError:
            if answered.done() and not answered.cancelled() and answered.exception() is None:
                self.give_back(answered.result())  # it came just now, and nobody will see it
            raise

    async def _agree(self, terms: LimitTerms) -> DeclarationStatus:
        """Say how we declare a limit, and hear how others do, before we ask for room in it."""
        name = terms.rules.name
        there = self._agreeing.get(name)
        if there is None or there.done():
            there = self._agreeing[name] = asyncio.create_task(
                self._surely(lambda: self._declare([terms])), name=f"limit {name} declared"
            )
        await asyncio.shield(there)
        if self._standings[name].ours is not terms:  # the task was under way for what we said before
            return await self._agree(terms)
        if self._keeping is None or self._keeping.done():
            self._keeping = asyncio.create_task(self._keep_declaring(), name="limits declared")
        return self._standings[name]

    async def _keep_declaring(self) -> None:
        """A declaration counts while we live: others must not allow themselves more than we do."""
        while True:
            await asyncio.sleep(AGREE_EVERY * (0.75 + random.random() / 2))
            with suppress(Disconnected, DBAPIError):
                await self._declare([standing.ours for standing in self._standings.values()])

    async def _declare(self, limits: Sequence[LimitTerms]) -> None:
        """Say how we declare these limits, and take what holds."""
        ours = {terms.rules.name: terms for terms in limits}
        asked = time.monotonic()
        found = await self._store.run(
            lambda connection: declare(connection, {name: terms.declared for name, terms in ours.items()})
        )
        for name, terms in ours.items():
            others = [one for one in found.get(name, ()) if one.to_json() != terms.declared.to_json()]
            holds = terms if not others else terms_of(
                name, strictest([terms.declared, *others]), terms.rules.lease, terms.run
            )  # fmt: skip
            before = self._standings.get(name)
            if before is not None and before.ours is terms and before.holds == holds:
                holds = before.holds  # the same object: questions gather by it
            self._standings[name] = DeclarationStatus(terms, holds, asked)
            if others:
                texts = "; ".join(map(str, others))
                self._events.limit_differs(name, str(terms.declared), texts, str(holds.declared))
            else:
                self._events.limit_agrees(name)

    def give_back(self, answers: Sequence[Answer]) -> None:
        """What was granted is not used."""
        self.end_soon([answer for answer in answers if isinstance(answer, Grant)], "unused")

    async def _ask(self, counter: PermitBatcher) -> None:
        while counter.questions:
            batch: list[PermitRequest] = []
            calls = 0
            while counter.questions and (not batch or calls + counter.questions[0].calls <= MOST):
                batch.append(counter.questions.pop(0))
                calls += batch[-1].calls
            try:
                await self._put(counter.terms, batch)
            except BaseException as error:
                for question in batch:
                    if not question.answered.done():
                        question.answered.set_exception(
                            Disconnected("it was closed meanwhile")
                            if isinstance(error, asyncio.CancelledError)
                            else error
                        )
                if not isinstance(error, Exception):
                    raise

    async def _put(self, terms: LimitTerms, batch: list[PermitRequest]) -> None:
        """One question to the database, for all keys. Those who would stay come first, since they are the next."""
        by_key: dict[str, list[PermitRequest]] = {}
        for question in sorted(batch, key=lambda one: not one.hold):
            by_key.setdefault(question.key, []).append(question)
        asked = time.monotonic()
        takes = [self._take_of(terms, key, questions) for key, questions in by_key.items()]
        answers = await self._surely(lambda: self._limiter.take(numbered(takes)))
        if any(taken.astray for taken in answers):
            for ask in takes:
                ask.spans = terms.budget.spans(answers[0].now, terms.run) if terms.budget else ()
            answers = await self._surely(lambda: self._limiter.take(numbered(takes)))
        self._clock.note(asked, answers[0].now)
        for ask, taken in zip(takes, answers, strict=True):
            self._tell(terms, ask, taken, by_key[ask.key])

    def _take_of(self, terms: LimitTerms, key: str, questions: list[PermitRequest]) -> TakePermits:
        ticketed = terms.rules.ticketed
        spans: Sequence[BudgetPeriod] = ()
        if terms.budget is not None:
            spans = terms.budget.spans(self._clock.theirs(time.monotonic(), time.time()), terms.run)
        return TakePermits(
            terms.rules, key, sum(one.calls for one in questions), (),
            [amount for one in questions for amount in one.amounts] if ticketed else (),
            spans, sum(one.hold for one in questions), max(one.horizon for one in questions),
            min(one.late for one in questions),
        )  # fmt: skip

    def _tell(self, terms: LimitTerms, ask: TakePermits, taken: PermitsTaken, questions: list[PermitRequest]) -> None:
        now = time.monotonic()
        fresh = now + terms.rules.lease
        if terms.rate is not None:
            fresh = min(self._clock.ours(taken.now), now) + terms.rate.fresh + taken.late
        plain = not ask.tickets and not taken.probe and not taken.failures
        answers: list[Answer] = []
        if ask.tickets:
            amounts = ask.amounts or [0] * taken.granted
            answers += [
                Grant(terms, ask.key, taken, ask.tickets[place], amounts[place], fresh, now, plain)
                for place in range(taken.granted)
            ]
            self._hold([answer for answer in answers if isinstance(answer, Grant)])
        elif taken.granted:  # one for all: they hold nothing that could tell them apart
            answers += [Grant(terms, ask.key, taken, 0, 0, fresh, now, plain)] * taken.granted
        for place in range(ask.calls - taken.granted):
            assert taken.reason is not None
            stays = place < taken.kept
            wait = taken.soon if stays else taken.wait(place - taken.kept)
            answers.append(CallRefused(taken.reason, wait, stays, taken.soon))
        start = 0
        for question in questions:
            part = answers[start : start + question.calls]
            start += question.calls
            if question.answered.done():  # nobody waits for it any more
                self.give_back(part)
            else:
                question.answered.set_result(part)

    async def _surely(self, ask: Any) -> Any:
        """An answer, however often the connection breaks, within reason. What a question whose answer was lost had
        been granted is not used, and comes back by itself."""
        pause, until = 0.05, time.monotonic() + PATIENCE
        while True:
            try:
                return await ask()
            except Disconnected:
                if time.monotonic() > until:
                    raise
                await asyncio.sleep(pause * (0.5 + random.random()))
                pause = min(pause * 2, 1.0)

    def _hold(self, grants: Sequence[Grant]) -> None:
        """Tickets are renewed until their calls end."""
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
        """Calls have ended: give back what they held, and tell how the provider is. What ends while that is under way
        is told together. None where nobody needs to know. `opened` is called if the provider is taken for down then."""
        told = [grant for grant in grants if must_tell(grant, outcome)]
        if not told:
            return None
        ended = asyncio.get_running_loop().create_future()
        self._ends.append(CallsEnded(told, outcome, cost, seconds, ended, opened))
        if self._ending is None or self._ending.done():
            self._ending = asyncio.create_task(self._end_all(), name="limit ends")
        return ended

    async def _end_all(self) -> None:
        while self._ends:
            ends, self._ends = self._ends, []
            groups = together(ends, time.monotonic())
            told = await asyncio.gather(*(self._end(finish, group) for finish, group in groups), return_exceptions=True)
            for error, (_, group) in zip(told, groups, strict=True):
                for _, end in group:
                    if error is not None and not end.ended.done():  # the caller must hear of it, and nobody else
                        end.ended.set_exception(error)
            for end in ends:
                if not end.ended.done():
                    end.ended.set_result(None)

    async def _end(self, finish: FinishCalls, group: list[tuple[Grant, CallsEnded]]) -> None:
        try:
            change: Change | None = await self._surely(lambda: self._limiter.finish(finish))
            if change is not None:
                self._events.limit(change, finish.rules.name, finish.seconds)
            if change == "opened" and (opened := group[0][1].opened) is not None:
                opened()
        except Disconnected:
            pass  # what they held comes back by its lease
        finally:
            for grant, _ in group:
                self._held.pop(grant.ticket, None)

    async def close(self) -> None:
        """Let calls that have ended be told, and leave."""
        if self._ending is not None:
            await asyncio.wait({self._ending}, timeout=CLOSE_SECONDS)
        tasks = (
            self._ending, self._keeping, *self._agreeing.values(), *self._renewing.values(),
            *(counter.asking for counter in self._counters.values()),
        )  # fmt: skip
        await quiet([task for task in tasks if task is not None])


def numbered(takes: Sequence[TakePermits]) -> Sequence[TakePermits]:
    """With new numbers for the tickets, each time that they are asked for: where only the answer was lost, those of the
    last time are taken, and run out by themselves."""
    for ask in takes:
        ask.tickets = [secrets.randbits(63) for _ in range(ask.calls)] if ask.rules.ticketed else ()
    return takes


async def quiet(tasks: "Sequence[asyncio.Task[Any]]") -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
