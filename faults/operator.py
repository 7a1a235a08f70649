"""One operator of the lab: `python -m faults.operator`. Never outlives who started it.

Does all that the command line offers, in turns, to the tables that workers are at: puts rows back, cancels and prunes
them, rescues, pauses and resumes, drops indexes and has them made again, and counts. What it is about to do and what it
was answered stands in its ledger.
"""

import argparse
import asyncio
import os
import random
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from functools import partial
from itertools import count
from pathlib import Path
from time import time
from typing import Any

import sqlalchemy as sa

import rowmill as rm
from faults.broken import GUARDS
from faults.ledger import Ledger, What
from faults.operations import Verb
from faults.worker import URL_VARIABLE, WorkerFaults
from faults.world import KEEP, World, world
from rowmill import adopt
from rowmill.demo.worker import die_with_parent
from rowmill.model.lifecycle import FINAL, StateKind
from rowmill.operator import change, counts
from rowmill.operator.filters import Filter
from rowmill.store import indexes
from rowmill.store import rescue as rescuing
from rowmill.store.own import fleet
from rowmill.store.port import Disconnected

SOME = 10
"""Rows that one action changes, or from which it chooses."""
PAUSED = 0.6
"""Least seconds that a queue is paused. Workers learn of it with their next heartbeat."""
LEGACY = "faults_legacy"
"""A table that is not a queue yet."""


Act = Callable[[rm.Queue[Any]], Awaitable[None]]


