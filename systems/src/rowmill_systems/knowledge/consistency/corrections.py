"""Corrections: events of the outbox, in the transaction that records that a finding was corrected.

Each looks at its row once more: what was found may be over. A correction that is not needed any more is not made, and
the next comparison closes its finding.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from rowmill import reconcile
from rowmill_systems.knowledge.consistency import kinds
from rowmill_systems.knowledge.consistency.database import is_forgotten, is_stale
from rowmill_systems.knowledge.consistency.items import document_of, id_in
from rowmill_systems.knowledge.documents import RECONCILIATION, add_reprocess
from rowmill_systems.knowledge.models import HIDDEN, DocumentStatus, KbDocument, KbStatus
from rowmill_systems.knowledge.queues import (
    DELETE,
    KB_DELETE,
    KB_REEMBED,
    REPROCESS,
    SWEEP,
    add_event,
    is_on_its_way,
)
from rowmill_systems.knowledge.rows import change_document, lock_document, read_document, read_kb

if TYPE_CHECKING:
    from rowmill_systems.knowledge.knowledge import Knowledge

Correct = Callable[[sa.Connection, reconcile.Finding], bool]
"""Corrects one finding. Returns whether it did."""


class Corrections:
    """What is done about each kind of finding that the system mends."""

    def __init__(self, knowledge: "Knowledge") -> None:
        self._knowledge = knowledge

    def by_kind(self) -> dict[str, reconcile.Correction]:
        made: list[tuple[Correct, tuple[kinds.DriftKind, ...]]] = [
            (
                self.reprocess,
                (kinds.READY_WITHOUT_VECTORS, kinds.WRONG_VECTOR_COUNT, kinds.WRONG_MODEL, kinds.WRONG_PASSAGES),
            ),
            (self.reset, (kinds.STALE_PROCESSING,)),
            (self.resume, (kinds.DOCUMENT_STUCK,)),
            (self.resume_kb, (kinds.KB_STUCK, kinds.LEFTOVER_COLLECTION)),
            (self.embed_again, (kinds.KB_OTHER_MODEL,)),
            (self.make_collection_anew, (kinds.WRONG_DIMENSIONS,)),
            (self.sweep, (kinds.LEFTOVER_VECTORS, kinds.LEFTOVER_PASSAGES, kinds.LEFTOVER_OBJECT)),
        ]
        return {kind.name: one_by_one(correct) for correct, names in made for kind in names}

    def reprocess(self, connection: sa.Connection, finding: reconcile.Finding) -> bool:
        document_id = id_in(finding.key)
        document = read_document(connection, document_id)
        if document is None or document.status in HIDDEN:
            return False
        if not is_on_its_way(connection, REPROCESS, document_id):
            add_reprocess(self._knowledge, connection, document_id, RECONCILIATION)
        return True

    def reset(self, connection: sa.Connection, finding: reconcile.Finding) -> bool:
        """Take the document from its run, and have it processed again."""
        document_id = id_in(finding.key)
        if not self._still(connection, document_id, is_stale):
            return False
        begin_again(connection, document_id, status=DocumentStatus.PENDING, generation=KbDocument.generation + 1)
        return True

    def resume(self, connection: sa.Connection, finding: reconcile.Finding) -> bool:
        """Write the event again that a waiting document has lost."""
        document_id = id_in(finding.key)
        if not self._still(connection, document_id, is_forgotten):
            return False
        document = read_document(connection, document_id)
        if document is not None and document.status == DocumentStatus.DELETING:
            event_id = add_event(connection, DELETE, document_id, document_id=str(document_id))
            change_document(connection, document_id, event_id=event_id)
        else:
            begin_again(connection, document_id)
        return True

    def _still(
        self, connection: sa.Connection, document_id: UUID, condition: "Callable[[str, float], sa.ColumnElement[bool]]"
    ) -> bool:
        """Return whether a document is in this condition, and nobody can take it out of it before the transaction
        ends."""
        lock_document(connection, document_id)
        stale = self._knowledge.settings.stale_minutes * 60
        wanted = sa.select(KbDocument.id).where(KbDocument.id == document_id)
        return connection.scalar(wanted.where(condition(connection.dialect.name, stale))) is not None

    def resume_kb(self, connection: sa.Connection, finding: reconcile.Finding) -> bool:
        """Write the event again that a knowledge base has lost. An archived one is looked at again by its deletion."""
        kb_id = id_in(finding.key)
        kb = read_kb(connection, kb_id)
        if kb is None:
            return False
        if kb.status == KbStatus.ACTIVE:
            return kb.reembedding and add_once(connection, KB_REEMBED, kb_id, kb_id=str(kb_id))
        return add_once(connection, KB_DELETE, kb_id, kb_id=str(kb_id))

    def embed_again(self, connection: sa.Connection, finding: reconcile.Finding) -> bool:
        kb_id = id_in(finding.key)
        return add_once(connection, KB_REEMBED, kb_id, kb_id=str(kb_id), model=self._knowledge.embedder.name)

    def make_collection_anew(self, connection: sa.Connection, finding: reconcile.Finding) -> bool:
        kb_id = id_in(finding.key)
        return add_once(connection, KB_REEMBED, kb_id, kb_id=str(kb_id), replace=True)

    def sweep(self, connection: sa.Connection, finding: reconcile.Finding) -> bool:
        document_id = document_of(finding.key)
        return add_once(connection, SWEEP, document_id, document_id=str(document_id))


def one_by_one(correct: Correct) -> reconcile.Correction:
    """Return a correction of several findings. It returns those that it corrected."""

    async def correct_all(findings: Sequence[reconcile.Finding], tx: AsyncConnection) -> list[reconcile.Finding]:
        return await tx.run_sync(lambda connection: [each for each in findings if correct(connection, each)])

    return correct_all


def begin_again(connection: sa.Connection, document_id: UUID, **values: object) -> None:
    """Have a document processed again by a new event. The event that it had before is out of date from now on."""
    payload = {"document_id": str(document_id), "reason": RECONCILIATION}
    event_id = add_event(connection, REPROCESS, document_id, **payload)
    change_document(connection, document_id, event_id=event_id, stage=None, **values)


def add_once(connection: sa.Connection, event_type: str, aggregate_id: UUID, **payload: object) -> bool:
    """Write an event, unless one like it is still to be processed."""
    if not is_on_its_way(connection, event_type, aggregate_id):
        add_event(connection, event_type, aggregate_id, **payload)
    return True
