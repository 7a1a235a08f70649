"""Defaults that the database fills in, so that a plain INSERT of an operator works: keys and times."""

from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement


class random_uuid(FunctionElement[Any]):
    """A random key. On SQLite, 32 hexadecimal digits, as SQLAlchemy stores keys there."""

    type = sa.Uuid()
    inherit_cache = True


class current_moment(FunctionElement[Any]):
    """The time of the transaction. On SQLite with milliseconds, which CURRENT_TIMESTAMP lacks: rows of one second would
    have no order."""

    type = sa.DateTime(timezone=True)
    inherit_cache = True


SQLITE_UUID = (
    "(lower(hex(randomblob(6)) || '4' || substr(hex(randomblob(2)), 2) || "
    "substr('89AB', 1 + (random() & 3), 1) || substr(hex(randomblob(2)), 2) || hex(randomblob(6))))"
)
SQLITE_NOW = "(strftime('%Y-%m-%d %H:%M:%f000', 'now'))"


@compiles(random_uuid)
def _uuid(element: random_uuid, compiler: Any, **_: Any) -> str:
    return SQLITE_UUID if compiler.dialect.name == "sqlite" else "gen_random_uuid()"


@compiles(current_moment)
def _now(element: current_moment, compiler: Any, **_: Any) -> str:
    return SQLITE_NOW if compiler.dialect.name == "sqlite" else "now()"
