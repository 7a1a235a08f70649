"""Knowledge bases with one guard removed. A lab that does not notice it is worthless."""

from collections.abc import Callable
from typing import Any

import sqlalchemy as sa

from rowmill.mill import outboxes
from rowmill_systems.knowledge import uploading
from rowmill_systems.knowledge.events import deleting, deleting_kb, processing
from rowmill_systems.knowledge.events.fencing import RunFence, check_lease
from rowmill_systems.knowledge.knowledge import Knowledge
from rowmill_systems.knowledge.models import KbDocument, KbUpload
from rowmill_systems.knowledge.names import collection_of
from rowmill_systems.knowledge.rows import lock_document


def without_order() -> None:
    """Handle the events of a document at the same time."""
    setattr(outboxes, "OrderPerKey", lambda **_: None)  # noqa: B010


def without_generation() -> None:
    """Let runs write though there is a later run, or a deletion."""

    def check(self: RunFence, connection: sa.Connection) -> KbDocument:
        document = lock_document(connection, self.document_id)
        assert document is not None
        check_lease(connection, self.event)
        return document

    RunFence.check = check  # type: ignore[method-assign]


def without_confirmation() -> None:
    """Mark as deleted what the stores said they had deleted, without looking."""

    async def remove(knowledge: Knowledge, document: KbDocument) -> None:
        await knowledge.vectors.delete(collection_of(document.kb_id), document.id)
        await knowledge.storage.delete(document.object_key)

    async def drop(knowledge: Knowledge, collection: str) -> bool:
        return await knowledge.vectors.drop(collection)

    deleting.remove_from_stores = remove
    deleting_kb.drop_collection = drop


def without_verification() -> None:
    """Show what the vector store said it had written, without counting."""

    async def verify(*given: Any, **options: Any) -> None: ...

    processing.verify_points = verify


def without_upload_row() -> None:
    """Store bytes that no row names yet."""

    def nothing(*given: Any, **options: Any) -> None: ...

    uploading._open_ticket = uploading._renew = nothing
    accept = uploading._accept

    def accept_all(connection: sa.Connection, ticket: uploading.UploadTicket, stored: Any) -> None:
        row = {"id": ticket.id, "kb_id": ticket.kb_id, "document_id": ticket.document_id}
        connection.execute(sa.insert(KbUpload).values(row))
        accept(connection, ticket, stored)

    uploading._accept = accept_all


GUARDS: dict[str, Callable[[], None]] = {
    "order": without_order,
    "generation": without_generation,
    "confirmation": without_confirmation,
    "verification": without_verification,
    "upload-row": without_upload_row,
}
