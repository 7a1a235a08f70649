"""Looks into the stores, which do not misbehave for it, as soon as a document is marked ready or deleted."""

from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

import sqlalchemy as sa

from faults.knowledge.ledger import Deed, DeedLedger
from faults.knowledge.witness import read_turns
from rowmill_systems.knowledge.knowledge import Knowledge
from rowmill_systems.knowledge.models import Chunk, DocumentStatus, KbDocument, KbStatus, KnowledgeBase
from rowmill_systems.knowledge.names import collection_of, kb_of_collection

MOST = 400
"""Documents that one statement asks for."""


@dataclass(frozen=True, slots=True)
class Marked:
    """What the database says of a document."""

    id: UUID
    kb: UUID
    status: str
    indexed: int | None
    chunk_count: int | None
    object_key: str
    chunks: int


class Auditor:
    def __init__(self, knowledge: Knowledge, ledger: DeedLedger) -> None:
        self._knowledge, self._ledger = knowledge, ledger
        self._last = 0
        self._kbs: set[UUID] = set()
        self.looked = 0
        """Marks that were looked at."""

    async def look(self) -> None:
        """Look at what was marked since the last time."""
        turns = await self._knowledge.mill.run(lambda connection: read_turns(connection, self._last), write=False)
        if turns:
            self._last = turns[-1].id
        changed = {turn.document for turn in turns if turn.status in (DocumentStatus.READY, DocumentStatus.ARCHIVED)}
        for some in batches(changed):
            await self._look_at(some)
        await self._look_at_kbs()

    async def _look_at(self, documents: list[UUID]) -> None:
        before = await self._read(documents)
        points = await self._knowledge.vectors.points_of(documents)
        stored = {each.id: await self._knowledge.storage.exists(each.object_key) for each in before.values()}
        after = await self._read(documents)
        for document_id, row in before.items():
            if after.get(document_id) != row:  # it has changed meanwhile: its next mark is looked at
                continue
            counts: dict[int | None, int] = {}
            for place, count in points[document_id].counts.items() if document_id in points else ():
                if place.collection == collection_of(row.kb):
                    counts[place.generation] = counts.get(place.generation, 0) + count
            self._judge(row, counts, is_stored=stored[document_id])
            self.looked += 1

    def _judge(self, row: Marked, counts: dict[int | None, int], *, is_stored: bool) -> None:
        if row.status == DocumentStatus.READY:
            if counts.get(row.indexed, 0) != row.chunk_count:
                self._found(row, f"was marked ready with {counts.get(row.indexed, 0)} points of {row.chunk_count}")
            if row.chunks != row.chunk_count:
                self._found(row, f"was marked ready with {row.chunks} passages of {row.chunk_count}")
            if not is_stored:
                self._found(row, "was marked ready without its bytes")
        elif row.status == DocumentStatus.ARCHIVED:
            if counts:
                self._found(row, f"was marked deleted with {sum(counts.values())} points", may_be_late=True)
            if row.chunks:
                self._found(row, f"was marked deleted with {row.chunks} passages")
            if is_stored:
                self._found(row, "was marked deleted with its bytes")

    def _found(self, row: Marked, what: str, *, may_be_late: bool = False) -> None:
        self._ledger.say(Deed.FOUND, self._ledger.number(), document=row.id, what=what, may_be_late=may_be_late)

    async def _look_at_kbs(self) -> None:
        """Look for collections of knowledge bases that were marked deleted."""
        archived = sa.select(KnowledgeBase.id).where(KnowledgeBase.status == KbStatus.ARCHIVED)
        gone = await self._knowledge.mill.run(lambda c: set(c.scalars(archived)), write=False)
        if new := gone - self._kbs:
            self._kbs |= new
            there = {kb_of_collection(each.name) async for each in self._knowledge.vectors.collections()}
            for kb_id in new & there:
                what = "was marked deleted with its collection"
                self._ledger.say(Deed.FOUND, self._ledger.number(), kb=kb_id, what=what, may_be_late=True)

    async def _read(self, documents: list[UUID]) -> dict[UUID, Marked]:
        visible = sa.or_(
            KbDocument.status == DocumentStatus.ARCHIVED, Chunk.generation == KbDocument.indexed_generation
        )
        chunks = sa.select(sa.func.count()).where(Chunk.document_id == KbDocument.id, visible).scalar_subquery()
        wanted = sa.select(
            KbDocument.id, KbDocument.kb_id, KbDocument.status, KbDocument.indexed_generation, KbDocument.chunk_count,
            KbDocument.object_key, chunks,
        ).where(KbDocument.id.in_(documents))  # fmt: skip
        rows = await self._knowledge.mill.run(lambda connection: connection.execute(wanted).all(), write=False)
        return {row[0]: Marked(*row) for row in rows}


def batches(documents: Iterable[UUID]) -> Iterable[list[UUID]]:
    ordered = sorted(documents)
    return (ordered[first : first + MOST] for first in range(0, len(ordered), MOST))
