"""A limit, as an application declares it."""

import os
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection

from rowmill.limits.call import Call
from rowmill.limits.grants import terms_of
from rowmill.limits.state import LimitState, state_of
from rowmill.model.duration import Duration, in_seconds
from rowmill.model.errors import PermanentError
from rowmill.model.limits import Amount, Breaker, Budget, LimitDeclaration, Rate, exact
from rowmill.store.limits import declarations, views
from rowmill.store.limits.views import EVERY

if TYPE_CHECKING:
    from rowmill.limits.registry import Limits

RUN = "ROWMILL_RUN"
NO_KEY = "(none)"
"""The key of rows whose key is NULL. The empty key is reserved: it means every key."""
LONGEST_KEY = 500
"""An index entry of PostgreSQL holds 2,700 bytes, including the limit's name."""


class Limit:
    """Limits calls to one provider, for the whole fleet. Made by `Mill.limit`."""

    def __init__(
        self,
        name: str,
        host: "Limits",
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

    def call(self, key: object = "", *, cost: Amount = 1, wait: Duration = 0.0) -> Call:
        """Return a block that holds a permit for one call. `cost` is the most that the call may cost.

        If no permit becomes free within `wait` seconds, it raises `Limited`. Let a handler raise it: the row goes back
        to the queue until its turn, and no attempt is counted. Raise `RateLimited`, `ProviderDown` or `ProviderRefused`
        inside the block to tell the whole fleet about the provider.
        """
        return Call(self, checked_key(str(key)), cost, in_seconds(wait))

    def by(
        self, key: str | Callable[[Any], object] | None = None, *, cost: Amount | Callable[[Any], Amount] = 1
    ) -> "HandlerLimit":
        """Use this limit in `@queue.handler(limits=[…])`, per value of a column or by a function of the row."""
        if not callable(cost):
            self.check(exact(cost))
        return HandlerLimit(self, key, cost)

    def check(self, amount: int) -> None:
        """Raise PermanentError if one call costs more than the whole budget. It would wait forever."""
        rules = self.terms.rules
        if rules.budget and amount > rules.budget:
            raise PermanentError(f"one call costs more than the whole budget of {self.name}", code="over_budget")

    def begin_run(self, run: str) -> None:
        """Start a new run: a budget per run begins again for this process. Processes that name the same run share its
        budget. The environment variable ROWMILL_RUN does the same."""
        self.terms = replace(self.terms, run=run)

    async def state(self, key: object = "") -> LimitState:
        """Return the current state of the limit. A handler may check it and use another provider instead."""

        def look(connection: Connection) -> LimitState:
            holds = declarations.holding(connection, self.name) or self.terms.declared
            return state_of(holds, self.terms.run, views.view(connection, self.name, str(key)))

        return await self.host.run(look, write=False)

    def state_now(self, key: object = "") -> LimitState:
        """`state` for code in a thread."""
        return self.host.from_thread(lambda: self.state(key))

    async def park(self, duration: Duration, key: object = "") -> None:
        """Stop calls for a duration, in the whole fleet. Without a key: for every key."""
        await self.host.run(lambda connection: views.park(connection, self.name, str(key), in_seconds(duration)))

    async def off(self, key: object = "") -> None:
        """Stop calls until `on`, in the whole fleet. Without a key: for every key."""
        await self.host.run(lambda connection: views.switch_off(connection, self.name, str(key)))

    async def on(self, key: object = "") -> None:
        """Allow calls again: end `off` and `park`, and close the circuit breaker. Without a key: for every key."""
        await self.host.run(lambda connection: views.switch_on(connection, self.name, str(key)))

    def __repr__(self) -> str:
        return f"<Limit {self.name}>"


def checked_key(key: str) -> str:
    """Return the key if both databases can store it; raise ValueError otherwise."""
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
    """A limit on a handler, with the key and the cost for each row."""

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