class Operator:
    def __init__(self, made: World, chance: random.Random, ledger: Ledger) -> None:
        self._made, self._store, self._chance, self._ledger = made, made.mill.store, chance, ledger
        self._numbers = count(1)

    async def work(self, stopped: asyncio.Event) -> None:
        """Run all actions in turn until stopped: on rows and on tables. First resume what another operator left
        paused."""
        await self.resume_all()
        rows = (
            self.requeue_some, self.requeue_dead, self.cancel_paused, self.prune, self.requeue_some, self.rescue,
            self.count,
        )  # fmt: skip
        tables = (self.migrate, self.adopt_again, self.adopt_legacy)
        await asyncio.gather(self._in_turns(rows, stopped), self._in_turns(tables, stopped))
        await self.resume_all()

    async def _in_turns(self, acts: Sequence[Act], stopped: asyncio.Event) -> None:
        while not stopped.is_set():
            for act in self._chance.sample(acts, len(acts)):
                if stopped.is_set():
                    break
                with suppress(Disconnected):  # the file is locked for longer than one waits
                    await act(self._chance.choice(self._made.queues))
                await asyncio.sleep(self._chance.uniform(0.01, 0.1))

    async def resume_all(self) -> None:
        paused = await self._store.run(
            lambda connection: [queue for queue in self._made.queues if fleet.paused(connection, queue)], write=False
        )
        for queue in paused:
            await self.resume(queue)

    async def requeue_some(self, queue: rm.Queue[Any]) -> None:
        """Requeue rows in any state. Running ones must stay with their workers."""
        keys = await self._keys(queue)
        if keys:
            async with self._telling(Verb.REQUEUE, queue, keys) as answer:
                answer(await queue.requeue(*keys))

    async def requeue_dead(self, queue: rm.Queue[Any]) -> None:
        async with self._telling(Verb.REQUEUE, queue) as answer:
            answer((await change.requeue(self._store, queue, Filter(states=("dead",)), most=SOME)).rows)

    async def cancel_paused(self, queue: rm.Queue[Any]) -> None:
        """Cancel rows of a paused queue, where nothing is claimed."""
        async with self._telling(Verb.PAUSE, queue):
            await self._store.run(lambda connection: fleet.pause(connection, queue))
        await asyncio.sleep(PAUSED)
        async with self._telling(Verb.CANCEL, queue) as answer:
            answer((await change.cancel(self._store, queue, Filter(), most=SOME)).rows)
        await self.resume(queue)

    async def resume(self, queue: rm.Queue[Any]) -> None:
        async with self._telling(Verb.RESUME, queue) as answer:
            answer(await self._store.run(lambda connection: fleet.resume(connection, queue)))
            await self._store.notify_workers([queue])

    async def prune(self, queue: rm.Queue[Any]) -> None:
        """Prune rows in any state. Unfinished ones must stay."""
        keys = await self._keys(queue)
        if keys:
            async with self._telling(Verb.PRUNE, queue, keys) as answer:
                wanted, old = Filter(keys=tuple(map(str, keys))), timedelta(seconds=KEEP)
                answer((await change.prune(self._store, queue, wanted, old)).rows)

    async def rescue(self, queue: rm.Queue[Any]) -> None:
        async with self._telling(Verb.RESCUE, queue) as answer:
            sql, rows = self._store.sql(queue), 0
            for step in queue.steps:
                found = await self._store.run(partial(rescuing.rescue, sql=sql, step=step, most=SOME))
                rows += found.returned + found.buried
            answer(rows)
            await change.notify_ready(self._store, queue)

    async def migrate(self, queue: rm.Queue[Any]) -> None:
        """Drop an index, and let `migrate` create it again."""
        await self._drop_index(queue)
        async with self._telling(Verb.MIGRATE, queue):
            await self._made.mill.migrate()

    async def adopt_again(self, queue: rm.Queue[Any]) -> None:
        """Drop an index, and let `adopt` create it again while workers run."""
        await self._drop_index(queue)
        sql = self._store.sql(queue)
        async with self._telling(Verb.PLAN, queue) as answer:
            found = await self._store.run(lambda connection: adopt.examine_queue(connection, sql, queue))
            answer(len(found.plan.changes))
        async with self._telling(Verb.ADOPT, queue) as answer:
            await adopt.carry_out(self._store, found.plan)
            answer(len(found.plan.changes))

    async def adopt_legacy(self, queue: rm.Queue[Any]) -> None:
        """Adopt a table that is not a queue yet."""
        await self._store.run(_make_legacy)
        async with self._telling(Verb.PLAN, queue) as answer:
            found = await self._store.run(lambda connection: adopt.examine_table(connection, LEGACY))
            answer(len(found.plan.changes))
        async with self._telling(Verb.ADOPT, queue) as answer:
            await adopt.carry_out(self._store, found.plan)
            answer(len(found.plan.changes))

    async def count(self, queue: rm.Queue[Any]) -> None:
        async with self._telling(Verb.COUNT, queue) as answer:
            sql = self._store.sql(queue)
            found = await self._store.run(lambda connection: counts.counts(connection, sql), write=False)
            answer(sum(state.rows for state in found))

    async def _drop_index(self, queue: rm.Queue[Any]) -> None:
        chosen = self._chance.choice(indexes.queue_indexes(self._store.sql(queue)))
        await self._store.run(
            lambda connection: connection.exec_driver_sql(f"DROP INDEX IF EXISTS {chosen.name}").close()
        )

    async def _keys(self, queue: rm.Queue[Any]) -> list[int]:
        """Return a few keys each of running rows, of rows that finished long ago, and of the newest rows."""
        key, state = queue.table.c.id, queue.table.c.state
        running = [str(word) for word in queue.vocabulary.of(StateKind.RUNNING)]
        final = [str(word) for word in queue.vocabulary.all_of(FINAL)]
        wanted = (
            sa.select(key).where(state.in_(running)).order_by(key.desc()).limit(SOME),
            sa.select(key).where(state.in_(final)).order_by(key).limit(SOME),
            sa.select(key).order_by(key.desc()).limit(SOME),
        )
        found = await self._store.run(
            lambda connection: [list(connection.scalars(some).all()) for some in wanted], write=False
        )
        return sorted({key for keys in found for key in self._chance.sample(keys, min(SOME // 2, len(keys)))})

    @asynccontextmanager
    async def _telling(
        self, verb: Verb, queue: rm.Queue[Any], keys: Sequence[int] = (0,)
    ) -> AsyncIterator[Callable[[int], None]]:
        """Log an action before it starts, and the number of changed rows afterwards; nothing if it failed."""
        number, rows = next(self._numbers), 0

        def answer(changed: int) -> None:
            nonlocal rows
            rows = changed

        entry = self._ledger.entry
        self._ledger.say_all([entry(What.OPERATE, queue.name, key, time(), number, "", verb) for key in keys])
        yield answer
        self._ledger.say_all([entry(What.OPERATED, queue.name, 0, time(), number, "", verb, rows)])


def _make_legacy(connection: sa.Connection) -> None:
    connection.exec_driver_sql(f"DROP TABLE IF EXISTS {LEGACY}")
    connection.exec_driver_sql(
        f"CREATE TABLE {LEGACY} (id integer PRIMARY KEY, status varchar(20) NOT NULL DEFAULT 'pending', title text)"
    )
    for key, word in enumerate(("pending", "processing", "completed", "failed"), start=1):
        connection.exec_driver_sql(f"INSERT INTO {LEGACY} (id, status) VALUES ({key}, '{word}')")


async def operate_on(url: str, seed: int, ledger: Ledger) -> None:
    made = world(url)
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    async with made.mill.opened():
        print("up", flush=True)
        await Operator(made, random.Random(f"{seed}:{os.getpid()}"), ledger).work(stopped)


def main() -> None:
    die_with_parent()
    options = argparse.ArgumentParser()
    options.add_argument("--seed", type=int, required=True)
    options.add_argument("--ledger", type=Path, required=True)
    given = options.parse_args()
    if broken := WorkerFaults.by_environment().broken:
        GUARDS[broken]()
    asyncio.run(operate_on(os.environ[URL_VARIABLE], given.seed, Ledger(given.ledger)))


if __name__ == "__main__":
    main()
