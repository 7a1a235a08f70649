"""The index of full text: the terms of each chunk.

`chunk_terms` has a row for each chunk. On PostgreSQL its terms are a tsvector under a GIN index; on SQLite, a text
that an FTS5 table indexes, which triggers keep in step. Both index the terms as they are. A row goes with its chunk.

A term begins with a code of its knowledge base: a search reads no entries of other knowledge bases, and what is rare is
counted within one.
"""

import uuid

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import TSVECTOR

FULLTEXT_TABLES = (
    "chunk_terms", "chunk_words", "chunk_words_config", "chunk_words_data", "chunk_words_docsize", "chunk_words_idx",
)  # fmt: skip
"""What `create_fulltext` makes; the last ones on SQLite alone."""
SCOPE = 6

_metadata = sa.MetaData()
sa.Table(
    "chunks",
    _metadata,
    sa.Column("document_id", sa.Uuid, primary_key=True),
    sa.Column("generation", sa.Integer, primary_key=True),
    sa.Column("number", sa.Integer, primary_key=True),
)
CHUNK_TERMS = sa.Table(
    "chunk_terms",
    _metadata,
    sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), sa.Identity(), primary_key=True),
    sa.Column("document_id", sa.Uuid, nullable=False),
    sa.Column("generation", sa.Integer, nullable=False),
    sa.Column("number", sa.Integer, nullable=False),
    sa.Column("length", sa.Integer, nullable=False),
    sa.Column("terms", sa.Text().with_variant(TSVECTOR(), "postgresql"), nullable=False),
    sa.UniqueConstraint("document_id", "generation", "number", name="uq_chunk_terms_chunk"),
    sa.ForeignKeyConstraint(
        ["document_id", "generation", "number"],
        ["chunks.document_id", "chunks.generation", "chunks.number"],
        name="fk_chunk_terms_chunk",
        ondelete="CASCADE",
    ),
)
SQLITE = (
    "CREATE VIRTUAL TABLE chunk_words USING fts5 "
    "(terms, content='chunk_terms', content_rowid='id', tokenize='ascii tokenchars ''+#''')",
    "CREATE TRIGGER chunk_terms_inserted AFTER INSERT ON chunk_terms BEGIN "
    "INSERT INTO chunk_words (rowid, terms) VALUES (new.id, new.terms); END",
    "CREATE TRIGGER chunk_terms_deleted AFTER DELETE ON chunk_terms BEGIN "
    "INSERT INTO chunk_words (chunk_words, rowid, terms) VALUES ('delete', old.id, old.terms); END",
)
POSTGRESQL = (
    "CREATE INDEX ix_chunk_terms_terms ON chunk_terms USING gin (terms)",
    # In the row, as far as a page has room: to rank a row, its terms are looked at once for each word of a query.
    "ALTER TABLE chunk_terms ALTER terms SET STORAGE EXTERNAL, SET (toast_tuple_target = 8160)",
)


def create_fulltext(connection: sa.Connection) -> None:
    """Create the index of an empty table of chunks."""
    CHUNK_TERMS.create(connection)
    for statement in SQLITE if connection.dialect.name == "sqlite" else POSTGRESQL:
        connection.exec_driver_sql(statement)


def drop_fulltext(connection: sa.Connection) -> None:
    """Remove the index. The chunks stay."""
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql("DROP TABLE chunk_words")
    CHUNK_TERMS.drop(connection)


def scope_of(kb_id: uuid.UUID) -> str:
    """Return what the terms of a knowledge base begin with. Others may have the same: look at the document, too."""
    return kb_id.hex[-SCOPE:]
