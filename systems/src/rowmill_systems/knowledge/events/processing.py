"""Process a document: fetch, read, split into passages, embed, write vectors, and only then show it.

    read      the passages are stored as chunks of this generation, so that a further attempt takes the same ones
    embed     from the stored chunks, in batches; putting a point twice is harmless
    verify    the vector store has as many points as there are chunks
    publish   one fenced transaction: search shows this generation from now on
    sweep     points of other generations go. Killed before, the event is not processed yet, and is handled again

Whatever is wrong with the document itself is no failure of the event: the document is FAILED, the event processed.
"""

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

import sqlalchemy as sa

import rowmill as rm
from rowmill_systems.knowledge.errors import EventSuperseded, ModelDiffers, NothingToRead, StoreDisagrees
from rowmill_systems.knowledge.events.beginning import DocumentRun, begin_run
from rowmill_systems.knowledge.events.embedding_chunks import embed_chunks
from rowmill_systems.knowledge.events.failing import fail_document, note_error
from rowmill_systems.knowledge.events.outcomes import FREE, aggregate_of, outcome_of
from rowmill_systems.knowledge.events.reading_chunks import read_chunks
from rowmill_systems.knowledge.logs import log_event
from rowmill_systems.knowledge.models import DocumentStatus
from rowmill_systems.knowledge.names import collection_of
from rowmill_systems.knowledge.rows import change_document
from rowmill_systems.knowledge.search.chunk_rows import delete_chunks
from rowmill_systems.parts.clock import now
from rowmill_systems.parts.documents.errors import DocumentAnalysisError
from rowmill_systems.parts.embeddings.port import Embedder
from rowmill_systems.parts.models import ModelRejected
from rowmill_systems.parts.objects.errors import CorruptObject, MissingObject, ObjectTooLarge
from rowmill_systems.parts.vectors.errors import WrongVector

if TYPE_CHECKING:
    from rowmill_systems.knowledge.knowledge import Knowledge

FAULTS_OF_FILE = (DocumentAnalysisError, NothingToRead, MissingObject, CorruptObject, ObjectTooLarge)
FAULTS_OF_TEXT = (ModelRejected, WrongVector)
"""What is wrong with a document itself, unless it is retryable. A store that refuses us is no fault of it."""


async def process_document(knowledge: "Knowledge", event: rm.outbox.Event) -> rm.Outcome | None:
    """Handle `document.process`."""
    document_id, embedder, started_at = aggregate_of(event), await knowledge.open_embedder(), knowledge.started_at
    assert started_at is not None, "enter knowledge.opened() before you work"
    begun = await knowledge.mill.run(lambda c: begin_run(c, event, document_id, embedder, started_at))
    if isinstance(begun, str):
        log_event("document.skipped", document_id=document_id, reason=begun)
        return None
    if isinstance(begun, ModelDiffers):
        return outcome_of(begun)
    try:
        if not begun.published:
            await index_document(knowledge, begun, embedder)
        await sweep_points(knowledge, begun)
    except EventSuperseded:
        await remove_written(knowledge, begun)
    except rm.errors.LeaseLost:
        raise
    except Exception as error:
        await handle_failure(knowledge, begun, error)
    return None


async def index_document(knowledge: "Knowledge", run: DocumentRun, embedder: Embedder) -> None:
    """Do all that makes the document ready. Each step raises EventSuperseded or LeaseLost if it is out of date."""
    total = run.document.progress_total if run.chunks_stored else None
    if total is None:
        total = await read_chunks(knowledge, run)
    await embed_chunks(knowledge, run, embedder)
    await verify_points(knowledge, run, total)
    await knowledge.mill.run(lambda connection: publish(connection, run, embedder, total))
    log_event("document.ready", document_id=run.document.id, generation=run.fence.generation, chunks=total)


async def verify_points(knowledge: "Knowledge", run: DocumentRun, total: int) -> None:
    """Raise StoreDisagrees if the vector store does not have exactly the points of this generation. They are written
    anew by the next attempt."""
    collection, document_id, generation = collection_of(run.fence.kb_id), run.document.id, run.fence.generation
    found = (await knowledge.vectors.count(collection, document_id)).get(generation, 0)
    if found != total:
        await knowledge.vectors.delete(collection, document_id, generation=generation)
        await knowledge.mill.run(partial(_restart_embedding, run=run))
        raise StoreDisagrees(f"the vector store has {found} points of the {total} that were written")


