"""Indexes that a table lacks, or that are not what the queue needs."""

from collections.abc import Iterator

from sqlalchemy import Connection

from rowmill.store import indexes
from rowmill.store.adopt.change import Change, Part, Plan
from rowmill.store.adopt.look import Look
from rowmill.store.index_facts import IndexState, bare_name, index_states
from rowmill.store.terms import Terms


def make_indexes(connection: Connection, plan: Plan, terms: Terms, look: Look) -> Iterator[Change]:
    """One step for each index that isn't as it should be; without locking out writers where the table is big."""
    wanted = indexes.queue_indexes(terms)
    states = index_states(connection, terms, wanted)
    postgres = connection.dialect.name == "postgresql"
    concurrently = postgres and look.big and not look.partitioned
    how = "CONCURRENTLY " if concurrently else ""
    prefix = terms.quote(look.table.schema) + "." if postgres and look.table.schema else ""
    for index in wanted:
        create = index.create(terms.table, concurrently=concurrently)
        drop = f"DROP INDEX {how}IF EXISTS {prefix}{index.name}"
        # IF NOT EXISTS would find an index that is no good, and leave it.
        again = (drop, create)
        name = f"index {bare_name(index)} ({index.serves})"
        match states[index.name]:
            case IndexState.GOOD:
                pass
            case IndexState.BUILDING:
                plan.obstacles.append(f"{name} is being made right now by somebody else: wait for it")
            case IndexState.MISSING:
                yield Change(Part.INDEX, f"{name} is missing", (create,), (drop,), alone=concurrently)
            case IndexState.INVALID:
                what = f"{name} is invalid: an attempt to make it failed"
                yield Change(Part.INDEX, what, again, (drop,), alone=concurrently)
            case IndexState.OTHER:
                what = f"{name} was made for other words or columns"
                yield Change(Part.INDEX, what, again, (drop,), alone=concurrently)
