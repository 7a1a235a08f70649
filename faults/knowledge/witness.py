"""The witness: triggers of the database's own that note every change of a document's status and generations, and of an
event's state. The system knows nothing of them, and can't write a change without them."""

from dataclasses import dataclass
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy import Connection


@dataclass(frozen=True, slots=True)
class Turn:
    """One change of one document."""

    id: int
    at: float
    document: UUID
    old_status: str
    status: str
    old_generation: int
    generation: int
    old_indexed: int | None
    indexed: int | None


@dataclass(frozen=True, slots=True)
class EventTurn:
    """One change of one event's state."""

    id: int
    at: float
    event: int
    aggregate: str
    old_state: str
    state: str


TURN_COLUMNS = "at, document, old_status, status, old_generation, generation, old_indexed, indexed"
TURN_VALUES = (
    "NEW.id, OLD.status, NEW.status, OLD.generation, NEW.generation, OLD.indexed_generation, NEW.indexed_generation"
)
EVENT_COLUMNS = "at, event, aggregate, old_state, state"
EVENT_VALUES = "NEW.id, NEW.aggregate_id, OLD.state, NEW.state"
CHANGED = (
    "(OLD.status, OLD.generation, coalesce(OLD.indexed_generation, -1)) <> "
    "(NEW.status, NEW.generation, coalesce(NEW.indexed_generation, -1))"
)
TRIGGERS = (
    ("documents", "faults_turn", TURN_COLUMNS, TURN_VALUES, CHANGED),
    ("outbox", "faults_event_turn", EVENT_COLUMNS, EVENT_VALUES, "OLD.state <> NEW.state"),
)
SQLITE_NOW = "(julianday('now') - 2440587.5) * 86400.0"
POSTGRES_NOW = "extract(epoch FROM clock_timestamp())"


def create_witness(connection: Connection) -> None:
    """Create the tables of the witness, and its triggers."""
    postgres = connection.dialect.name == "postgresql"
    key = "bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY" if postgres else "integer PRIMARY KEY"
    kind = "uuid" if postgres else "text"
    for statement in (
        f"CREATE TABLE faults_turn (id {key}, at double precision, document {kind}, old_status text, status text, "
        "old_generation integer, generation integer, old_indexed integer, indexed integer)",
        f"CREATE TABLE faults_event_turn (id {key}, at double precision, event bigint, aggregate text, "
        "old_state text, state text)",
    ):
        connection.exec_driver_sql(statement)
    for table, log, columns, values, when in TRIGGERS:
        now = POSTGRES_NOW if postgres else SQLITE_NOW
        insert = f"INSERT INTO {log} ({columns}) VALUES ({now}, {values});"
        if postgres:
            connection.exec_driver_sql(
                f"CREATE FUNCTION {log}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {insert} RETURN NULL; END $$"
            )
            connection.exec_driver_sql(
                f"CREATE TRIGGER {log} AFTER UPDATE ON {table} FOR EACH ROW WHEN ({when}) EXECUTE FUNCTION {log}()"
            )
        else:
            connection.exec_driver_sql(f"CREATE TRIGGER {log} AFTER UPDATE ON {table} WHEN {when} BEGIN {insert} END")


def read_turns(connection: Connection, after: int = 0) -> list[Turn]:
    found = connection.execute(
        sa.text(f"SELECT id, {TURN_COLUMNS} FROM faults_turn WHERE id > :after ORDER BY id"), {"after": after}
    )
    return [Turn(row.id, row.at, UUID(str(row.document)), *tuple(row)[3:]) for row in found]


def read_event_turns(connection: Connection) -> list[EventTurn]:
    found = connection.execute(sa.text(f"SELECT id, {EVENT_COLUMNS} FROM faults_event_turn ORDER BY id"))
    return [EventTurn(*row) for row in found]
