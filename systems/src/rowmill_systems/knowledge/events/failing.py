"""What a failed run leaves on its document."""

import logging
from uuid import UUID

import sqlalchemy as sa

import rowmill as rm
from rowmill_systems.knowledge.logs import log_event
from rowmill_systems.knowledge.models import DocumentStatus, KbDocument, OutboxEvent
from rowmill_systems.knowledge.rows import change_document, lock_document
from rowmill_systems.knowledge.search.chunk_rows import delete_chunks
from rowmill_systems.knowledge.settings import LAST_ERROR_LENGTH
from rowmill_systems.parts.clock import now

SCHEDULE = "fail documents of dead events"
IN_HAND = (DocumentStatus.PENDING, DocumentStatus.PROCESSING)


def error_text(code: str, message: str) -> str:
    return (f"{code}: {message}" if message else code)[:LAST_ERROR_LENGTH]


# served by: the primary key
def note_error(connection: sa.Connection, document_id: UUID, failure: rm.RetryLater, **values: object) -> None:
    """Write why the latest attempt failed to the document."""
    text = error_text(failure.code, failure.message)
    change_document(connection, document_id, last_error=text, error_code=failure.code, **values)


# served by: the primary keys
def fail_document(connection: sa.Connection, document: KbDocument, failure: rm.RetryLater, attempts: int) -> None:
    """Give up on a document. What an earlier run indexed stays; what this one wrote goes."""
    # Without an earlier run there is no generation to keep, and generations begin with 1.
    delete_chunks(connection, document.id, other_than=document.indexed_generation or 0)
    note_error(
        connection, document.id, failure, status=DocumentStatus.FAILED, stage=None, retry_count=attempts,
        processed_at=now(connection.dialect.name),
    )  # fmt: skip


def declare_sweep(mill: rm.Mill) -> None:
    """Have workers look for such documents once a minute."""

    @mill.every(SCHEDULE, rm.minutes(1))
    async def fail_documents(tick: rm.schedules.Tick) -> None:
        failed = await mill.run(fail_documents_of_dead_events)
        if failed:
            log_event("documents.failed", level=logging.WARNING, documents=failed)


# served by: ix_documents_unfinished, the primary keys
def fail_documents_of_dead_events(connection: sa.Connection, limit: int = 500) -> int:
    """Give up on documents whose event is dead. Return how many. Idempotent.

    A handler that fails for the last time does this itself; one whose process died for the last time can't.
    """
    wanted = (
        sa.select(KbDocument.id, OutboxEvent.last_error, OutboxEvent.attempts)
        .join(OutboxEvent, OutboxEvent.id == KbDocument.event_id)
        .where(KbDocument.status.in_(IN_HAND), OutboxEvent.state == "dead")
    )
    failed = 0
    for row in connection.execute(wanted.order_by(KbDocument.id).limit(limit)).all():
        document = lock_document(connection, row.id)
        if document is not None and document.status in IN_HAND:
            code, _, message = (row.last_error or "dead").partition(": ")
            fail_document(connection, document, rm.RetryLater(code=code, message=message), row.attempts)
            failed += 1
    return failed
