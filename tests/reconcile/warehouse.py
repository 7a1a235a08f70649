"""A mill with documents, their vectors beside it, and an outbox for corrections."""

from collections.abc import AsyncIterator, Iterable, Sequence
from datetime import timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection
from sqlalchemy.ext.asyncio import AsyncConnection

import rowmill as rm
from rowmill import reconcile
from rowmill.store.clock import moment
from rowmill.store.own.schema import own_tables

MOMENT = sa.DateTime(timezone=True)
OLD = 3600.0


class Vectors:
    """A vector store that can be away."""

    def __init__(self, keys: Iterable[int] = ()) -> None:
        self.keys = set(keys)
        self.fails_after: int | None = None
        self.looks_fail = False
        self.rechecked: list[int] = []

    async def points(self) -> AsyncIterator[int]:
        for number, key in enumerate(sorted(self.keys)):
            if number == self.fails_after:
                raise rm.errors.ProviderDown("no answer", code="qdrant_down")
            yield key
        if self.fails_after is not None and self.fails_after >= len(self.keys):
            raise rm.errors.ProviderDown("no answer", code="qdrant_down")

    async def look(self, keys: Sequence[int]) -> list[int]:
        self.rechecked += keys
        if self.looks_fail:
            raise rm.errors.ProviderDown("no answer", code="qdrant_down")
        return [key for key in keys if key in self.keys]


class Warehouse:
    """Everything that a test of runs needs."""

    def __init__(self, url: str) -> None:
        metadata = sa.MetaData()
        self.mill = rm.Mill(url)
        self.document = sa.Table(
            "document", metadata,
            sa.Column("id", sa.Integer, primary_key=True),
            sa.Column("state", sa.Text, nullable=False),
            sa.Column("attempts", sa.Integer, nullable=False, server_default="0"),
            sa.Column("available_at", MOMENT), sa.Column("lease", sa.BigInteger), sa.Column("leased_until", MOMENT),
            sa.Column("error", sa.Text), sa.Column("finished_at", MOMENT), sa.Column("updated_at", MOMENT),
        )  # fmt: skip
        self.outbox = sa.Table(
            "outbox", metadata, sa.Column("id", sa.Integer, primary_key=True), sa.Column("document", sa.Integer),
            sa.Column("event", sa.Text),
        )  # fmt: skip
        self.documents = self.mill.queue(
            self.document, states=rm.States(done="READY", dead="FAILED", running="PROCESSING")
        )
        self.metadata = metadata
        self.vectors = Vectors()
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.mill.observe(lambda name, fields: self.events.append((name, dict(fields))))

    async def build(self) -> "Warehouse":
        await self.mill.migrate()
        await self.mill.run(self.metadata.create_all)
        return self

    def declare(self, *, look: bool = True, **policies: Any) -> reconcile.Reconciliation:
        self.mill.reconciliations.clear()
        return self.mill.reconciliation(
            "documents",
            inventories={
                "documents": reconcile.rows(self.document, facts=["state"], at="updated_at"),
                "vectors": reconcile.inventory(self.vectors.points, look=self.vectors.look if look else None),
            },
            rules=[
                reconcile.missing(
                    "ready_without_vectors",
                    present="documents", absent="vectors", when=lambda document: document["state"] == "READY",
                ),
                reconcile.missing("vectors_without_document", present="vectors", absent="documents"),
                reconcile.stale(
                    "stuck", present="documents", older=rm.minutes(30),
                    when=lambda document: document["state"] == "PROCESSING",
                ),
            ],
            **policies,
        )  # fmt: skip

    async def reprocess(self, findings: Sequence[reconcile.Finding], tx: AsyncConnection) -> None:
        """A correction: an event in the outbox."""
        events = [{"document": finding.key, "event": finding.kind} for finding in findings]
        await tx.execute(sa.insert(self.outbox), events)

    async def put(self, keys: Iterable[int], state: str = "READY", age: float = OLD) -> None:
        def work(connection: Connection) -> None:
            at = moment(connection.dialect.name, -age)
            rows = [{"id": key, "state": state} for key in keys]
            connection.execute(sa.insert(self.document).values(updated_at=at), rows)

        await self.mill.run(work)

    async def change(self, key: int, age: float = OLD, **values: Any) -> None:
        def work(connection: Connection) -> None:
            at = moment(connection.dialect.name, -age)
            table = self.document
            connection.execute(sa.update(table).where(table.c.id == key).values(updated_at=at, **values))

        await self.mill.run(work)

    async def sent(self) -> list[int]:
        """The documents in the outbox."""
        wanted = sa.select(self.outbox.c.document).order_by(self.outbox.c.document)
        return list(await self.mill.run(lambda connection: connection.scalars(wanted).all()))

    async def open_findings(self) -> list[tuple[str, str]]:
        own = own_tables(self.mill.store.dialect.name).finding
        wanted = sa.select(own.c.kind, own.c.key).where(own.c.closed_at.is_(None)).order_by(own.c.kind, own.c.id)
        return [(row.kind, row.key) for row in await self.mill.run(lambda connection: connection.execute(wanted).all())]

    async def let_run_expire(self) -> None:
        """Let the time of a run pass whose process is gone: the database's clock can't be turned."""

        def work(connection: Connection) -> None:
            own = own_tables(connection.dialect.name).reconciliation
            connection.execute(sa.update(own).values(until=moment(connection.dialect.name, -1.0)))

        await self.mill.run(work)

    async def let_corrections_age(self, by: timedelta) -> None:
        def work(connection: Connection) -> None:
            own = own_tables(connection.dialect.name).finding
            connection.execute(
                sa.update(own).values(corrected_at=moment(connection.dialect.name, -by.total_seconds()))
            )  # fmt: skip

        await self.mill.run(work)

    def emitted(self, name: str) -> list[dict[str, Any]]:
        return [fields for event, fields in self.events if event == name]
