"""Runs suspects: rows on their last attempt whose worker died at the attempt before. Each runs alone in the process."""

import asyncio
import random
from collections import deque
from collections.abc import Iterable
from functools import partial
from typing import Any

from sqlalchemy.exc import DBAPIError

from rowmill.model.judge import refuse
from rowmill.model.lease import Lease
from rowmill.model.queue import QueueSpec
from rowmill.model.states import Step
from rowmill.store import rescue
from rowmill.store.port import Disconnected, Store
from rowmill.worker.in_flight import InFlight
from rowmill.worker.row_runner import RowRunner
from rowmill.worker.settler import Settler

SPREAD = 2.0
"""Suspects that are given back come back within so many seconds, at random."""
SESSION = 1.0
"""Seconds for which suspects that were claimed together run one after another, before the rest is given back."""
CAREFUL = 5.0
"""Seconds after a suspect in which we claim only rows that can begin at once: the next suspect would send the others
back."""


class Suspects:
    """The suspects of one stage."""

    def __init__(
        self, store: Store, queue: QueueSpec[Any], step: Step, in_flight: InFlight, settler: Settler,
        row_runner: RowRunner, woken: asyncio.Event,
    ) -> None:  # fmt: skip
        self._store, self._queue, self._step = store, queue, step
        self._in_flight, self._settler, self._row_runner = in_flight, settler, row_runner
        self._woken = woken
        """Set when a suspect has run: there may be rows to claim."""
        self.alone: asyncio.Task[None] | None = None
        """The task of the suspect that runs alone, if there is one."""
        self._careful_until = 0.0

    def seen_recently(self, now: float) -> bool:
        """Return whether there was a suspect a moment ago."""
        return now < self._careful_until

    @property
    def running(self) -> bool:
        return self.alone is not None and not self.alone.done()

    async def set_apart(self, leases: list[Lease[Any]]) -> list[Lease[Any]]:
        """Take the suspects out of claimed rows, and run them alone; return the other rows. A suspect may have killed
        its worker, and must not take other rows with it. Suspects run one at a time: the others wait for their turn
        here, or come back a little later."""
        last = [lease for lease in leases if lease.last_attempt and lease.retry.attempts > 1]
        if not last:
            return leases
        try:
            keys = await self._store.crashed(self._queue, last)
        except Disconnected:
            keys = set()
        suspects = [lease for lease in last if lease.key in keys]
        if not suspects:
            return leases
        self._careful_until = asyncio.get_running_loop().time() + CAREFUL
        if not self._row_runner.stopping and not self.running and self._in_flight.close():
            name = f"{self._queue.name}/{self._step.name} suspect"
            self.alone = asyncio.create_task(self._try_each(suspects), name=name)
            self.alone.add_done_callback(lambda _: self._woken.set())
        else:
            self._give_back(suspects)
        return [lease for lease in leases if lease.key not in keys]

    def _give_back(self, suspects: Iterable[Lease[Any]]) -> None:
        for lease in suspects:
            self._row_runner.give_back(lease, 0.0 if self._row_runner.stopping else random.random() * SPREAD)

    async def _try_each(self, suspects: list[Lease[Any]]) -> None:
        """Run suspects one after another. Those that wait have not begun: if the one that runs kills the process,
        they are not to blame."""
        task, now, waiting = asyncio.current_task(), asyncio.get_running_loop().time, deque(suspects)
        assert task is not None
        try:
            async with self._in_flight.alone(suspects):
                until = now() + SESSION
                while waiting and not self._row_runner.stopping:
                    await self._run_alone(waiting.popleft(), task)
                    if now() >= until or self._row_runner.overdue:
                        break
        finally:
            self._give_back(waiting)
        await self._row_runner.wait_for_overdue_thread()

    async def _run_alone(self, lease: Lease[Any], task: "asyncio.Task[None]") -> None:
        # Leave first: while it is asked for, the row has not begun, and is not to blame for anything.
        if await self._row_runner.may_begin(lease) and await self._note_begun(lease):
            await self._row_runner.run([lease], task)
            self._row_runner.ran_at = asyncio.get_running_loop().time()
        await self._in_flight.settled(lease)

    async def _note_begun(self, lease: Lease[Any]) -> bool:
        """Note on the row that it begins: only a row that had begun, alone, is to blame for the death of its worker. A
        row that can't be noted must not begin: it would never be blamed, and could kill workers for ever."""
        try:
            sql = self._store.sql(self._queue)
            noted = await self._store.run(partial(rescue.note_running_alone, sql=sql, lease=lease))
        except DBAPIError as error:
            if rescue.is_refusal(error):
                why = f"the table does not let its last attempt be noted: {type(error.orig).__name__}"
                self._settler.put(refuse(lease, "move_refused", why))
            else:
                self._row_runner.give_back(lease, random.random() * SPREAD)
            return False
        except Disconnected:
            self._row_runner.give_back(lease)
            return False
        except BaseException:
            self._row_runner.give_back(lease)
            raise
        if not noted:
            self._row_runner.lose(lease)
        return noted
