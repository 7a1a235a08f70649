"""The tables that are put through faults, what is decided for each of their rows, and the witness.

The witness is a trigger of the database's own: it notes every change and every deletion of every row, with the lease
that was there before. The engine knows nothing of it, and can't write a change without it.
"""

import random
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

import rowmill as rm
from faults.history import DELETED

ATTEMPTS = 5
LEASE = 2.0
BACKOFF = 0.1
KEEP = 1.0
"""Seconds after which operators delete finished rows."""
GROUPS = 40
"""Number of aggregates over which events are spread: few, so that they block each other."""
SETTINGS = rm.worker.WorkerSettings(
    poll_base=0.05, poll_max=0.5, grace=3.0, heartbeat=0.4, rescue_every=0.4, rescue_most=2000
)


class Base(DeclarativeBase):
    pass


class Marked(rm.QueueMixin):
    """A row whose `mark` is the result: the token of the lease under which it was written."""

    id: Mapped[int] = mapped_column(sa.BigInteger, primary_key=True, autoincrement=False)
    mark: Mapped[int | None] = mapped_column(sa.BigInteger)


class Item(Marked, Base):
    """A row for a single handler. Every fourth is settled by the handler itself, with an effect in the same
    transaction."""

    __tablename__ = "faults_item"


class Lot(Marked, Base):
    """A row for a batch handler."""

    __tablename__ = "faults_lot"


class Paper(Marked, Base):
    """A row with two stages: it is read, then written."""

    __tablename__ = "faults_paper"


class Event(Marked, Base):
    """An outbox event, written with an item in one transaction, handled in order per group."""

    __tablename__ = "faults_event"

    group: Mapped[int]


class Effect(Base):
    """What the handler of an item wrote itself. No unique key, so that a duplicate shows."""

    __tablename__ = "faults_effect"

    id: Mapped[int] = mapped_column(sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True)
    item: Mapped[int] = mapped_column(sa.BigInteger)
    token: Mapped[int] = mapped_column(sa.BigInteger)


class Change(Base):
    """One change of one row, logged by the database. Times are seconds of its own clock."""

    __tablename__ = "faults_change"

    id: Mapped[int] = mapped_column(sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True)
    at: Mapped[float] = mapped_column(sa.Double)
    queue: Mapped[str]
    key: Mapped[int] = mapped_column(sa.BigInteger)
    old_state: Mapped[str]
    new_state: Mapped[str]
    old_lease: Mapped[int | None] = mapped_column(sa.BigInteger)
    new_lease: Mapped[int | None] = mapped_column(sa.BigInteger)
    old_until: Mapped[float | None] = mapped_column(sa.Double)
    old_attempts: Mapped[int]
    new_attempts: Mapped[int]
    mark: Mapped[int | None] = mapped_column(sa.BigInteger)
    error: Mapped[str | None]
    due: Mapped[float | None] = mapped_column(sa.Double)


TABLES: tuple[type[Marked], ...] = (Item, Lot, Paper, Event)
STAGES = (rm.Stage("read", "ready", "reading"), rm.Stage("write", "read", "writing"))


@dataclass(frozen=True)
class World:
    mill: rm.Mill
    items: rm.Queue[Item]
    lots: rm.Queue[Lot]
    papers: rm.Queue[Paper]
    events: rm.Queue[Event]

    @property
    def queues(self) -> tuple[rm.Queue[Any], ...]:
        return self.items, self.lots, self.papers, self.events


def world(url: str, version: int = 1) -> World:
    """Return the queues without handlers. The second version of this application has longer leases."""
    mill = rm.Mill(url, settings=SETTINGS)
    lease = LEASE * version
    retry = rm.Retry(attempts=ATTEMPTS, backoff=rm.exponential(BACKOFF, cap=0.5), jitter=0.5)
    return World(
        mill,
        mill.queue(Item, retry=retry, lease=lease),
        mill.queue(Lot, retry=retry, lease=lease),
        mill.queue(Paper, retry=retry, lease=lease, stages=STAGES),
        mill.queue(Event, retry=retry, lease=lease, order_per_key=rm.OrderPerKey(per="group", on_dead="skip")),
    )


