"""Triggers that keep plain SQL of operators safe.

`next_retry_at` is NULL once a request is failed, whoever wrote the word. And an UPDATE that puts all failed requests
back passes over those whose name has an open request already: the unique index would refuse the whole statement.
"""

import sqlalchemy as sa

from rowmill_systems.companies.models import CompaniesTables

FAILED = "enrichment_requests_failed"
REOPENED = "enrichment_requests_reopened"
OPEN = "('pending', 'processing')"


def make_triggers(connection: sa.Connection, tables: CompaniesTables) -> None:
    """Create the triggers. Idempotent."""
    drop_triggers(connection, tables)
    table = tables.requests.fullname
    other_is_open = (
        f"EXISTS (SELECT 1 FROM {table} AS other WHERE other.normalized_name = NEW.normalized_name "  # noqa: S608
        f"AND other.status IN {OPEN} AND other.id <> NEW.id)"
    )
    is_reopened = f"OLD.status NOT IN {OPEN} AND NEW.status IN {OPEN}"
    is_late = "NEW.status = 'failed' AND NEW.next_retry_at IS NOT NULL"
    if connection.dialect.name == "postgresql":
        schema = f"{tables.requests.schema}."
        for name, body in (
            (FAILED, "NEW.next_retry_at := NULL; RETURN NEW;"),
            (REOPENED, f"IF {other_is_open} THEN RETURN NULL; END IF; RETURN NEW;"),
        ):
            connection.exec_driver_sql(
                f"CREATE OR REPLACE FUNCTION {schema}{name}() RETURNS trigger LANGUAGE plpgsql AS "
                f"$$ BEGIN {body} END $$"
            )
        for name, event, condition in (
            (FAILED, "INSERT OR UPDATE OF status, next_retry_at", is_late),
            (REOPENED, "UPDATE OF status", is_reopened),
        ):
            connection.exec_driver_sql(
                f"CREATE TRIGGER {name} BEFORE {event} ON {table} FOR EACH ROW WHEN ({condition}) "
                f"EXECUTE FUNCTION {schema}{name}()"
            )
        return
    clear = f"UPDATE {table} SET next_retry_at = NULL WHERE id = NEW.id"  # noqa: S608
    for event in ("INSERT", "UPDATE OF status, next_retry_at"):
        name = f"{FAILED}_{event.split()[0].lower()}"
        connection.exec_driver_sql(f"CREATE TRIGGER {name} AFTER {event} ON {table} WHEN {is_late} BEGIN {clear}; END")
    connection.exec_driver_sql(
        f"CREATE TRIGGER {REOPENED} BEFORE UPDATE OF status ON {table} WHEN {is_reopened} AND {other_is_open} "
        "BEGIN SELECT RAISE(IGNORE); END"
    )


def drop_triggers(connection: sa.Connection, tables: CompaniesTables) -> None:
    """Remove the triggers. Idempotent."""
    if connection.dialect.name == "postgresql":
        for name in (FAILED, REOPENED):
            connection.exec_driver_sql(f"DROP TRIGGER IF EXISTS {name} ON {tables.requests.fullname}")
            connection.exec_driver_sql(f"DROP FUNCTION IF EXISTS {tables.requests.schema}.{name}()")
        return
    for name in (f"{FAILED}_insert", f"{FAILED}_update", REOPENED):
        connection.exec_driver_sql(f"DROP TRIGGER IF EXISTS {name}")
