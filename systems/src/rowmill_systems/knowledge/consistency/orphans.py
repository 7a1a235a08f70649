"""Orphans: what the stores have and no row of the database explains. Removed only if a person asks for it.

An orphan may belong to another installation that shares the store, or to a database that was restored from an old
backup. So there is a preview, a cap, and a look at the database and the store right before each removal.
"""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

import sqlalchemy as sa

import rowmill as rm
from rowmill_systems.knowledge.consistency.items import DOCUMENT, KB, split_key
from rowmill_systems.knowledge.consistency.kinds import ORPHANS
from rowmill_systems.knowledge.consistency.stores import documents_under_way, known_documents
from rowmill_systems.knowledge.errors import StoreDisagrees
from rowmill_systems.knowledge.events.sweeping import objects_of_document
from rowmill_systems.knowledge.logs import log_event
from rowmill_systems.knowledge.models import KnowledgeBase
from rowmill_systems.knowledge.names import collection_of, document_of_key, kb_of_collection, kb_of_key
from rowmill_systems.knowledge.rows import read_kb
from rowmill_systems.parts.clock import database_time
from rowmill_systems.parts.database import in_utc

if TYPE_CHECKING:
    from rowmill_systems.knowledge.consistency.checking import Progress
    from rowmill_systems.knowledge.knowledge import Knowledge

MOST = 1000
"""The most orphans of one call."""


@dataclass(slots=True)
class OrphanReport:
    """Orphans that were found, and what became of them."""

    counts: dict[str, int] = field(default_factory=dict)
    """All of them, by kind."""
    listed: list[tuple[str, str]] = field(default_factory=list)
    """Kind and key of those that are removed, or would be."""
    removed: int = 0
    kept: int = 0
    """Those that were gone, young or explained when they were looked at again."""
    unreachable: list[str] = field(default_factory=list)
    """Stores that could not be read to their end: there may be more."""

    @property
    def found(self) -> int:
        return sum(self.counts.values())

    def as_dict(self) -> dict[str, Any]:
        return {
            "found": self.found,
            "kinds": self.counts,
            "listed": [{"kind": kind, "key": key} for kind, key in self.listed],
            "removed": self.removed,
            "kept": self.kept,
            "unreachable": self.unreachable,
        }


async def preview_orphans(knowledge: "Knowledge", cap: int = 100, progress: "Progress | None" = None) -> OrphanReport:
    """Return what `remove_orphans` would remove, and how many orphans there are. Writes nothing."""
    if not 0 < cap <= MOST:
        raise rm.errors.BadRequest(f"between 1 and {MOST:,} orphans are removed at once, not {cap:,}")
    report = (await knowledge.consistency.check(execute=False, only=ORPHANS, progress=progress)).run
    listed = [(finding.kind, finding.key) for finding in report.findings[:cap]]
    return OrphanReport(dict(report.counts), listed, unreachable=[one.inventory for one in report.unreadable])


async def remove_orphans(knowledge: "Knowledge", cap: int = 100, progress: "Progress | None" = None) -> OrphanReport:
    """Remove up to `cap` orphans. A collection counts as one, and goes with all of its vectors.

    Raises BadRequest if the database has no knowledge base at all: then it is rather the wrong database. Raises what a
    store raises that fails; call it again.
    """
    if not await knowledge.mill.run(has_any_kb, write=False):
        raise rm.errors.BadRequest(
            "the database has no knowledge base at all, so everything in the stores looks like an orphan. "
            "Is it the right one? Nothing was removed"
        )
    report = await preview_orphans(knowledge, cap, progress)
    for kind, key in report.listed:
        if await remove_orphan(knowledge, key):
            report.removed += 1
            log_event("orphan.removed", kind=kind, key=key)
        else:
            report.kept += 1
    return report


# served by: the primary key
def has_any_kb(connection: sa.Connection) -> bool:
    return connection.execute(sa.select(KnowledgeBase.id).limit(1)).first() is not None


async def remove_orphan(knowledge: "Knowledge", key: str) -> bool:
    """Look again, and remove it. Return whether it was removed."""
    kind, own = split_key(key)
    if kind == DOCUMENT:
        return await remove_points(knowledge, own)
    if kind == KB:
        return await remove_collection(knowledge, own)
    return await remove_object(knowledge, own)


async def remove_points(knowledge: "Knowledge", document_id: UUID) -> bool:
    found = (await knowledge.vectors.points_of([document_id])).get(document_id)
    if found is None or not await is_orphan(knowledge, document_id, found.at):
        return False
    collections = {place.collection for place in found.counts if kb_of_collection(place.collection) is not None}
    for collection in collections:
        await knowledge.vectors.delete(collection, document_id)
        if any((await knowledge.vectors.count(collection, document_id)).values()):
            raise StoreDisagrees("the vector store still has points that it had deleted")
    return bool(collections)


async def remove_object(knowledge: "Knowledge", key: str) -> bool:
    kb_id, document_id = kb_of_key(key), document_of_key(key)
    if kb_id is None or document_id is None:
        return False
    facts = (await objects_of_document(knowledge, kb_id, document_id)).get(key)
    at = None if facts is None else facts["at"]
    if not isinstance(at, datetime) or not await is_orphan(knowledge, document_id, at):
        return False
    await knowledge.storage.delete(key)
    if await knowledge.storage.exists(key):
        raise StoreDisagrees("the storage still has an object that it had deleted")
    return True


async def remove_collection(knowledge: "Knowledge", kb_id: UUID) -> bool:
    if await knowledge.mill.run(lambda connection: read_kb(connection, kb_id), write=False) is not None:
        return False
    return await knowledge.vectors.drop(collection_of(kb_id))


async def is_orphan(knowledge: "Knowledge", document_id: UUID, at: datetime | None) -> bool:
    """Return whether nothing in the database explains what a store has of the document, and it is not in flight."""

    def look(connection: sa.Connection) -> bool:
        grace = timedelta(seconds=knowledge.settings.grace_seconds)
        if at is not None and in_utc(at) > database_time(connection) - grace:
            return False
        return not known_documents(connection, [document_id]) | documents_under_way(connection, [document_id])

    return await knowledge.mill.run(look, write=False)
