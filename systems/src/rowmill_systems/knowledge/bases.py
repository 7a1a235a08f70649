"""Create, list, rename and delete knowledge bases."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

import sqlalchemy as sa

import rowmill as rm
from rowmill_systems.knowledge.errors import KbMissing
from rowmill_systems.knowledge.models import (
    HIDDEN,
    DocumentStatus,
    KbDocument,
    KbStatus,
    KnowledgeBase,
)
from rowmill_systems.knowledge.queues import KB_DELETE, KB_REEMBED, add_event, is_on_its_way
from rowmill_systems.knowledge.rows import all_rows, change_kb, lock_active_kb, lock_kb, read_kb
from rowmill_systems.parts.embeddings.port import Embedder
from rowmill_systems.parts.filenames import printable

if TYPE_CHECKING:
    from rowmill_systems.knowledge.knowledge import Knowledge

LONGEST_KB_NAME, LONGEST_DESCRIPTION = 200, 2000


@dataclass(frozen=True, slots=True)
class KbSummary:
    """A knowledge base, and how many documents it has in each status."""

    kb: KnowledgeBase
    documents: dict[str, int]


async def create_kb(knowledge: "Knowledge", name: str, description: str = "") -> UUID:
    """Create a knowledge base. Return its id. Raises BadRequest for a name that is empty or too long."""
    name, description = checked_texts(name, description)
    row = {"id": uuid4(), "name": name, "description": description}
    await knowledge.mill.run(lambda connection: connection.execute(sa.insert(KnowledgeBase).values(row)).close())
    return row["id"]  # type: ignore[return-value]


def checked_texts(name: str, description: str) -> tuple[str, str]:
    """Return a name and a description as they are stored. Raises BadRequest."""
    name, description = printable(name), description.strip().replace("\0", "")
    if not 0 < len(name) <= LONGEST_KB_NAME or len(description) > LONGEST_DESCRIPTION:
        raise rm.errors.BadRequest(
            f"a knowledge base has a name of up to {LONGEST_KB_NAME} characters, and a description of up to "
            f"{LONGEST_DESCRIPTION}"
        )
    return name, description


async def rename_kb(knowledge: "Knowledge", kb_id: UUID, name: str, description: str) -> None:
    """Change name and description. Raises KbMissing and BadRequest."""
    name, description = checked_texts(name, description)

    def rename(connection: sa.Connection) -> None:
        lock_active_kb(connection, kb_id)
        change_kb(connection, kb_id, name=name, description=description)

    await knowledge.mill.run(rename)


async def request_kb_deletion(knowledge: "Knowledge", kb_id: UUID) -> None:
    """Hide a knowledge base, and have an event remove it from all stores. Raises KbMissing; idempotent."""

    def request(connection: sa.Connection) -> None:
        kb = lock_kb(connection, kb_id)
        if kb is None:
            raise KbMissing(f"there is no knowledge base {kb_id}")
        if kb.status == KbStatus.ARCHIVED:
            return
        if kb.status == KbStatus.ACTIVE or not is_on_its_way(connection, KB_DELETE, kb_id):
            change_kb(connection, kb_id, status=KbStatus.DELETING)
            add_event(connection, KB_DELETE, kb_id, kb_id=str(kb_id))

    await knowledge.mill.run(request)


async def find_kb(knowledge: "Knowledge", kb_id: UUID) -> KnowledgeBase:
    """Return a knowledge base. Raises KbMissing, also for one that is being deleted."""
    kb = await knowledge.mill.run(lambda connection: read_kb(connection, kb_id), write=False)
    if kb is None or kb.status != KbStatus.ACTIVE:
        raise KbMissing(f"there is no knowledge base {kb_id}")
    return kb


async def list_kbs(knowledge: "Knowledge") -> Sequence[KbSummary]:
    """Return all knowledge bases that are not being deleted, by name, with the number of their documents."""
    return await knowledge.mill.run(_summaries, write=False)


# served by: ix_knowledge_bases_status, ix_documents_kb_status
def _summaries(connection: sa.Connection) -> Sequence[KbSummary]:
    wanted = sa.select(KnowledgeBase).where(KnowledgeBase.status == KbStatus.ACTIVE)
    found = all_rows(connection, wanted.order_by(KnowledgeBase.name, KnowledgeBase.id))
    counted = (
        sa.select(KbDocument.kb_id, KbDocument.status, sa.func.count())
        .where(KbDocument.status.not_in(HIDDEN))
        .group_by(KbDocument.kb_id, KbDocument.status)
    )
    counts: dict[UUID, dict[str, int]] = {}
    for kb_id, status, number in connection.execute(counted):
        counts.setdefault(kb_id, {})[DocumentStatus(status)] = number
    return [KbSummary(kb, counts.get(kb.id, {})) for kb in found]


async def request_reembedding(knowledge: "Knowledge", kb_id: UUID) -> None:
    """Have all vectors of a knowledge base replaced by those of the model of the settings. Raises KbMissing."""
    embedder = await knowledge.open_embedder()

    def request(connection: sa.Connection) -> None:
        lock_active_kb(connection, kb_id)
        if not is_on_its_way(connection, KB_REEMBED, kb_id):
            add_reembed(knowledge, connection, kb_id, embedder)

    await knowledge.mill.run(request)


def add_reembed(knowledge: "Knowledge", into: Any, kb_id: UUID, embedder: Embedder) -> None:
    """Write the event that replaces the vectors of a knowledge base, in the transaction of a session or connection."""
    payload = {"kb_id": str(kb_id), "model": embedder.name}
    knowledge.outbox.add(into, KB_REEMBED, aggregate_id=kb_id, payload=payload)
