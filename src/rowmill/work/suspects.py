"""Rows on their last attempt whose worker died at the one before: each is run alone, and noted as on trial."""

import asyncio
import random
from functools import partial
from typing import Any

from sqlalchemy.exc import DBAPIError

from rowmill.model.judge import refuse
from rowmill.model.lease import Lease
from rowmill.model.queue import Queue
from rowmill.model.words import Step
from rowmill.store import rescuing
from rowmill.store.port import Disconnected, Store
from rowmill.work.hand import Hand
from rowmill.work.settler import Settler
from rowmill.work.turns import Turns

SPREAD = 2.0
"""Seconds over which suspects that wait for their turn alone are spread."""
WARY = 5.0
"""Seconds after a suspect in which we claim only what can begin at once: all of it goes back for the next one."""


class Suspects:
    """The suspects of one stage."""

    def __init__(
        self, store: Store, queue: Queue[Any], step: Step, hand: Hand, settler: Settler, turns: Turns,
        woken: asyncio.Event,
    ) -> None:  # fmt: skip
        self._store, self._queue, self._step = store, queue, step
        self._hand, self._settler, self._turns = hand, settler, turns
        self._woken = woken
        """Set when a suspect has run: there may be rows to claim."""
        self.alone: asyncio.Task[None] | None = None
        """The suspect that runs alone, if there is one."""
        self._wary_until = 0.0

    def wary(self, now: float) -> bool:
        """Was there a suspect just now?"""
        return now < self._wary_until

    @property
    def running(self) -> bool:
        return self.alone is not None and not self.alone.done()

    async def set_apart(self, leases: list[Lease[Any]]) -> list[Lease[Any]]:
        """A row whose last attempt ended with the death of its worker may have killed it. Its last chance it
        gets alone, so that it can't take others with it; one at a time, the rest come back a little later."""
        last = [lease for lease in leases if lease.last_attempt and self._step.retry.attempts > 1]
        if not last:
            return leases
        try:
            keys = await self._store.crashed(self._queue, last)
        except Disconnected:
            keys = set()
        suspects = [lease for lease in last if lease.key in keys]
        if not suspects:
            return leases
        self._wary_until = asyncio.get_running_loop().time() + WARY
        if not self._turns.stopping and not self.running and self._hand.close():
            name = f"{self._queue.name}/{self._step.name} suspect"
            self.alone = asyncio.create_task(self._run_alone(suspects.pop(0)), name=name)
            self.alone.add_done_callback(lambda _: self._woken.set())
        for lease in suspects:
            self._turns.give_back(lease, random.random() * SPREAD)
        return [lease for lease in leases if lease.key not in keys]

    async def _run_alone(self, lease: Lease[Any]) -> None:
        task, waits = asyncio.current_task(), True
        assert task is not None
        try:
            async with self._hand.alone(lease):
                waits = False
                if self._turns.stopping:
                    self._turns.give_back(lease)
                elif await self._on_trial(lease):
                    await self._turns.run([lease], task)
                    self._turns.ran_at = asyncio.get_running_loop().time()
                await self._hand.settled(lease)
        except asyncio.CancelledError:
            if waits:
                self._turns.give_back(lease)
            raise
        await self._turns.rested()

    async def _on_trial(self, lease: Lease[Any]) -> bool:
        """Note that it begins: only a row that had begun, alone, is to blame for the death of its worker. One that
        can't be noted must not begin: it would be acquitted, and kill workers for ever."""
        try:
            terms = self._store.terms(self._queue)
            noted = await self._store.run(partial(rescuing.on_trial, terms=terms, lease=lease))
        except DBAPIError as error:
            if rescuing.is_refusal(error):
                why = f"the table does not let its last attempt be noted: {type(error.orig).__name__}"
                self._settler.put(refuse(lease, "move_refused", why))
            else:
                self._turns.give_back(lease, random.random() * SPREAD)
            return False
        except Disconnected:
            self._turns.give_back(lease)
            return False
        except BaseException:
            self._turns.give_back(lease)
            raise
        if not noted:
            self._turns.lose(lease)
        return noted
