"""Write PENDING where other programs leave the status NULL.

A claim finds words by an index, so NULL must become one. A trigger does that in the statement that inserts or updates
the row; a sweep finds rows that no trigger saw, as of a replica or a restore.
"""

import sqlalchemy as sa

from rowmill_systems.entities.models import TABLE, Shape, Tables

NAME = "entities_status_pending"
PENDING = "PENDING"
BATCH = 1000


def make_triggers(connection: sa.Connection, shape: Shape) -> None:
    """Create the triggers. Idempotent."""
    drop_triggers(connection)
    quote = connection.dialect.identifier_preparer.quote
    status, key = quote(shape.column("enrichment_status")), quote(shape.key)
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql(
            f"CREATE FUNCTION {NAME}() RETURNS trigger LANGUAGE plpgsql AS "
            f"$$ BEGIN NEW.{status} := '{PENDING}'; RETURN NEW; END $$"
        )
        connection.exec_driver_sql(
            f"CREATE TRIGGER {NAME} BEFORE INSERT OR UPDATE OF {status} ON {TABLE} "
            f"FOR EACH ROW WHEN (NEW.{status} IS NULL) EXECUTE FUNCTION {NAME}()"
        )
        return
    change = f"UPDATE {TABLE} SET {status} = '{PENDING}' WHERE {key} = NEW.{key}"  # noqa: S608
    for event in ("INSERT", f"UPDATE OF {status}"):
        connection.exec_driver_sql(
            f"CREATE TRIGGER {_name(event)} AFTER {event} ON {TABLE} WHEN NEW.{status} IS NULL BEGIN {change}; END"
        )


def drop_triggers(connection: sa.Connection) -> None:
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql(f"DROP TRIGGER IF EXISTS {NAME} ON {TABLE}")
        connection.exec_driver_sql(f"DROP FUNCTION IF EXISTS {NAME}()")
        return
    for event in ("INSERT", "UPDATE"):
        connection.exec_driver_sql(f"DROP TRIGGER IF EXISTS {_name(event)}")


def _name(event: str) -> str:
    return f"{NAME}_{event.split()[0].lower()}"


def fill(connection: sa.Connection, shape: Shape) -> None:
    """Write PENDING on all rows at once, in a migration."""
    status: sa.ColumnClause[str] = sa.column(shape.column("enrichment_status"), sa.Text)
    table = sa.table(TABLE, status)
    connection.execute(sa.update(table).where(status.is_(None)).values({status: PENDING}))


# served by: ix_entities_status
def sweep(connection: sa.Connection, tables: Tables, batch: int = BATCH) -> int:
    """Write PENDING on some rows without a status. Return how many."""
    entity = tables.entity
    some = sa.select(entity.id).where(entity.enrichment_status.is_(None)).limit(batch).with_for_update(skip_locked=True)
    change = sa.update(entity).where(entity.id.in_(some), entity.enrichment_status.is_(None))
    return connection.execute(change.values(enrichment_status=PENDING)).rowcount
