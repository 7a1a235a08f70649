"""What is done to the processes and the stores of a run."""

import asyncio
import random
import sqlite3
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import closing, suppress
from functools import partial
from uuid import UUID

import psycopg
import sqlalchemy as sa
from sqlalchemy.engine import make_url

import rowmill as rm
from faults.knowledge.crew import Crew
from faults.knowledge.ledger import Deed, DeedLedger
from faults.knowledge.plan import Fault, StorePlan
from faults.knowledge.site import LEASE, UPLOAD_SECONDS, KnowledgeSite
from faults.knowledge.stores import SLOW_SECONDS
from faults.scenarios.server import FLEET
from rowmill_systems.knowledge.bases import request_kb_deletion
from rowmill_systems.knowledge.events.beginning import EMBEDDING
from rowmill_systems.knowledge.knowledge import Knowledge
from rowmill_systems.knowledge.models import KbDocument

Card = Callable[[], Awaitable[None]]
NEEDED = ("workers killed", "clients killed", "comparers killed", "workers frozen", "clients frozen")
"""Faults that need a process which is up. All others happen in every run."""
FAULT_SECONDS = (0.8, 2.5)
FREEZE_SECONDS = (LEASE * 1.2, LEASE * 2)
LONG_FREEZE_SECONDS = (LEASE * 3, LEASE * 4)
"""Until the collection of a deleted knowledge base has been dropped."""
PAUSE_SECONDS = (0.1, 0.5)
HELD_SECONDS = 1.0
MOST_DELETED = 2
"""Knowledge bases that are deleted at once."""
STORE_FAULTS = (Fault.OUTAGE, Fault.SLOW, Fault.LOST_ANSWERS, Fault.BROKEN_OFF, Fault.LIES, Fault.LIES)
TERMINATE = f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {FLEET} AND random() < 0.5"

assert FREEZE_SECONDS[1] < UPLOAD_SECONDS


class Torment:
    """Goes through all faults in a random order, again and again."""

    def __init__(self, site: KnowledgeSite, crew: Crew, knowledge: Knowledge, ledger: DeedLedger, seed: int) -> None:
        self._site, self._crew, self._knowledge, self._ledger = site, crew, knowledge, ledger
        self._chance = random.Random(f"{seed}:torment")
        self._plan = site.plan
        self.dose: Counter[str] = Counter()
        self._thaws: set[asyncio.Task[None]] = set()

    async def run(self, over: Callable[[], bool]) -> None:
        """Harm until it is over, and until every fault has happened."""
        deck: list[Card] = []
        while not over() or deck:
            if not deck:
                deck = self._deck()
            await deck.pop()()
            self._crew.look()
            await asyncio.sleep(self._chance.uniform(*PAUSE_SECONDS))
        self._plan.write(StorePlan())
        for thaw in list(self._thaws):
            await thaw

    def _deck(self) -> "list[Card]":
        roles = [("worker", self._kill, 4), ("client", self._kill, 1), ("comparer", self._kill, 1)]
        roles += [("worker", self._freeze, 3), ("client", self._freeze, 1)]
        deck: list[Card] = [partial(harm, role) for role, harm, times in roles for _ in range(times)]
        deck += [partial(self._misbehave, store, fault) for store in ("objects", "vectors") for fault in STORE_FAULTS]
        deck += [self._disturb_database, self._disturb_database, self._delete_under_frozen]
        self._chance.shuffle(deck)
        return deck

    async def _kill(self, role: str) -> None:
        if self._crew.kill(role):
            self.dose[f"{role}s killed"] += 1

    async def _freeze(self, role: str, seconds: tuple[float, float] = FREEZE_SECONDS) -> None:
        """Freeze one past its lease. It wakes up while other things go wrong."""
        member = self._crew.pick(role)
        if member is None:
            return
        member.freeze()
        self.dose[f"{role}s frozen"] += 1

        async def thaw() -> None:
            await asyncio.sleep(self._chance.uniform(*seconds))
            member.wake()

        task = asyncio.create_task(thaw())
        self._thaws.add(task)
        task.add_done_callback(self._thaws.discard)

    async def _delete_under_frozen(self) -> None:
        """Delete the knowledge base of a document whose worker is frozen between two steps, right before a write."""
        self._plan.write(StorePlan(vectors=Fault.SLOW))
        await asyncio.sleep(SLOW_SECONDS)
        await self._freeze("worker", LONG_FREEZE_SECONDS)
        self._plan.write(StorePlan())
        with suppress(rm.errors.RowmillError):  # sessions may just have been terminated
            for kb_id in await self._knowledge.mill.run(kbs_at_work, write=False):
                number = self._ledger.number()
                self._ledger.say(Deed.DELETE_KB, number, kb=kb_id)
                await request_kb_deletion(self._knowledge, kb_id)
                self._ledger.say(Deed.DELETE_KB, number, ended=True, kb=kb_id)
                self.dose["knowledge bases deleted under frozen workers"] += 1

    async def _misbehave(self, store: str, fault: Fault) -> None:
        self._plan.write(StorePlan(**{store: fault}))
        self.dose[f"{fault} of {store}"] += 1
        await asyncio.sleep(self._chance.uniform(*FAULT_SECONDS))
        self._plan.write(StorePlan())

    async def _disturb_database(self) -> None:
        url = make_url(self._site.database)
        if url.get_backend_name() == "sqlite":
            await asyncio.to_thread(hold_file, str(url.database))
            self.dose["times that the database was held"] += 1
        else:
            self.dose["sessions terminated"] += await asyncio.to_thread(end_sessions, self._site.database)


def kbs_at_work(connection: sa.Connection) -> Sequence[UUID]:
    """Return knowledge bases of documents that are being embedded."""
    embedded = sa.select(KbDocument.kb_id).where(KbDocument.stage == EMBEDDING, KbDocument.status == "processing")
    return connection.scalars(embedded.distinct().limit(MOST_DELETED)).all()


def hold_file(path: str) -> None:
    """Hold the only right to write, as an operator with a shell may do."""
    with closing(sqlite3.connect(path, isolation_level=None, timeout=30.0)) as foreign:
        foreign.execute("BEGIN IMMEDIATE")
        time.sleep(HELD_SECONDS)
        foreign.execute("ROLLBACK")


def end_sessions(url: str) -> int:
    """End half of the sessions of the server, but none of the lab's own. Return how many."""
    with psycopg.connect(url, autocommit=True, application_name="lab") as connection:
        return len(connection.execute(TERMINATE).fetchall())
