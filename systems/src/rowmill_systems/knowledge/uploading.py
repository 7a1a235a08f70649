"""Take files in. Every object is named by a row before it exists, so that none is forgotten.

The same bytes may be uploaded twice: they become two documents, each with an object and passages of its own, and one
can be deleted without the other.
"""

from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID, uuid4

import sqlalchemy as sa

import rowmill as rm
from rowmill_systems.knowledge.errors import EmptyUpload, StoreDisagrees, UploadExpired
from rowmill_systems.knowledge.logs import log_event
from rowmill_systems.knowledge.models import KbDocument, KbUpload
from rowmill_systems.knowledge.names import owner_of
from rowmill_systems.knowledge.queues import PROCESS, add_event
from rowmill_systems.knowledge.rows import lock_active_kb, read_document
from rowmill_systems.parts.clock import now
from rowmill_systems.parts.filenames import printable, tidy_name
from rowmill_systems.parts.objects.port import Stored

if TYPE_CHECKING:
    from rowmill_systems.knowledge.knowledge import Knowledge


@dataclass(frozen=True, slots=True)
class UploadTicket:
    """Names an upload that is under way, and the document that it becomes."""

    id: UUID
    kb_id: UUID
    document_id: UUID
    filename: str
    media_type: str | None
    """As the uploader says."""


async def upload(
    knowledge: "Knowledge", kb_id: UUID, chunks: AsyncIterator[bytes], *, filename: str, media_type: str | None = None
) -> UUID:
    """Store a file, and have it processed. Return the id of its document. The file is never in memory as a whole.

    Raises KbMissing, EmptyUpload, ObjectTooLarge, UploadExpired, and what the storage raises. Then nothing is left of
    the upload, or an event removes it.
    """
    ticket = UploadTicket(uuid4(), kb_id, uuid4(), tidy_name(filename), printable(media_type or "") or None)
    await knowledge.mill.run(lambda connection: _open_ticket(connection, ticket, knowledge.settings.upload_seconds))
    storing, stored = False, None
    try:
        async with knowledge.storage.receive(most=knowledge.settings.max_file_bytes) as incoming:
            async for chunk in chunks:
                await incoming.write(chunk)
            if not incoming.size:
                raise EmptyUpload("there is nothing in the file")
            await knowledge.mill.run(lambda connection: _renew(connection, ticket, knowledge.settings.upload_seconds))
            storing = True
            stored = await incoming.keep(owner_of(kb_id), ticket.document_id)
        await knowledge.mill.run(lambda connection: _accept(connection, ticket, stored))
    except BaseException as error:
        with suppress(Exception):  # the row comes due by itself, later
            if isinstance(error, UploadExpired) and stored is not None:
                await knowledge.storage.delete(stored.key)  # its row was cleaned up before
            if stored is not None or not storing:
                await knowledge.mill.run(lambda connection: _give_up(connection, ticket, is_stored=storing))
        raise
    log_event("document.uploaded", document_id=ticket.document_id, kb_id=kb_id, size=stored.size)
    return ticket.document_id


# served by: the primary keys
def _open_ticket(connection: sa.Connection, ticket: UploadTicket, seconds: float) -> None:
    lock_active_kb(connection, ticket.kb_id)
    row = {"id": ticket.id, "kb_id": ticket.kb_id, "document_id": ticket.document_id}
    due = now(connection.dialect.name, seconds)
    connection.execute(sa.insert(KbUpload).values({**row, "available_at": due}))


# served by: the primary key
def _renew(connection: sa.Connection, ticket: UploadTicket, seconds: float) -> None:
    """Keep the clean-up away until the bytes are stored. Raises UploadExpired if it has begun."""
    due = now(connection.dialect.name, seconds)
    if not connection.execute(sa.update(KbUpload).where(*_open(ticket)).values(available_at=due)).rowcount:
        raise UploadExpired("the upload took too long, and was removed")


# served by: the primary keys
def _accept(connection: sa.Connection, ticket: UploadTicket, stored: Stored) -> None:
    """Turn the upload into a document with its event, unless its clean-up has begun or its knowledge base is gone."""
    lock_active_kb(connection, ticket.kb_id)
    if not connection.execute(sa.delete(KbUpload).where(*_open(ticket))).rowcount:
        raise UploadExpired("the upload took too long, and was removed")
    event_id = add_event(connection, PROCESS, ticket.document_id, document_id=str(ticket.document_id))
    document = {
        "id": ticket.document_id,
        "kb_id": ticket.kb_id,
        "filename": ticket.filename,
        "media_type": ticket.media_type,
        "size": stored.size,
        "sha256": stored.sha256,
        "object_key": stored.key,
        "event_id": event_id,
    }
    connection.execute(sa.insert(KbDocument).values(document))


# served by: the primary key
def _give_up(connection: sa.Connection, ticket: UploadTicket, *, is_stored: bool) -> None:
    """Have the upload cleaned up now. If nothing was stored, there is nothing to clean up.

    Bytes whose fate is unknown may arrive yet: their row stays as it is, and comes due later.
    """
    if is_stored:
        due = now(connection.dialect.name)
        connection.execute(sa.update(KbUpload).where(*_open(ticket)).values(available_at=due))
    else:
        connection.execute(sa.delete(KbUpload).where(*_open(ticket)))


def _open(ticket: UploadTicket) -> "tuple[sa.ColumnElement[bool], ...]":
    return KbUpload.id == ticket.id, KbUpload.state == "open"


def handle(knowledge: "Knowledge") -> None:
    """Register the handler of uploads that were not finished."""

    @knowledge.uploads.handler(concurrency=2)
    async def remove_upload(row: rm.Lease[KbUpload]) -> None:
        document_id = row.row.document_id
        if await knowledge.mill.run(lambda connection: read_document(connection, document_id), write=False):
            return
        owner = owner_of(row.row.kb_id)
        keys = [key async for key, _ in knowledge.storage.keys(owner, str(document_id))]
        for key in keys:
            await knowledge.storage.delete(key)
            if await knowledge.storage.exists(key):
                raise StoreDisagrees("an object of an abandoned upload is still there")
        log_event("upload.removed", document_id=document_id, files_deleted=len(keys))
