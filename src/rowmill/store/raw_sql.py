"""Statements that are text already, on any driver."""

import re
from collections.abc import Callable

import sqlalchemy as sa
from sqlalchemy import Connection, CursorResult
from sqlalchemy.sql.elements import TextClause


def as_text(statement: str) -> TextClause:
    """A finished statement: its colons are its own, not parameters; SQLAlchemy sees to a driver's percent signs."""
    return sa.text(statement.replace(":", r"\:"))


def run(connection: Connection, statement: str) -> "CursorResult[tuple[object, ...]]":
    return connection.execute(as_text(statement))


PIECES = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|(?<![\w$])\$(\d+)|\?(\d+)|(?<![:\w]):([a-z]\w*)""")
"""Placeholders ($1, ?1, :name), and the strings and quoted names that may hold what only looks like one."""


def placeholders(statement: str) -> list[str]:
    """What the places of a statement are called, without their sign, as often as they stand in it."""
    return [name for found in PIECES.finditer(statement) for name in found.groups() if name is not None]


def renamed(statement: str, name: Callable[[str], str]) -> str:
    """The statement with other placeholders, outside its strings and names."""

    def piece(found: "re.Match[str]") -> str:
        return next((name(given) for given in found.groups() if given is not None), found[0])

    return PIECES.sub(piece, statement)
