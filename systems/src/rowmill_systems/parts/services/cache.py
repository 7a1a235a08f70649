"""Cache what services answer, in a table of the application's database."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

import rowmill as rm
from rowmill_systems.parts.database import in_utc, upsert_into
from rowmill_systems.parts.services.batcher import Batcher

log = logging.getLogger("rowmill")
BATCH = 500
Moment = sa.DateTime(timezone=True)
Json = sa.JSON(none_as_null=True).with_variant(postgresql.JSONB(none_as_null=True), "postgresql")


def answers_table(name: str, metadata: sa.MetaData) -> sa.Table:
    """Declare the table of cached answers. Your migrations create it."""
    return sa.Table(
        name,
        metadata,
        sa.Column("service", sa.String(100), primary_key=True),
        sa.Column("question", sa.String(64), primary_key=True),  # a hash of all that was asked
        sa.Column("answer", Json, nullable=False),
        sa.Column("answered_at", Moment, nullable=False, server_default=sa.func.now()),
        sa.Column("expires_at", Moment, nullable=False),
        sa.Index(f"ix_{name}_expiry", "expires_at"),
    )


Asked = tuple[str, datetime | None]
"""A question, and the time after which an answer to it counts."""


@dataclass(frozen=True, slots=True)
class NewAnswer:
    """An answer to store, and for how many days."""

    service: str
    question: str
    answer: Any
    days: float


class AnswerCache:
    """Answers of services in a table, shared by all workers. Lookups and writes of the same moment share a transaction.

    Stores only what a service answered, never a failure. Times are the database's.
    """

    def __init__(self, mill: rm.Mill, table: sa.Table) -> None:
        self._mill, self._table = mill, table
        self._key = sa.tuple_(table.c.service, table.c.question)
        self._finding = Batcher[tuple[str, Sequence[Asked]], dict[Asked, Any]](self._find)
        self._storing = Batcher[Sequence[NewAnswer], None](self._store)

    async def find(self, service: str, questions: Sequence[Asked]) -> dict[Asked, Any]:
        """Return the answers that have not expired and are new enough, by question."""
        return await self._finding.ask((service, questions)) if questions else {}

    async def store(self, service: str, answers: Mapping[str, Any], days: float) -> None:
        """Store answers by question, replacing older ones; nothing if `days` is 0.

        A failure is logged and not raised: the caller has its answers, and to lose them would be to ask again.
        """
        if not answers or days <= 0:
            return
        try:
            await self._storing.ask([NewAnswer(service, question, each, days) for question, each in answers.items()])
        except Exception as error:
            log.warning("%d answers of %s could not be stored: %s", len(answers), service, type(error).__name__)

    async def delete_expired(self, *, batch: int = BATCH) -> int:
        """Delete expired answers, a batch per transaction. Return how many there were."""
        columns = self._table.c
        expired = (
            sa.select(columns.service, columns.question)
            .where(columns.expires_at <= sa.func.now())
            .limit(batch)
            .with_for_update(skip_locked=True)
        )
        statement = sa.delete(self._table).where(self._key.in_(expired))
        total = 0
        while True:
            deleted = await self._mill.run(lambda connection: connection.execute(statement).rowcount)
            total += deleted
            if deleted < batch:
                return total

    async def _find(self, asked: Sequence[tuple[str, Sequence[Asked]]]) -> list[dict[Asked, Any]]:
        pairs = sorted({(service, question) for service, questions in asked for question, _ in questions})

        def read(connection: sa.Connection) -> dict[tuple[str, str], Any]:
            found: dict[tuple[str, str], Any] = {}
            for start in range(0, len(pairs), BATCH):
                wanted = sa.select(self._table).where(
                    self._key.in_(pairs[start : start + BATCH]), self._table.c.expires_at > sa.func.now()
                )
                found |= {(row.service, row.question): row for row in connection.execute(wanted)}
            return found

        rows = await self._mill.run(read, write=False)

        def is_new(service: str, question: str, since: datetime | None) -> bool:
            row = rows.get((service, question))
            return row is not None and (since is None or in_utc(row.answered_at) > since)

        return [
            {each: rows[service, each[0]].answer for each in questions if is_new(service, *each)}
            for service, questions in asked
        ]

    async def _store(self, asked: Sequence[Sequence[NewAnswer]]) -> list[None]:
        # The last of several answers to one question wins. Sorted, or two writers of the same answers deadlock.
        newest = {(each.service, each.question): each for answers in asked for each in answers}
        await self._mill.run(lambda connection: self._upsert(connection, [newest[key] for key in sorted(newest)]))
        return [None] * len(asked)

    def _upsert(self, connection: sa.Connection, answers: Sequence[NewAnswer]) -> None:
        now = connection.scalar(sa.select(_now(connection)))
        assert isinstance(now, datetime)
        rows = [
            {
                "service": each.service, "question": each.question, "answer": each.answer, "answered_at": now,
                "expires_at": now + timedelta(days=each.days),
            }
            for each in answers
        ]  # fmt: skip
        insert = upsert_into(connection, self._table)
        replaced = {name: insert.excluded[name] for name in ("answer", "answered_at", "expires_at")}
        connection.execute(insert.on_conflict_do_update(index_elements=["service", "question"], set_=replaced), rows)


def _now(connection: sa.Connection) -> "sa.ColumnElement[datetime]":
    """Return the database's time with milliseconds: SQLite's CURRENT_TIMESTAMP has seconds only."""
    if connection.dialect.name == "sqlite":
        return sa.func.strftime("%Y-%m-%d %H:%M:%f000", "now", type_=Moment)
    return sa.func.now()
