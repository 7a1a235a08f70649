"""A queue's indexes are part of its table's metadata, as the database of its mill spells them."""

import sqlalchemy as sa
from sqlalchemy.dialects import sqlite
from sqlalchemy.engine import make_url
from sqlalchemy.schema import CreateIndex

import rowmill as rm
from tests.conformance.fleet import jobs

ELSEWHERE = "postgresql://nobody@localhost:1/never_opened"
FILE = "sqlite:///never-opened.db"


def statements(table: sa.Table) -> list[str]:
    found = [str(CreateIndex(index).compile(dialect=sqlite.dialect())) for index in table.indexes]
    return sorted(found)


def test_a_copy_of_a_table_is_spelled_for_its_own_database() -> None:
    table = jobs()
    rm.Mill(ELSEWHERE).queue(table)
    copy = table.to_metadata(sa.MetaData(), name="copies")
    assert "NULLS FIRST" in " ".join(statements(copy)), "it comes with the indexes of the first"

    rm.Mill(FILE).queue(copy)

    assert [statement for statement in statements(copy) if "NULLS" in statement or "jobs" in statement] == []
    assert len(copy.indexes) == len(table.indexes)


def test_indexes_of_the_users_own_stay() -> None:
    table = jobs()
    sa.Index("by_title", table.c.title)
    rm.Mill(FILE).queue(table)
    assert "by_title" in {index.name for index in table.indexes}


def test_on_sqlite_conditions_are_named_for_postgresql_too() -> None:
    """A mill without a URL is on SQLite, and Alembic may compare its metadata with a PostgreSQL database."""
    table = jobs()
    rm.Mill(FILE).queue(table)

    dialect = make_url(ELSEWHERE).get_dialect()()
    made = [str(CreateIndex(index).compile(dialect=dialect)) for index in table.indexes]

    assert made
    assert [statement for statement in made if " WHERE " not in statement] == []
