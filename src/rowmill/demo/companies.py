"""The demo's tables: companies to enrich, and a log of every result that is written."""

import random
from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

import rowmill as rm

ATTEMPTS = 3
LEASE = 2.0
SETTINGS = rm.worker.WorkerSettings(
    poll_base=0.05, poll_max=0.5, grace=5.0, heartbeat=0.4, rescue_every=0.4, rescue_most=2000
)


class DemoBase(DeclarativeBase):
    pass


class Company(rm.QueueMixin, DemoBase):
    """A row to enrich. The settle that completes it writes the result columns."""

    __tablename__ = "rowmill_demo_company"

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str]
    country: Mapped[str]
    industry: Mapped[str | None]
    employees: Mapped[int | None]
    enriched_by: Mapped[int | None]


class Effect(DemoBase):
    """One row for each time that a result was written, and by which worker. It has no unique key, so that a duplicate
    shows."""

    __tablename__ = "rowmill_demo_effect"

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=True)
    company_id: Mapped[int]
    worker: Mapped[int]
    via: Mapped[str]


def demo_mill(url: str) -> tuple[rm.Mill, rm.Queue[Company]]:
    """Return a mill with the demo's queue, without a handler."""
    mill = rm.Mill(url, settings=SETTINGS)
    companies = mill.queue(
        Company,
        retry=rm.Retry(attempts=ATTEMPTS, backoff=rm.exponential(0.2, cap=1.0), jitter=0.5),
        lease=LEASE,
    )
    return mill, companies


def made_up(rows: int, seed: int) -> Iterator[dict[str, Any]]:
    """Generate companies 1 to `rows` with plausible names."""
    chance = random.Random(f"{seed}:names")
    for number in range(1, rows + 1):
        name = f"{chance.choice(FIRST)} {chance.choice(SECOND)} {chance.choice(FORM)}"
        yield {"id": number, "name": name, "country": chance.choice(COUNTRY)}


FIRST = ("Northern", "Blue", "Alpine", "Harbour", "Delta", "First", "Green", "Silver", "Baltic", "United")
SECOND = ("Foods", "Logistics", "Optics", "Timber", "Software", "Textiles", "Motors", "Energy", "Labs", "Shipping")
FORM = ("Ltd", "GmbH", "AB", "SA", "BV", "Oy", "Inc", "SpA")
COUNTRY = ("GB", "DE", "SE", "FR", "NL", "FI", "US", "IT")
INDUSTRY = ("retail", "transport", "manufacturing", "energy", "research", "software")


def create_witness(connection: Connection) -> None:
    """Create the effect table, and a trigger that logs each write of a result. The engine does not know about it."""
    DemoBase.metadata.tables[Effect.__tablename__].create(connection)
    for statement in WITNESS[connection.dialect.name]:
        connection.exec_driver_sql(statement)


def drop_tables(connection: Connection) -> None:
    DemoBase.metadata.drop_all(connection)
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql("DROP FUNCTION IF EXISTS rowmill_demo_note_result()")


def there_already(connection: Connection) -> bool:
    return any(sa.inspect(connection).has_table(name) for name in DemoBase.metadata.tables)


NOTE = f"INSERT INTO {Effect.__tablename__} (company_id, worker, via) VALUES (NEW.id, NEW.enriched_by, 'values')"  # noqa: S608
WITNESS = {
    "sqlite": [
        f"CREATE TRIGGER rowmill_demo_result AFTER UPDATE OF industry ON {Company.__tablename__} BEGIN {NOTE}; END"
    ],
    "postgresql": [
        "CREATE OR REPLACE FUNCTION rowmill_demo_note_result() RETURNS trigger LANGUAGE plpgsql AS "
        f"$$ BEGIN {NOTE}; RETURN NULL; END $$",
        f"CREATE TRIGGER rowmill_demo_result AFTER UPDATE OF industry ON {Company.__tablename__} "
        "FOR EACH ROW EXECUTE FUNCTION rowmill_demo_note_result()",
    ],
}
