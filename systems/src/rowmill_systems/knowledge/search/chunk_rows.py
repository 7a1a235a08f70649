"""Write and delete the chunks of a document, and their full text with them."""

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import TSVECTOR

from rowmill_systems.knowledge.models import Chunk
from rowmill_systems.knowledge.search.fulltext import CHUNK_TERMS, scope_of
from rowmill_systems.knowledge.search.terms import terms_of
from rowmill_systems.parts.database import upsert_into
from rowmill_systems.parts.values import storable

LAST_POSITION = 16_383
"""PostgreSQL knows no later ones."""


def insert_chunks(connection: sa.Connection, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write chunks: a row has the columns of `Chunk`. Chunks that are there already stay as they are."""
    if not rows:
        return
    chunks = [storable(dict(row)) for row in rows]
    connection.execute(upsert_into(connection, Chunk).on_conflict_do_nothing(), chunks)
    terms = sa.bindparam("terms", type_=sa.Text)
    insert = upsert_into(connection, CHUNK_TERMS).values(
        {"terms": sa.cast(terms, TSVECTOR) if connection.dialect.name == "postgresql" else terms}
    )
    connection.execute(insert.on_conflict_do_nothing(), [_terms_row(connection, chunk) for chunk in chunks])


def delete_chunks(
    connection: sa.Connection, document_id: uuid.UUID, *, generation: int | None = None, other_than: int | None = None
) -> int:
    """Delete the chunks of a document: all of them, those of one generation, or those of all generations but one.
    Return how many there were. Idempotent."""
    chosen = [Chunk.document_id == document_id]
    if generation is not None:
        chosen.append(Chunk.generation == generation)
    if other_than is not None:
        chosen.append(Chunk.generation != other_than)
    return connection.execute(sa.delete(Chunk).where(*chosen)).rowcount


def _terms_row(connection: sa.Connection, chunk: Mapping[str, Any]) -> dict[str, Any]:
    text = "\n".join(filter(None, (chunk.get("page_title"), chunk.get("heading"), chunk["text"])))
    scope = scope_of(chunk["kb_id"])
    terms = [scope + term for term in terms_of(text)]
    stored = tsvector(terms) if connection.dialect.name == "postgresql" else "".join(f" {term} " for term in terms)
    # On SQLite, each term has spaces of its own, so that REPLACE counts neighbours that are the same.
    key = {name: chunk[name] for name in ("document_id", "generation", "number")}
    return {**key, "length": len(terms), "terms": stored}


def tsvector(terms: Sequence[str]) -> str:
    """Return the terms as PostgreSQL writes them, each with its places. They have no quotes and no backslashes."""
    places: dict[str, list[str]] = {}
    for place, term in enumerate(terms, 1):
        places.setdefault(term, []).append(str(min(place, LAST_POSITION)))
    return " ".join(f"'{term}':{','.join(found)}" for term, found in places.items())
