"""How the processes of a fleet declare limits, so that the strictest declaration holds for all of them.

A declaration counts for as long as a process that asks for room under it lives: each says so again every few seconds.
Every function takes a connection in a transaction.
"""

from collections.abc import Mapping, Sequence

import sqlalchemy as sa
from sqlalchemy import Connection

from rowmill.model.limits import LimitDeclaration, strictest
from rowmill.store.expressions import insert_of
from rowmill.store.limits.views import seconds
from rowmill.store.own.fleet import ALIVE_SECONDS
from rowmill.store.own.schema import own_tables


# served by: the primary key
def declare(connection: Connection, declared: Mapping[str, LimitDeclaration]) -> dict[str, list[LimitDeclaration]]:
    """Record how this process declares these limits. Return the declarations of all living processes, by limit."""
    dialect = connection.dialect.name
    table = own_tables(dialect).limit_declaration
    # In one order: two processes that say the same of several limits must not wait for each other.
    for name, one in sorted(declared.items()):
        put = insert_of(dialect)(table).values(name=name, declared=one.to_json(), seen=seconds(dialect))
        connection.execute(
            put.on_conflict_do_update(index_elements=["name", "declared"], set_={"seen": seconds(dialect)})
        )
    return living(connection, list(declared))


# served by: the primary key; all of it is small
def living(connection: Connection, names: Sequence[str] | None = None) -> dict[str, list[LimitDeclaration]]:
    """Return the declarations of living processes by limit, of these limits or of all."""
    dialect = connection.dialect.name
    row = own_tables(dialect).limit_declaration.c
    wanted = sa.select(row.name, row.declared).where(row.seen > seconds(dialect, -ALIVE_SECONDS))
    if names is not None:
        wanted = wanted.where(row.name.in_(names))
    found: dict[str, list[LimitDeclaration]] = {}
    for name, text in connection.execute(wanted.order_by(row.name, row.declared)):
        one = LimitDeclaration.from_json(text)
        if one is not None:
            found.setdefault(name, []).append(one)
    return found


def holding(connection: Connection, name: str) -> LimitDeclaration | None:
    """Return the declaration that is in force for a limit; None if no living process has declared it."""
    found = living(connection, [name]).get(name)
    return strictest(found) if found else None
