"""Lock and read single rows, within a transaction of the caller's.

A knowledge base is locked before its documents, everywhere, so that no two transactions wait for each other.
"""

from typing import TypeVar
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.orm import Session

from rowmill_systems.knowledge.errors import KbMissing
from rowmill_systems.knowledge.models import KbDocument, KbStatus, KnowledgeBase
from rowmill_systems.parts.clock import now

R = TypeVar("R")


# served by: the primary key
def lock_kb(connection: sa.Connection, kb_id: UUID, *, shared: bool = False) -> KnowledgeBase | None:
    """Return a knowledge base, locked until the end of the transaction. Others may share the lock if it is `shared`."""
    return _first(connection, sa.select(KnowledgeBase).where(KnowledgeBase.id == kb_id).with_for_update(read=shared))


# served by: the primary key
def lock_active_kb(connection: sa.Connection, kb_id: UUID) -> KnowledgeBase:
    """Return a knowledge base that nobody can begin to delete until the end of the transaction. Raises KbMissing."""
    kb = lock_kb(connection, kb_id, shared=True)
    if kb is None or kb.status != KbStatus.ACTIVE:
        raise KbMissing(f"there is no knowledge base {kb_id}")
    return kb


# served by: the primary key
def lock_document(connection: sa.Connection, document_id: UUID) -> KbDocument | None:
    """Return a document, locked until the end of the transaction."""
    return _first(connection, sa.select(KbDocument).where(KbDocument.id == document_id).with_for_update())


# served by: the primary key
def read_document(connection: sa.Connection, document_id: UUID) -> KbDocument | None:
    return _first(connection, sa.select(KbDocument).where(KbDocument.id == document_id))


# served by: the primary key
def read_kb(connection: sa.Connection, kb_id: UUID) -> KnowledgeBase | None:
    return _first(connection, sa.select(KnowledgeBase).where(KnowledgeBase.id == kb_id))


# served by: the primary key
def change_document(connection: sa.Connection, document_id: UUID, **values: object) -> None:
    """Write columns of a document, and when it was changed."""
    changed_at = now(connection.dialect.name)
    connection.execute(
        sa.update(KbDocument).where(KbDocument.id == document_id).values(values | {"updated_at": changed_at})
    )


# served by: the primary key
def change_kb(connection: sa.Connection, kb_id: UUID, **values: object) -> None:
    """Write columns of a knowledge base, and when it was changed."""
    changed_at = now(connection.dialect.name)
    connection.execute(
        sa.update(KnowledgeBase).where(KnowledgeBase.id == kb_id).values(values | {"updated_at": changed_at})
    )


def _first(connection: sa.Connection, wanted: "sa.Select[R]") -> R | None:
    with Session(connection, expire_on_commit=False) as session:
        found = session.scalar(wanted)
        session.expunge_all()
        return found


def all_rows(connection: sa.Connection, wanted: "sa.Select[R]") -> list[R]:
    """Return rows as objects that need no session."""
    with Session(connection, expire_on_commit=False) as session:
        found = list(session.scalars(wanted))
        session.expunge_all()
        return found