@dataclass(frozen=True)
class Fate:
    """What happens to a row at each attempt in a stage."""

    fails: int = 0
    """Attempts that fail before one succeeds."""
    dies: bool = False
    """Whether it fails permanently at its first attempt."""
    seconds: float = 0.0
    """How long its handler takes."""


def fate(seed: int, queue: str, stage: str, key: int) -> Fate:
    """Return the fate of a row, the same in every process. One in five fails once or twice, one in fifty dies, one item
    in a hundred takes longer than its lease."""
    chance = random.Random(f"{seed}:{queue}:{stage}:{key}")
    draw = chance.random()
    seconds = chance.choice((0.0, 0.0, 0.0, 0.01, 0.05))
    if queue == Item.__tablename__ and chance.random() < 0.01:
        seconds = LEASE * 1.5
    if draw < 0.02:
        return Fate(dies=True, seconds=seconds)
    return Fate(fails=chance.choice((1, 2)) if draw < 0.22 else 0, seconds=seconds)


POISONS = {7: "kills", 107: "hangs", 207: "eats"}
POISON_EVERY = 400


def poison(key: int) -> str | None:
    """Return what an item does to its process, in the scenario with poison rows."""
    return POISONS.get(key % POISON_EVERY)


def settled_by_handler(key: int) -> bool:
    return key % 4 == 0


def create_witness(connection: Connection) -> None:
    """Create the tables of the witness, and its trigger on each table."""
    for table in (Effect, Change):
        Base.metadata.tables[table.__tablename__].create(connection)
    for statement in NOTE_FUNCTION if connection.dialect.name == "postgresql" else ():
        connection.exec_driver_sql(statement)
    for model in TABLES:
        name = model.__tablename__  # type: ignore[attr-defined]
        if connection.dialect.name == "postgresql":
            for event, function in (("UPDATE", "faults_note"), ("DELETE", "faults_note_delete")):
                connection.exec_driver_sql(
                    f"CREATE TRIGGER {function} AFTER {event} ON {name} FOR EACH ROW EXECUTE FUNCTION {function}()"
                )
        else:
            connection.exec_driver_sql(
                f"CREATE TRIGGER {name}_note AFTER UPDATE ON {name} BEGIN "
                f"INSERT INTO faults_change ({COLUMNS}) VALUES ({SQLITE_NOW}, '{name}', NEW.id, {STATES}, "
                f"(julianday(OLD.leased_until) - 2440587.5) * 86400.0, {REST}, "
                "(julianday(NEW.available_at) - 2440587.5) * 86400.0); END"
            )
            connection.exec_driver_sql(
                f"CREATE TRIGGER {name}_note_delete AFTER DELETE ON {name} BEGIN "
                f"INSERT INTO faults_change ({COLUMNS}) VALUES ({SQLITE_NOW}, '{name}', OLD.id, {GONE}, "
                f"(julianday(OLD.leased_until) - 2440587.5) * 86400.0, {GONE_REST}, NULL); END"
            )


COLUMNS = (
    "at, queue, key, old_state, new_state, old_lease, new_lease, old_until, old_attempts, new_attempts, mark, error, "
    "due"
)
STATES = "OLD.state, NEW.state, OLD.lease, NEW.lease"
REST = "OLD.attempts, NEW.attempts, NEW.mark, NEW.error"
GONE = f"OLD.state, '{DELETED}', OLD.lease, NULL"
GONE_REST = "OLD.attempts, OLD.attempts, OLD.mark, OLD.error"
"""The same for a deleted row."""
SQLITE_NOW = "(julianday('now') - 2440587.5) * 86400.0"
NOTE_FUNCTION = [
    "CREATE FUNCTION faults_note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
    f"INSERT INTO faults_change ({COLUMNS}) VALUES (extract(epoch FROM clock_timestamp()), TG_TABLE_NAME, NEW.id, "
    f"{STATES}, extract(epoch FROM OLD.leased_until), {REST}, extract(epoch FROM NEW.available_at)); "
    "RETURN NULL; END $$",
    "CREATE FUNCTION faults_note_delete() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
    f"INSERT INTO faults_change ({COLUMNS}) VALUES (extract(epoch FROM clock_timestamp()), TG_TABLE_NAME, OLD.id, "
    f"{GONE}, extract(epoch FROM OLD.leased_until), {GONE_REST}, NULL); RETURN NULL; END $$",
]
