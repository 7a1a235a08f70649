"""One call to a provider, within its limits: `async with` on a loop, `with` in a thread."""

import asyncio
import time
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from types import TracebackType
from typing import TYPE_CHECKING

from rowmill.limits.client import LimitClient
from rowmill.limits.grants import CallRefused, Grant, outcome_of
from rowmill.model.errors import Limited
from rowmill.model.limits import Amount, RefusalReason, exact
from rowmill.store.limits.asks import Outcome

if TYPE_CHECKING:
    from rowmill.limits.limit import Limit

TINY = 0.001
TRIES = 5
"""How often `together` asks again for permits that expired while it waited for the others."""


class Call:
    """A permit for one call, held for the time of the block. See `Limit.call`."""

    def __init__(self, limit: "Limit", key: str, cost: Amount, wait: float) -> None:
        self.limit, self.key = limit, key
        self._estimate, self._wait = exact(cost), wait
        self._actual: int | None = None
        self._grant: Grant | None = None
        self._open: AbstractAsyncContextManager[LimitClient] | None = None
        self._client: LimitClient | None = None

    def cost(self, actual: Amount) -> None:
        """Report the actual cost. Without a report, the call counts with its estimated cost."""
        self._actual = exact(actual)

    @property
    def lost(self) -> bool:
        """True if the permit expired during the call, because this process did not renew it for longer than its
        lease."""
        return self._grant is not None and self._grant.lost

    @property
    def fresh(self) -> bool:
        """True while the call may still start. A provider that counts calls per period would count a late one in the
        next period."""
        return self._grant is not None and time.monotonic() <= self._grant.fresh_until

    @property
    def fresh_for(self) -> float:
        """Seconds for which a permit of this limit may be used."""
        rate = self.limit.rate
        return self.limit.terms.rules.lease if rate is None else rate.fresh

    async def __aenter__(self) -> "Call":
        self._open = self.limit.host.client()
        self._client = await self._open.__aenter__()
        try:
            self._grant = await self._granted(self._client)
        except BaseException as error:
            await self._open.__aexit__(type(error), error, error.__traceback__)
            raise
        return self

    async def _granted(self, client: LimitClient) -> Grant:
        self.limit.check(self._estimate)
        until = time.monotonic() + self._wait
        while True:
            left = max(until - time.monotonic(), 0.0)
            [answer] = await client.take(
                self.limit.terms, self.key, 1, [self._estimate], hold=int(left > 0), horizon=left
            )
            if isinstance(answer, CallRefused):
                if not answer.stays:
                    raise Limited(self.limit.name, self.key, answer.reason, answer.wait)
                await asyncio.sleep(answer.soon + TINY)
            elif time.monotonic() <= answer.fresh_until:
                return answer
            else:  # too old: this process was blocked in the meantime
                client.end_soon([answer], "unused")

    async def ask_again(self) -> None:
        """Give back a permit that is too old to use, and ask for a new one."""
        assert self._client is not None
        grant, self._grant = self._grant, None
        if grant is not None:
            self._client.end_soon([grant], "unused")
        self._grant = await self._granted(self._client)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        outcome, seconds = outcome_of(error)
        await self.end(outcome, seconds)

    async def give_back(self) -> None:
        """Give back the permit of a call that was not made."""
        await self.end("unused", 0.0)

    async def end(self, outcome: Outcome, seconds: float) -> None:
        """Report the end of the call. A cancellation of the caller does not cancel the report."""
        assert self._client is not None
        assert self._open is not None
        grant, self._grant = self._grant, None
        try:
            task = None
            if grant is not None:
                task = self._client.end_soon([grant], outcome, cost=self._actual, seconds=seconds)
            if task is not None:
                await asyncio.shield(task)
        finally:
            await self._open.__aexit__(None, None, None)

    def __enter__(self) -> "Call":
        host = self.limit.host
        host.from_thread(self.__aenter__)
        try:
            while not self.fresh:  # this thread was blocked after the loop had the permit
                host.from_thread(self.ask_again)
        except BaseException:
            host.from_thread(self.give_back)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.limit.host.from_thread(lambda: self.__aexit__(kind, error, trace))


class Together:
    """Several calls as one block: either all of them get a permit, or none is made."""

    def __init__(self, calls: Sequence[Call]) -> None:
        # Always in the same order: two callers that wait for each other would wait forever.
        self._calls = sorted(calls, key=lambda call: (call.limit.name, call.key))
        self._given = tuple(calls)

    async def __aenter__(self) -> tuple[Call, ...]:
        async with AsyncExitStack() as entered:  # gives all permits back on any error or cancellation
            for call in self._calls:
                await call.__aenter__()
                entered.push_async_callback(call.give_back)
            await self._renew_old_permits()
            entered.pop_all()
        return self._given

    async def _renew_old_permits(self) -> None:
        """Ask again for permits that became too old while this block waited for the others."""
        for _ in range(TRIES):
            stale = [call for call in self._calls if not call.fresh]
            if not stale:
                return
            for call in sorted(stale, key=lambda call: -call.fresh_for):  # the shortest-lived last
                await call.ask_again()
        if stale := [call for call in self._calls if not call.fresh]:
            raise Limited(stale[0].limit.name, stale[0].key, RefusalReason.RATE, TINY)

    async def _give_back(self) -> None:
        for call in self._calls:
            await call.give_back()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        outcome, seconds = outcome_of(error)
        async with AsyncExitStack() as entered:
            for call in self._calls:
                entered.push_async_callback(call.end, outcome, seconds)

    def __enter__(self) -> tuple[Call, ...]:
        host = self._calls[0].limit.host
        host.from_thread(self.__aenter__)
        try:
            while not all(call.fresh for call in self._calls):
                host.from_thread(self._renew_old_permits)
        except BaseException:
            host.from_thread(self._give_back)
            raise
        return self._given

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._calls[0].limit.host.from_thread(lambda: self.__aexit__(kind, error, trace))


def together(*calls: Call) -> Together:
    """Open one block for a call that needs permits from several limits. If one limit refuses, the permits of the others
    are given back."""
    if not calls:
        raise ValueError("together() needs at least one call, as in together(eqc.call(), model.call(key=tenant))")
    return Together(calls)