def _restart_embedding(connection: sa.Connection, run: DocumentRun) -> None:
    run.fence.check(connection)
    change_document(connection, run.document.id, progress_done=0)


# served by: the primary keys
def publish(connection: sa.Connection, run: DocumentRun, embedder: Embedder, total: int) -> None:
    """Make this generation the one that search shows, and delete the chunks of others."""
    run.fence.check_model(connection, embedder)
    delete_chunks(connection, run.document.id, other_than=run.fence.generation)
    change_document(
        connection,
        run.document.id,
        status=DocumentStatus.READY,
        indexed_generation=run.fence.generation,
        chunk_count=total,
        embedding_model=embedder.name,
        dimensions=embedder.dimensions,
        stage=None,
        progress_done=total,
        progress_total=total,
        last_error=None,
        error_code=None,
        processed_at=now(connection.dialect.name),
    )


async def sweep_points(knowledge: "Knowledge", run: DocumentRun) -> None:
    """Delete the points of all other generations. A first run has no others."""
    if run.fence.generation == 1:
        return
    swept = await knowledge.vectors.delete(
        collection_of(run.fence.kb_id), run.document.id, other_than=run.fence.generation
    )
    if swept:
        log_event("document.swept", document_id=run.document.id, points=swept)


async def remove_written(knowledge: "Knowledge", run: DocumentRun) -> None:
    """Delete the points of a run that was overtaken. If that fails, the deletion or the run that overtook it does it,
    or the comparison of the stores finds them."""
    log_event("document.overtaken", document_id=run.document.id, generation=run.fence.generation)
    with suppress(Exception):
        await knowledge.vectors.delete(collection_of(run.fence.kb_id), run.document.id, generation=run.fence.generation)


async def handle_failure(knowledge: "Knowledge", run: DocumentRun, error: Exception) -> None:
    """Write to the document how its run failed. Raises `error` if it is a failure of the event as well."""
    event, document_id = run.fence.event, run.document.id
    failure = outcome_of(error)
    if is_fault_of_document(error):
        if isinstance(error, FAULTS_OF_TEXT):
            await remove_unpublished(knowledge, run)
        async with event.settling() as session:
            write = partial(write_failure, run=run, failure=failure, gives_up=True)
            await (await session.connection()).run_sync(write)
        log_event("document.failed", document_id=document_id, code=failure.code)
        return
    gives_up = event.last_attempt and failure.count_attempt and not isinstance(error, FREE)
    if gives_up:
        with suppress(Exception):
            await remove_unpublished(knowledge, run)
    with suppress(EventSuperseded):
        await knowledge.mill.run(partial(write_failure, run=run, failure=failure, gives_up=gives_up))
    raise error


def is_fault_of_document(error: Exception) -> bool:
    """Tell whether another attempt would fail as well."""
    return isinstance(error, FAULTS_OF_FILE + FAULTS_OF_TEXT) and not error.retryable


async def remove_unpublished(knowledge: "Knowledge", run: DocumentRun) -> None:
    """Delete the points of a run that ends here."""
    if not run.published:
        await knowledge.vectors.delete(collection_of(run.fence.kb_id), run.document.id, generation=run.fence.generation)


# served by: the primary keys
def write_failure(connection: sa.Connection, run: DocumentRun, failure: rm.RetryLater, gives_up: bool) -> None:
    """Write a failure to the document: it is FAILED, or waits for another attempt."""
    if run.published:  # it is ready, and only its sweep failed
        return
    document = run.fence.check(connection)
    attempt = run.fence.event.attempt
    if gives_up:
        fail_document(connection, document, failure, attempt)
    elif failure.code == ModelDiffers.code:  # what was embedded goes with the collection
        note_error(connection, document.id, failure, progress_done=0)
    elif failure.count_attempt:
        note_error(connection, document.id, failure, retry_count=attempt)
