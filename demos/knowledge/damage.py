"""Damage the stores behind the back of the system, in every way that reconciliation must find."""

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from uuid import UUID, uuid4

import numpy as np
import sqlalchemy as sa

from rowmill_systems.knowledge.knowledge import Knowledge
from rowmill_systems.knowledge.models import DocumentStatus, KbDocument
from rowmill_systems.knowledge.names import collection_of, owner_of
from rowmill_systems.parts.vectors import Point

MODEL = "somebody-elses"


@dataclass
class Damage:
    """What was damaged, and where it must be found."""

    counts: Counter[str] = field(default_factory=Counter)
    findings: set[tuple[str, str]] = field(default_factory=set)
    """Kinds and keys."""
    lost: dict[UUID, str] = field(default_factory=dict)
    """Documents whose bytes are gone, by id, with their names. Nobody can bring these back."""

    def note(self, what: str, kind: str, key: object) -> None:
        self.counts[what] += 1
        self.findings.add((kind, str(key)))


async def damage(knowledge: Knowledge, kb_id: UUID) -> Damage:
    """Damage some documents of a knowledge base in each way. Every document is damaged once at the most."""
    done, collection = Damage(), collection_of(kb_id)
    documents = iter(await ready_documents(knowledge, kb_id))
    for _ in range(5):
        document = next(documents)
        await knowledge.vectors.delete(collection, document.id)
        done.note("vectors deleted", "ready_without_vectors", f"document:{document.id}")
    for _ in range(4):
        document = next(documents)
        beyond = document.chunk_count or 0
        await put(knowledge, collection, document.id, document.indexed_generation or 0, model_of(document), [beyond])
        done.note("vectors doubled", "wrong_vector_count", f"document:{document.id}")
    for _ in range(4):
        document = next(documents)
        await put(knowledge, collection, document.id, document.generation - 1, model_of(document), [0, 1, 2])
        done.note("vectors of another generation", "leftover_vectors", f"document:{document.id}")
    for _ in range(2):
        document = next(documents)
        numbers = list(range(document.chunk_count or 0))
        await put(knowledge, collection, document.id, document.indexed_generation or 0, MODEL, numbers)
        done.note("vectors of another model", "wrong_model", f"document:{document.id}")
    for _ in range(3):
        stranger = uuid4()
        await put(knowledge, collection, stranger, 1, MODEL, [0, 1])
        done.note("vectors of no document", "vectors_without_document", f"document:{stranger}")
    gone = uuid4()
    await knowledge.vectors.create(collection_of(gone), knowledge.embedder.dimensions)
    done.note("collection of no knowledge base", "collection_without_kb", f"kb:{gone}")
    for _ in range(2):
        document = next(documents)
        await knowledge.storage.delete(document.object_key)
        done.note("objects deleted", "ready_without_object", f"object:{document.object_key}")
        done.lost[document.id] = document.filename
    for number in range(3):
        async with knowledge.storage.receive() as incoming:
            await incoming.write(b"nobody's %d" % number)
            stored = await incoming.keep(owner_of(kb_id), uuid4())
        done.note("objects of no document", "object_without_document", f"object:{stored.key}")
    return done


async def ready_documents(knowledge: Knowledge, kb_id: UUID) -> Sequence[KbDocument]:
    """Return the documents that search shows, without the session that read them."""
    wanted = sa.select(KbDocument).where(KbDocument.kb_id == kb_id, KbDocument.status == DocumentStatus.READY)

    def read(connection: sa.Connection) -> list[KbDocument]:
        with sa.orm.Session(connection) as session:
            found = list(session.scalars(wanted.order_by(KbDocument.filename)))
            session.expunge_all()
            return found

    return await knowledge.mill.run(read, write=False)


def model_of(document: KbDocument) -> str:
    assert document.embedding_model is not None
    return document.embedding_model


async def put(
    knowledge: Knowledge, collection: str, document: UUID, generation: int, model: str, numbers: Sequence[int]
) -> None:
    """Write points with made-up vectors."""
    await knowledge.vectors.put(
        collection,
        [Point(document, generation, number, made_up(document, number, knowledge), model) for number in numbers],
    )


def made_up(document: UUID, number: int, knowledge: Knowledge) -> "np.typing.NDArray[np.float32]":
    chance = np.random.default_rng(int.from_bytes(hashlib.sha256(document.bytes + bytes([number])).digest()[:4], "big"))
    return chance.standard_normal(knowledge.embedder.dimensions).astype(np.float32)
