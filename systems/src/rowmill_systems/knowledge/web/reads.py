"""What the pages read. Nothing here grows with the tables: counts stop at a limit, and lists are read in pages."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from rowmill.web.keyset import Keyset, KeysetPage, contains
from rowmill_systems.knowledge.models import (
    HIDDEN,
    Chunk,
    DocumentStatus,
    KbDocument,
    KbStatus,
    KnowledgeBase,
    OutboxEvent,
)
from rowmill_systems.parts.index_plans import index_order

MOST_COUNTED = 1_000
"""Documents of one status are counted up to here."""
KBS_ON_A_PAGE, DOCUMENTS_ON_A_PAGE, EVENTS_ON_A_PAGE, PASSAGES_ON_A_PAGE = 20, 50, 50, 20
LATEST_EVENTS = 20
SHOWN_STATUSES = tuple(status for status in DocumentStatus if status not in HIDDEN)

kbs_by = Keyset({"name": KnowledgeBase.name}, KnowledgeBase.id, default="name")
documents_by = Keyset({"added": KbDocument.created_at, "name": KbDocument.filename}, KbDocument.id, default="-added")
documents_of_status = Keyset({"added": KbDocument.created_at}, KbDocument.id, default="-added")
events_by = Keyset({"added": OutboxEvent.id}, OutboxEvent.id, default="-added")


@dataclass(frozen=True, slots=True)
class KbContents:
    """What is in a knowledge base, counted up to a limit."""

    counts: Mapping[str, int]
    """Documents by status; one more than the limit if there are more."""
    size: int
    """Bytes of the newest documents, up to the limit."""
    newest: datetime | None

    @property
    def documents(self) -> int:
        return sum(number for status, number in self.counts.items() if status != DocumentStatus.DELETING)

    @property
    def is_more(self) -> bool:
        return any(number > MOST_COUNTED for number in self.counts.values())

    @property
    def is_open(self) -> bool:
        """Whether something is under way."""
        return any(self.counts.get(status) for status in ("pending", "processing", "deleting"))


# served by: ix_documents_kb_status, ix_documents_kb
def kb_contents(connection: sa.Connection, kb_id: UUID) -> KbContents:
    statuses = [*SHOWN_STATUSES, DocumentStatus.DELETING]
    counts = connection.execute(sa.select(*(_capped(kb_id, status) for status in statuses))).one()
    newest = (
        sa.select(KbDocument.size, KbDocument.status, KbDocument.created_at)
        .where(KbDocument.kb_id == kb_id)
        .order_by(KbDocument.created_at.desc(), KbDocument.id.desc())
        .limit(MOST_COUNTED)
        .subquery()
    )
    seen = newest.c.status.not_in(HIDDEN)
    row = connection.execute(
        sa.select(
            sa.func.coalesce(sa.func.sum(newest.c.size), 0).label("size"), sa.func.max(newest.c.created_at)
        ).where(seen)
    ).one()
    by_status = {str(status): number for status, number in zip(statuses, counts, strict=True)}
    return KbContents(by_status, int(row[0]), row[1])


def _capped(kb_id: UUID, status: DocumentStatus) -> Any:
    some = sa.select(sa.literal(1)).where(KbDocument.kb_id == kb_id, KbDocument.status == status)
    few = some.limit(MOST_COUNTED + 1).subquery()
    return sa.select(sa.func.count()).select_from(few).scalar_subquery()


# served by: ix_knowledge_bases_name
def kb_page(connection: sa.Connection, *, search: str, sort: str, after: str, limit: int = KBS_ON_A_PAGE) -> KeysetPage:
    """Return knowledge bases by name, each with its contents. Raises UnknownPage."""
    filters = [contains(KnowledgeBase.name, search)] if search else []
    with index_order(connection):
        page = kbs_by.read(
            connection, sa.select(KnowledgeBase.__table__), filters=filters, sort=sort, after=after,
            within=(KnowledgeBase.status, KbStatus.ACTIVE), limit=limit,
        )  # fmt: skip
    rows: Any = [{**row, "contents": kb_contents(connection, row["id"])} for row in page.rows]
    return KeysetPage(rows, page.sort, page.next)


# served by: ix_knowledge_bases_name
def kb_names(connection: sa.Connection, limit: int) -> list[tuple[UUID, str]]:
    """Return the first knowledge bases by name, for a choice."""
    wanted = sa.select(KnowledgeBase.id, KnowledgeBase.name).where(KnowledgeBase.status == KbStatus.ACTIVE)
    rows = connection.execute(wanted.order_by(KnowledgeBase.name, KnowledgeBase.id).limit(limit))
    return [(row.id, row.name) for row in rows]


# served by: ix_documents_kb, ix_documents_kb_name; with a status, ix_documents_kb_status
def document_page(
    connection: sa.Connection,
    kb_id: UUID,
    *,
    search: str,
    status: str,
    sort: str,
    after: str,
    limit: int = DOCUMENTS_ON_A_PAGE,
) -> KeysetPage:
    """Return documents of a knowledge base. Raises UnknownPage. A page may have few of them, and yet a next one."""
    wanted = sa.select(KbDocument.__table__)
    filters = [contains(KbDocument.filename, search)] if search else []
    within: tuple[Any, Any]
    if status:
        wanted, within = wanted.where(KbDocument.kb_id == kb_id), (KbDocument.status, status)
        keyset = documents_of_status
        sort = sort if sort.removeprefix("-") == "added" else ""
    else:
        filters, within = [*filters, KbDocument.status.not_in(HIDDEN)], (KbDocument.kb_id, kb_id)
        keyset = documents_by
    with index_order(connection):
        return keyset.read(connection, wanted, filters=filters, within=within, sort=sort, after=after, limit=limit)


@dataclass(frozen=True, slots=True)
class PassagePage:
    """Some passages of a document, in their order."""

    rows: list[sa.RowMapping]
    next: int | None
    """The number of the first one on the next page."""


# served by: the primary key
def passage_page(connection: sa.Connection, document: KbDocument, first: int) -> PassagePage:
    """Return passages that search shows, from a number on."""
    if document.indexed_generation is None:
        return PassagePage([], None)
    wanted = sa.select(Chunk.__table__).where(
        Chunk.document_id == document.id, Chunk.generation == document.indexed_generation, Chunk.number >= first
    )
    rows = connection.execute(wanted.order_by(Chunk.number).limit(PASSAGES_ON_A_PAGE + 1)).mappings().all()
    more = rows[PASSAGES_ON_A_PAGE]["number"] if len(rows) > PASSAGES_ON_A_PAGE else None
    return PassagePage(list(rows[:PASSAGES_ON_A_PAGE]), more)


# served by: outbox_aggregate
def events_of(connection: sa.Connection, aggregate_id: UUID) -> list[sa.RowMapping]:
    """Return the latest events of a document or a knowledge base."""
    wanted = sa.select(OutboxEvent.__table__).where(OutboxEvent.aggregate_id == str(aggregate_id))
    return list(connection.execute(wanted.order_by(OutboxEvent.id.desc()).limit(LATEST_EVENTS)).mappings())


# served by: the primary key; of dead ones, outbox_dead; of an aggregate, outbox_aggregate
def event_page(
    connection: sa.Connection,
    *,
    state: str,
    event_type: str,
    aggregate: str,
    after: str,
    limit: int = EVENTS_ON_A_PAGE,
) -> KeysetPage:
    """Return events, the latest first. Raises UnknownPage. A page may have few of them, and yet a next one."""
    wanted = sa.select(OutboxEvent.__table__)
    filters: list[sa.ColumnElement[bool]] = []
    if state == "dead":
        wanted = wanted.where(sa.literal_column("state = 'dead'"))  # as in the index, or it does not serve this
    elif state:
        filters.append(OutboxEvent.state == state)
    if event_type:
        filters.append(OutboxEvent.event_type == event_type)
    within = (OutboxEvent.aggregate_id, aggregate) if aggregate else None
    with index_order(connection):
        return events_by.read(connection, wanted, filters=filters, within=within, after=after, limit=limit)


# served by: the primary key
def one_event(connection: sa.Connection, event_id: int) -> sa.RowMapping | None:
    wanted = sa.select(OutboxEvent.__table__).where(OutboxEvent.id == event_id)
    return connection.execute(wanted).mappings().one_or_none()


# served by: ix_documents_kb_status
def failed_documents(connection: sa.Connection, kb_id: UUID, limit: int) -> list[UUID]:
    """Return the oldest failed documents of a knowledge base."""
    wanted = sa.select(KbDocument.id).where(KbDocument.kb_id == kb_id, KbDocument.status == DocumentStatus.FAILED)
    return list(connection.scalars(wanted.order_by(KbDocument.created_at, KbDocument.id).limit(limit)))


# served by: the primary keys
def names_of(connection: sa.Connection, documents: Sequence[UUID], kbs: Sequence[UUID]) -> dict[str, str]:
    """Return the names of these documents and knowledge bases, by their ids as text."""
    found = dict[str, str]()
    named: list[tuple[Any, Any, Sequence[UUID]]] = [
        (KbDocument.id, KbDocument.filename, documents),
        (KnowledgeBase.id, KnowledgeBase.name, kbs),
    ]
    for key, name, ids in named:
        if ids:
            rows = connection.execute(sa.select(key, name).where(key.in_(ids)))
            found |= {str(row[0]): row[1] for row in rows}
    return found
