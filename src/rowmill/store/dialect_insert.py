"""INSERT as a dialect has it, with ON CONFLICT."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from sqlalchemy import Table

if TYPE_CHECKING:
    from sqlalchemy.dialects import postgresql, sqlite


def insert_of(dialect: str) -> "Callable[[Table], postgresql.Insert | sqlite.Insert]":
    if dialect == "postgresql":
        from sqlalchemy.dialects.postgresql import insert as postgres_insert

        return postgres_insert
    from sqlalchemy.dialects.sqlite import insert as sqlite_insert

    return sqlite_insert
