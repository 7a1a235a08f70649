"""The limits of a handler. The worker asks for permits for many rows in one request."""

import asyncio
import math
import time
from collections.abc import Callable, Sequence
from typing import Any

from rowmill.limits.client import LimitClient
from rowmill.limits.grants import CallRefused, Grant, PermitResult, outcome_of
from rowmill.limits.limit import HandlerLimit, Limit
from rowmill.model.errors import Limited
from rowmill.model.lease import Lease
from rowmill.model.limits import PASSING
from rowmill.model.permits import HORIZON, GateClosed, NotPermitted

REVOKED_SECONDS = 120.0
"""Seconds for which this process remembers that a provider refused calls."""
LONGEST_CLOSED = 2.0
"""Seconds after which the gate asks again whether a limit has permits: an operator may have switched it on."""


class LimitGate:
    """Takes permits for the rows of one stage, in one process."""

    def __init__(self, declared: Sequence[HandlerLimit | Limit], client: Callable[[], LimitClient]) -> None:
        given = [one.by() if isinstance(one, Limit) else one for one in declared]
        # Always in the same order, so that two workers do not take the same limits from each other forever.
        self.declared = sorted(given, key=lambda one: one.limit.name)
        self._client = client
        self._permits: dict[Lease[Any], tuple[Grant, ...]] = {}
        self._closed: dict[str, tuple[float, bool]] = {}
        """Limits without a key that refused: until when on the monotonic clock, and whether the reason passes by
        itself."""
        self._rated = [one.limit.rate for one in self.declared if one.limit.rate is not None]
        self._ticketed = any(one.limit.terms.rules.ticketed for one in self.declared)
        self.revoked: Callable[[], None] = lambda: None
        self._revoked_at: dict[tuple[str, str], float] = {}
        self._refused_at = -math.inf
        """When a row was last refused."""
        self._late = 0.0
        """Extra seconds in which the last permits may be used."""
        self._plain = [one for one in self.declared if one.key is None and (one.limit.rate or one.limit.concurrent)]
        self._full = False

    @property
    def ahead(self) -> float:
        """Seconds for which permits may be taken ahead. A slot or a share of a budget blocks other workers, so it is
        taken only for rows that start at once."""
        if self._ticketed:
            return 0.0
        return (min((rate.fresh for rate in self._rated), default=HORIZON) + self._late) / 2

    @property
    def most(self) -> int | None:
        """The most rows worth a request: all that the limit allows at once, or, while it refuses rows, those that it
        will allow soon."""
        return min(
            (soon_free(one.limit) if self._full else all_at_once(one.limit) for one in self._plain), default=None
        )

    @property
    def shared(self) -> Sequence[str]:
        return [one.limit.name for one in self.declared if one.key is None]

    def closed_reason(self) -> GateClosed | None:
        now = time.monotonic()
        for name, (until, passing) in list(self._closed.items()):
            if until > now:
                return GateClosed(until - now, passing)
            del self._closed[name]
        return None

    async def admit(self, leases: Sequence[Lease[Any]]) -> tuple[list[NotPermitted], float]:
        held: list[NotPermitted] = []
        rest = list(leases)
        if not self._permits.keys().isdisjoint(rest):
            for lease in rest:
                self.forgo(lease)
        full, fresh = False, math.inf
        for one in self.declared:
            if not rest:
                break
            refused, until = await self._ask(one, rest)
            fresh = min(fresh, until)
            if refused:
                full = full or one.key is None
                for each in refused:
                    self.forgo(each.lease)
                held += refused
                gone = {each.lease for each in refused}
                rest = [lease for lease in rest if lease not in gone]
        self._full = full or (self._full and not rest)
        return held, fresh

    async def _ask(self, one: HandlerLimit, leases: list[Lease[Any]]) -> tuple[list[NotPermitted], float]:
        """Ask one limit. Return the refused rows, and until when the permits of the others may be used."""
        held: list[NotPermitted] = []
        if one.key is None and not callable(one.cost):
            asked = {"": leases}
            amounts = {"": [one.amount_of(None)] * len(leases)}
        else:
            asked, amounts = self._by_key(one, leases, held)
        answers, late, fresh = await self._take(one.limit, asked, amounts), math.inf, math.inf
        for (key, rows), found in zip(asked.items(), answers, strict=True):
            for lease, answer in zip(rows, found, strict=True):
                if isinstance(answer, Grant):
                    self._permits[lease] = (*self._permits.get(lease, ()), answer)
                else:
                    held.append(self._refused(lease, one, key, answer))
            if isinstance(found[0], Grant):
                late, fresh = min(late, found[0].taken.late), min(fresh, found[0].fresh_until)
        self._late = 0.0 if late == math.inf else late
        return held, fresh

    async def _take(
        self, limit: Limit, asked: dict[str, list[Lease[Any]]], amounts: dict[str, list[int]]
    ) -> list[list[PermitResult]]:
        """Ask for each key. Permits that arrive after the provider refused further calls are given back."""
        client, hold = self._client(), soon_free(limit)
        while True:
            began, late = time.monotonic(), self._may_be_late(limit)
            questions = [
                asyncio.ensure_future(client.take(
                    limit.terms, key, len(rows), amounts[key],
                    hold=min(hold, len(rows)), horizon=HORIZON, late=late,
                ))
                for key, rows in asked.items()
            ]  # fmt: skip
            found, wanted = None, False
            try:
                found = await asyncio.gather(*questions)
                wanted = all(self._revoked_at.get((limit.name, key), -math.inf) < began for key in asked)
            finally:
                if not wanted:
                    for question in questions:
                        self._discard(question)
            if wanted:
                return found

    def _discard(self, question: "asyncio.Future[list[PermitResult]]") -> None:
        """Give back the permits of a request, also those that are still to come."""
        if not question.done():
            question.cancel()
        elif not question.cancelled() and question.exception() is None:
            self._client().give_back(question.result())

    def _may_be_late(self, limit: Limit) -> float:
        """Extra seconds in which permits may be used. They stay counted for longer, so none are asked for while the
        limit refuses rows."""
        if self._ticketed or limit.rate is None or time.monotonic() < self._refused_at + 3 * limit.rate.reach:
            return 0.0
        return limit.rate.late

    def _by_key(
        self, one: HandlerLimit, leases: list[Lease[Any]], held: list[NotPermitted]
    ) -> tuple[dict[str, list[Lease[Any]]], dict[str, list[int]]]:
        """Group rows and their costs by the limit's key. Rows whose key or cost can't be computed go to `held`."""
        rows: dict[str, list[Lease[Any]]] = {}
        amounts: dict[str, list[int]] = {}
        for lease in leases:
            try:
                key, cost = one.key_of(lease.row), one.amount_of(lease.row)
                one.limit.check(cost)
            except Exception as error:  # raised by the user's key or cost function, or above the whole budget
                held.append(NotPermitted(lease, 0.0, "", "", raised=error))
                continue
            rows.setdefault(key, []).append(lease)
            amounts.setdefault(key, []).append(cost)
        return rows, amounts

    def _refused(self, lease: Lease[Any], one: HandlerLimit, key: str, refusal: CallRefused) -> NotPermitted:
        self._refused_at = time.monotonic()
        stays = refusal.stays and refusal.wait <= HORIZON
        if one.key is None and not stays:
            until = time.monotonic() + min(refusal.soon, LONGEST_CLOSED)
            self._closed[one.limit.name] = (until, refusal.reason in PASSING)
        told = Limited(one.limit.name, key, refusal.reason, refusal.wait)
        return NotPermitted(lease, refusal.wait, told.code, str(told), stays)

    def ready(self, lease: Lease[Any]) -> bool:
        return time.monotonic() <= self.fresh_until(lease)

    def fresh_until(self, lease: Lease[Any]) -> float:
        permits = self._permits.get(lease)
        if permits is None:
            return 0.0
        return permits[0].fresh_until if len(permits) == 1 else min(grant.fresh_until for grant in permits)

    def finish(self, lease: Lease[Any], raised: BaseException | None) -> None:
        permits = self._permits.pop(lease, None)
        if permits is None or (raised is None and len(permits) == 1 and permits[0].plain):
            return
        outcome, seconds = outcome_of(raised)
        keys = {(grant.terms.rules.name, grant.key) for grant in permits}
        self._client().end_soon(permits, outcome, seconds=seconds, opened=lambda: self._revoke(keys))
        if outcome in ("limited", "refused"):
            self._revoke(keys)

    def _revoke(self, refused: set[tuple[str, str]]) -> None:
        """Give back all permits for a provider that refuses further calls."""
        for lease, permits in list(self._permits.items()):
            if any((grant.terms.rules.name, grant.key) in refused for grant in permits):
                self.forgo(lease)
        now = time.monotonic()
        # Only requests under way are compared with it, and they take a minute at most.
        recent = {key: at for key, at in self._revoked_at.items() if at > now - REVOKED_SECONDS}
        self._revoked_at = recent | dict.fromkeys(refused, now)
        self.revoked()

    def forgo(self, lease: Lease[Any]) -> None:
        permits = self._permits.pop(lease, None)
        if permits is not None:
            self._client().end_soon(permits, "unused")


def soon_free(limit: Limit) -> int:
    """How many calls may get a permit within the horizon when none is free now."""
    if limit.rate is not None:
        return math.ceil(limit.rate.calls * HORIZON / limit.rate.reach) + 1
    return limit.concurrent or 1


def all_at_once(limit: Limit) -> int:
    """How many calls the limit allows at the same time."""
    bounds = (limit.rate.calls if limit.rate is not None else None, limit.concurrent)
    return min(bound for bound in bounds if bound is not None)
