"""Where a document is: in the database, the object store, the full text and the vector store."""

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

import rowmill as rm
from rowmill_systems.knowledge.models import Chunk, DocumentStatus, KbDocument
from rowmill_systems.knowledge.names import collection_of

if TYPE_CHECKING:
    from rowmill_systems.knowledge.knowledge import Knowledge

LOOK_SECONDS = 10.0
"""The most that a page waits for a store."""
IN_HAND = (DocumentStatus.PENDING, DocumentStatus.PROCESSING)


class PlaceState(StrEnum):
    """Whether a store has its part of a document."""

    HERE = "here"
    COMING = "coming"
    ABSENT = "absent"
    WRONG = "wrong"
    UNKNOWN = "unknown"
    """The store could not be observed. It says nothing about what it has."""


@dataclass(frozen=True, slots=True)
class StorePlace:
    """A store, and what it has of a document."""

    name: str
    icon: str
    state: PlaceState
    note: str


def recorded_places(status: str, indexed_generation: int | None, chunk_count: int | None) -> list[StorePlace]:
    """Return where a document is by its row alone, without asking the stores."""
    is_indexed, in_hand = indexed_generation is not None, status in IN_HAND
    passages = passages_of(chunk_count or 0)
    if is_indexed:
        state, text, vectors = PlaceState.HERE, passages, passages
        if in_hand:
            text = vectors = f"{passages} of the run before"
    elif in_hand:
        state, text, vectors = PlaceState.COMING, "not yet", "not yet"
    else:
        state, text, vectors = PlaceState.ABSENT, "nothing", "nothing"
    return [
        StorePlace("Database", "database", PlaceState.HERE, f"as {status}"),
        StorePlace("Object", "file", PlaceState.HERE, "stored"),
        StorePlace("Full text", "list", state, text),
        StorePlace("Vectors", "points", state, vectors),
    ]


def passages_of(number: int) -> str:
    return f"{number:,} passage{'' if number == 1 else 's'}"


async def observed_places(knowledge: "Knowledge", document: KbDocument) -> list[StorePlace]:
    """Return where a document is, as the stores themselves say now."""
    row, *_ = recorded_places(document.status, document.indexed_generation, document.chunk_count)
    bytes_there, chunks, points = await asyncio.gather(
        answer_of(knowledge.storage.exists(document.object_key)),
        answer_of(knowledge.mill.run(lambda connection: chunks_by_generation(connection, document), write=False)),
        answer_of(knowledge.vectors.count(collection_of(document.kb_id), document.id)),
    )
    return [
        row,
        object_place(bytes_there),
        passages_place("Full text", "list", document, chunks),
        passages_place("Vectors", "points", document, points),
    ]


async def answer_of(asked: Awaitable[Any]) -> Any:
    """Return what a store answers, or the error."""
    try:
        async with asyncio.timeout(LOOK_SECONDS):
            return await asked
    except (rm.errors.WorkError, rm.errors.DatabaseUnreachable, OSError) as error:
        return error


# served by: the primary key
def chunks_by_generation(connection: sa.Connection, document: KbDocument) -> dict[int, int]:
    wanted = sa.select(Chunk.generation, sa.func.count()).where(Chunk.document_id == document.id)
    rows = connection.execute(wanted.group_by(Chunk.generation))
    return {row[0]: row[1] for row in rows}


def object_place(answer: Any) -> StorePlace:
    if isinstance(answer, Exception):
        return unobserved("Object", "file", answer)
    if answer:
        return StorePlace("Object", "file", PlaceState.HERE, "its bytes are there")
    return StorePlace("Object", "file", PlaceState.WRONG, "its bytes are gone")


def passages_place(name: str, icon: str, document: KbDocument, answer: Any) -> StorePlace:
    """Compare what a store has with what the row says was written."""
    if isinstance(answer, Exception):
        return unobserved(name, icon, answer)
    in_hand = document.status in IN_HAND
    shown = answer.get(document.indexed_generation, 0) if document.indexed_generation is not None else 0
    wanted = document.chunk_count or 0
    others = sum(answer.values()) - shown
    if document.indexed_generation is None and in_hand:
        return StorePlace(name, icon, PlaceState.COMING, f"{passages_of(others)} so far")
    if shown != wanted:
        return StorePlace(name, icon, PlaceState.WRONG, f"{passages_of(shown)}, and {wanted:,} were written")
    if others and not in_hand:
        return StorePlace(name, icon, PlaceState.WRONG, f"{passages_of(shown)}, and {others:,} that are obsolete")
    if others:
        return StorePlace(name, icon, PlaceState.HERE, f"{passages_of(shown)}, and {others:,} of the run that goes on")
    return StorePlace(
        name, icon, PlaceState.HERE if shown else PlaceState.ABSENT, passages_of(shown) if shown else "nothing"
    )


def unobserved(name: str, icon: str, error: Exception) -> StorePlace:
    code = getattr(error, "code", "timeout" if isinstance(error, TimeoutError) else "unreachable")
    return StorePlace(name, icon, PlaceState.UNKNOWN, f"can't be observed ({code})")
