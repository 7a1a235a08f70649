"""A limit, as an application declares it."""

import os
import uuid
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from sqlalchemy import Connection

from rowmill.limits.answers import terms_of
from rowmill.limits.call import Call
from rowmill.limits.desk import LimitClient
from rowmill.limits.state import LimitState, state_of
from rowmill.model.errors import PermanentError
from rowmill.model.limits import Amount, Breaker, Budget, LimitDeclaration, Rate, exact
from rowmill.store.limits import declarations, views
from rowmill.store.limits.views import EVERY

if TYPE_CHECKING:
    from collections.abc import Coroutine

T = TypeVar("T")
RUN = "ROWMILL_RUN"
NO_KEY = "(none)"
"""The key of rows that have none. What is kept under no key at all holds for every key."""
LONGEST_KEY = 500
"""An index of PostgreSQL's takes 2,700 bytes, with the name."""


class Host(Protocol):
    """Where limits live: a mill."""

    def desk(self) -> AbstractAsyncContextManager[LimitClient]:
        """The desk of the loop that runs, with its database open for the time of the block."""

    def from_thread(self, work: "Callable[[], Coroutine[Any, Any, T]]") -> T:
        """Do something on a loop, from a thread without one."""

    async def run(self, work: Callable[[Connection], T], *, write: bool = True) -> T:
        """Run a function on a connection, in a transaction of its own."""


class Limit:
    """Calls to one provider, limited for the whole fleet. Made by `Mill.limit`."""

    def __init__(
        self,
        name: str,
        host: Host,
        *,
        rate: Rate | None = None,
        concurrent: int | None = None,
        budget: Budget | None = None,
        breaker: Breaker | None = None,
        lease: float = 30.0,
    ) -> None:
        self.name, self.host = name, host
        self.rate, self.concurrent, self.budget = rate, concurrent, budget
        declared = LimitDeclaration(rate, concurrent, budget, breaker)
        self.terms = terms_of(name, declared, lease, os.environ.get(RUN) or uuid.uuid4().hex)

    def call(self, key: object = "", *, cost: Amount = 1, wait: float = 0.0) -> Call:
        """Room for one call, for the time of the block; `cost` is what it may cost at the most.

        If there is none within `wait` seconds, `Limited` is raised. A handler lets it pass: its row goes back until
        its turn, and has not failed. Raise `RateLimited`, `ProviderDown` or `ProviderRefused` inside the block, and
        the whole fleet knows how the provider is.
        """
        return Call(self, checked_key(str(key)), cost, wait)

    def by(
        self, key: str | Callable[[Any], object] | None = None, *, cost: Amount | Callable[[Any], Amount] = 1
    ) -> "HandlerLimit":
        """This limit for `@queue.handler(limits=[…])`, per value of a column or by a function of the row."""
        if not callable(cost):
            self.check(exact(cost))
        return HandlerLimit(self, key, cost)

    def check(self, amount: int) -> None:
        """What costs more than the whole budget would wait for ever."""
        rules = self.terms.rules
        if rules.budget and amount > rules.budget:
            raise PermanentError(f"one call costs more than the whole budget of {self.name}", code="over_budget")

    def begin_run(self, run: str) -> None:
        """From now on this process works for the run of that name: a budget per run begins anew. Processes that name
        the same run share it; ROWMILL_RUN in their environment does the same."""
        self.terms = replace(self.terms, run=run)

    async def state(self, key: object = "") -> LimitState:
        """How it stands. A handler may look, and ask somebody else instead."""

        def look(connection: Connection) -> LimitState:
            holds = declarations.holding(connection, self.name) or self.terms.declared
            return state_of(holds, self.terms.run, views.view(connection, self.name, str(key)))

        return await self.host.run(look, write=False)

    def state_now(self, key: object = "") -> LimitState:
        """`state`, for a thread."""
        return self.host.from_thread(lambda: self.state(key))

    async def park(self, seconds: float, key: object = "") -> None:
        """No calls for so long, in the whole fleet. Without a key: for every key."""
        await self.host.run(lambda connection: views.park(connection, self.name, str(key), seconds))

    async def off(self, key: object = "") -> None:
        """No calls until `on`, in the whole fleet. Without a key: for every key."""
        await self.host.run(lambda connection: views.switch_off(connection, self.name, str(key)))

    async def on(self, key: object = "") -> None:
        """Calls again: neither off nor parked, and the breaker closed. Without a key: for every key."""
        await self.host.run(lambda connection: views.switch_on(connection, self.name, str(key)))

    def __repr__(self) -> str:
        return f"<Limit {self.name}>"


def checked_key(key: str) -> str:
    """A key that every database can keep, and find."""
    if len(key) > LONGEST_KEY or "\0" in key or not encodes(key):
        raise ValueError(f"a key of a limit is text of {LONGEST_KEY} characters at the most, without NUL characters")
    return key


def encodes(text: str) -> bool:
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


@dataclass(frozen=True)
class HandlerLimit:
    """A limit of a handler: for each of its rows, under which key, at what cost."""

    limit: Limit
    key: str | Callable[[Any], object] | None = None
    cost: Amount | Callable[[Any], Amount] = 1

    def key_of(self, row: Any) -> str:
        if self.key is None:
            return EVERY
        key = getattr(row, self.key) if isinstance(self.key, str) else self.key(row)
        return NO_KEY if key is None else checked_key(str(key)) or NO_KEY

    def amount_of(self, row: Any) -> int:
        return exact(self.cost(row) if callable(self.cost) else self.cost)
