"""Statements that are text already, on any driver."""

import sqlalchemy as sa
from sqlalchemy import Connection, CursorResult
from sqlalchemy.sql.elements import TextClause


def as_text(statement: str) -> TextClause:
    """A finished statement: its colons are its own, not parameters; SQLAlchemy sees to a driver's percent signs."""
    return sa.text(statement.replace(":", r"\:"))


def run(connection: Connection, statement: str) -> "CursorResult[tuple[object, ...]]":
    return connection.execute(as_text(statement))
