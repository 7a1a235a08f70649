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
from rowmill_systems.knowledge.errors import EventSuperseded, ModelDiffers, NothingToRead, StoreDisagrees, WrongSettings
from rowmill_systems.knowledge.events.beginning import DocumentRun, begin_run
from rowmill_systems.knowledge.events.embedding_chunks import embed_chunks
from rowmill_systems.knowledge.events.failing import fail_document, note_error
from rowmill_systems.knowledge.events.outcomes import FREE, aggregate_of, detect_wrong_settings, outcome_of
from rowmill_systems.knowledge.events.reading_chunks import read_chunks
from rowmill_systems.knowledge.logs import log_event
from rowmill_systems.knowledge.models import DocumentStatus, KbDocument, KbStatus, KnowledgeBase
from rowmill_systems.knowledge.names import collection_of
from rowmill_systems.knowledge.rows import change_document, read_document, read_kb
from rowmill_systems.knowledge.search.chunk_rows import delete_chunks
from rowmill_systems.parts.clock import now
from rowmill_systems.parts.documents.errors import DocumentAnalysisError
from rowmill_systems.parts.embeddings.port import Embedder
from rowmill_systems.parts.models import ModelRejected
from rowmill_systems.parts.objects.errors import CorruptObject, MissingObject, ObjectTooLarge
from rowmill_systems.parts.vectors.errors import WrongVector

if TYPE_CHECKING:
    from rowmill_systems.knowledge.knowledge import Knowledge

FAULTS = (
    DocumentAnalysisError, NothingToRead, MissingObject, CorruptObject, ObjectTooLarge, ModelRejected, WrongVector,
)  # fmt: skip
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
    if not begun.published:
        try:
            if not await index_or_fail(knowledge, begun, embedder):
                return None  # search goes on showing the points of an earlier run
        except EventSuperseded:
            log_event("document.overtaken", document_id=document_id, generation=begun.fence.generation)
            await remove_written(knowledge, begun)
            return None
    await sweep_points(knowledge, begun)
    return None


async def index_or_fail(knowledge: "Knowledge", run: DocumentRun, embedder: Embedder) -> bool:
    """Index the document, or write to it why that failed. Return whether it is shown now."""
    try:
        await index_document(knowledge, run, embedder)
    except (EventSuperseded, rm.errors.LeaseLost):
        raise
    except Exception as error:
        await handle_failure(knowledge, run, await detect_wrong_settings(knowledge, error))
        return False
    return True


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
    anew by the next attempt.

    Nothing is deleted as long as writing anew is enough: by then, another attempt may have shown this generation.
    """
    collection, document_id, generation = collection_of(run.fence.kb_id), run.document.id, run.fence.generation
    found = (await knowledge.vectors.count(collection, document_id)).get(generation, 0)
    if found != total:
        await knowledge.mill.run(partial(_restart_embedding, run=run))
        if found > total:
            await knowledge.vectors.delete(collection, document_id, generation=generation)
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
    """Delete the points of earlier generations. Never those of later ones: we may have been frozen for that long."""
    collection, document_id = collection_of(run.fence.kb_id), run.document.id
    if run.fence.generation == 1:
        return
    swept = 0
    for generation in await knowledge.vectors.count(collection, document_id):
        if generation < run.fence.generation:
            swept += await knowledge.vectors.delete(collection, document_id, generation=generation)
    if swept:
        log_event("document.swept", document_id=document_id, points=swept)


async def remove_written(knowledge: "Knowledge", run: DocumentRun) -> None:
    """Delete the points of a run that ended without being shown, and the collection if it brought that back to life.

    If that fails, the event that overtook it does it, or the comparison of the stores finds them.
    """
    collection, generation = collection_of(run.fence.kb_id), run.fence.generation
    with suppress(Exception):
        document, kb = await knowledge.mill.run(partial(_read_both, run=run), write=False)
        if kb is None or kb.status != KbStatus.ACTIVE:
            await knowledge.vectors.drop(collection)
        elif document is None or document.indexed_generation != generation:
            await knowledge.vectors.delete(collection, run.document.id, generation=generation)


# served by: the primary keys
def _read_both(connection: sa.Connection, run: DocumentRun) -> tuple[KbDocument | None, KnowledgeBase | None]:
    return read_document(connection, run.document.id), read_kb(connection, run.fence.kb_id)


async def handle_failure(knowledge: "Knowledge", run: DocumentRun, error: Exception) -> None:
    """Write to the document how its run failed. Raises `error` if it is a failure of the event as well."""
    event, failure = run.fence.event, outcome_of(error)
    is_permanent = is_fault_of_document(error)
    counts = failure.count_attempt and not isinstance(error, FREE)
    gives_up = is_permanent or (event.last_attempt and counts)
    write = partial(write_failure, run=run, failure=failure, gives_up=gives_up)
    if is_permanent:
        async with event.settling() as session:
            await (await session.connection()).run_sync(write)
    else:
        await knowledge.mill.run(write)
    if gives_up:
        log_event("document.failed", document_id=run.document.id, code=failure.code)
        # Only now: as long as the run may go on, another attempt of it may need them.
        await remove_written(knowledge, run)
    if not is_permanent:
        raise error


def is_fault_of_document(error: Exception) -> bool:
    """Tell whether another attempt would fail as well."""
    return isinstance(error, FAULTS) and not error.retryable


# served by: the primary keys
def write_failure(connection: sa.Connection, run: DocumentRun, failure: rm.RetryLater, gives_up: bool) -> None:
    """Write a failure to the document: it is FAILED, or waits for another attempt. Raises as the fence does."""
    document = run.fence.check(connection)
    attempt = run.fence.event.attempt
    if gives_up:
        fail_document(connection, document, failure, attempt)
    elif failure.code == ModelDiffers.code:  # what was embedded goes with the collection
        note_error(connection, document.id, failure, progress_done=0)
    elif failure.code == WrongSettings.code:
        note_error(connection, document.id, failure)
    elif failure.count_attempt:
        note_error(connection, document.id, failure, retry_count=attempt)
