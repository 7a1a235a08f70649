"""A client: uploads, deletes and processes again documents, creates and deletes knowledge bases, as fast as they go."""

import asyncio
import os
import random
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from uuid import UUID

import sqlalchemy as sa

import rowmill as rm
from faults.knowledge.ledger import Deed, DeedLedger
from faults.knowledge.site import KnowledgeSite, new_word, text_with
from rowmill_systems.knowledge.bases import create_kb, request_kb_deletion
from rowmill_systems.knowledge.documents import request_deletion, request_reprocessing
from rowmill_systems.knowledge.knowledge import Knowledge
from rowmill_systems.knowledge.models import HIDDEN, KbDocument, KbStatus, KnowledgeBase, OutboxEvent
from rowmill_systems.knowledge.queues import UNFINISHED_EVENTS
from rowmill_systems.knowledge.uploading import upload

AT_ONCE = 4
KBS = 6
BACKLOG = 150
"""With more unfinished events, clients wait: what is deleted should have been processed before, mostly."""
LATEST = 30
LATEST_SHARE = 0.7
"""Of requests about one of the latest documents, which are just being processed."""
PASSAGES = (1, 1, 2, 4)
LONG_SHARE, LONG_PASSAGES = 0.02, 70
AGAIN_SHARE = 0.1
"""Of uploads that have the same bytes as an earlier one."""
WISHES = {Deed.UPLOAD: 52, Deed.DELETE: 27, Deed.REPROCESS: 18, Deed.CREATE_KB: 1, Deed.DELETE_KB: 2}
WAIT_SECONDS = 0.1


async def ask(site: KnowledgeSite, ledger: DeedLedger, seed: int) -> None:
    """Make requests until SIGTERM."""
    knowledge, stopping = site.knowledge(ledger), asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    async with knowledge.opened():
        print("up", flush=True)
        client = LabClient(knowledge, ledger, random.Random(f"{seed}:{os.getpid()}"))
        async with asyncio.TaskGroup() as tasks:
            for _ in range(AT_ONCE):
                tasks.create_task(client.run(stopping))


class LabClient:
    def __init__(self, knowledge: Knowledge, ledger: DeedLedger, chance: random.Random) -> None:
        self._knowledge, self._ledger, self._chance = knowledge, ledger, chance
        self._files: list[tuple[str, bytes]] = []
        """Words and texts of its latest uploads."""

    async def run(self, stopping: asyncio.Event) -> None:
        while not stopping.is_set():
            try:
                if await self._knowledge.mill.run(unfinished, write=False) > BACKLOG:
                    await asyncio.sleep(WAIT_SECONDS)
                else:
                    await self._one()
            except (rm.errors.RowmillError, sa.exc.SQLAlchemyError):
                await asyncio.sleep(WAIT_SECONDS)  # what became of it, the ledger leaves open

    async def _one(self) -> None:
        kbs = await self._knowledge.mill.run(active_kbs, write=False)
        [deed] = self._chance.choices(list(WISHES), list(WISHES.values()))
        if len(kbs) < KBS:
            deed = Deed.CREATE_KB
        kb_id = self._chance.choice(kbs) if kbs else None
        if deed is Deed.CREATE_KB or kb_id is None:
            await self._said(Deed.CREATE_KB, partial(create_kb, self._knowledge, "a knowledge base"))
        elif deed is Deed.DELETE_KB:
            await self._said(deed, partial(request_kb_deletion, self._knowledge, kb_id), kb=kb_id)
        elif deed is Deed.UPLOAD:
            await self._upload(kb_id)
        elif documents := await self._knowledge.mill.run(partial(documents_of, kb_id=kb_id), write=False):
            latest = self._chance.random() < LATEST_SHARE
            document = self._chance.choice(documents[:LATEST] if latest else documents)
            if deed is Deed.DELETE:
                await self._said(deed, partial(request_deletion, self._knowledge, document), document=document)
            else:
                await self._said(
                    deed, partial(request_reprocessing, self._knowledge, document, "lab"), document=document
                )

    async def _upload(self, kb_id: UUID) -> None:
        if self._files and self._chance.random() < AGAIN_SHARE:
            word, content = self._chance.choice(self._files)
        else:
            long, word = self._chance.random() < LONG_SHARE, new_word(self._chance)
            content = text_with(word, LONG_PASSAGES if long else self._chance.choice(PASSAGES)).encode()
            if not long:  # a search that asks for 50 passages finds one such document
                self._files = [*self._files[-50:], (word, content)]

        async def chunks() -> AsyncIterator[bytes]:
            half = len(content) // 2
            yield content[:half]
            await asyncio.sleep(0)
            yield content[half:]

        send = partial(upload, self._knowledge, kb_id, chunks(), filename=f"{word}.txt", media_type="text/plain")
        await self._said(Deed.UPLOAD, send, kb=kb_id, word=word)

    async def _said(
        self, deed: Deed, request: Callable[[], Awaitable[UUID | None]], *, kb: object = "", document: object = "",
        word: str = "",
    ) -> None:  # fmt: skip
        """Say what is asked for, ask for it, and say that it was acknowledged."""
        number = self._ledger.number()
        self._ledger.say(deed, number, kb=kb, document=document, word=word)
        made = await request()
        if deed is Deed.CREATE_KB:
            kb = made
        elif deed is Deed.UPLOAD:
            document = made
        self._ledger.say(deed, number, ended=True, kb=kb, document=document, word=word)


def unfinished(connection: sa.Connection) -> int:
    some = sa.select(OutboxEvent.id).where(OutboxEvent.state.in_(UNFINISHED_EVENTS)).limit(BACKLOG + 1).subquery()
    return connection.scalar(sa.select(sa.func.count()).select_from(some)) or 0


def active_kbs(connection: sa.Connection) -> Sequence[UUID]:
    return connection.scalars(sa.select(KnowledgeBase.id).where(KnowledgeBase.status == KbStatus.ACTIVE)).all()


def documents_of(connection: sa.Connection, kb_id: UUID) -> Sequence[UUID]:
    """Return documents that people see, the latest first."""
    seen = sa.select(KbDocument.id).where(KbDocument.kb_id == kb_id, KbDocument.status.not_in(HIDDEN))
    return connection.scalars(seen.order_by(KbDocument.created_at.desc()).limit(500)).all()
