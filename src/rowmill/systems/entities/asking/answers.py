"""Answers of services, kept in the database for the whole fleet. Times are the database's."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

import rowmill as rm
from rowmill.systems.entities.models import ServiceAnswer

DAY = 86400.0
BATCH = 500


class Answers:
    def __init__(self, mill: rm.Mill) -> None:
        self._mill = mill

    async def find(self, service: str, questions: Sequence[str]) -> dict[str, Any]:
        """Those that are there and hold still, by question."""
        if not questions:
            return {}
        wanted = sa.select(ServiceAnswer.question, ServiceAnswer.answer).where(
            ServiceAnswer.service == service,
            ServiceAnswer.question.in_(questions),
            ServiceAnswer.expires_at > sa.func.now(),
        )
        rows = await self._mill.run(lambda connection: connection.execute(wanted).all(), write=False)
        return {row.question: row.answer for row in rows}

    async def keep(self, service: str, answers: Mapping[str, Any], days: float) -> None:
        """By question; an older answer gives way. For no time at all: not at all."""
        if answers and days > 0:
            await self._mill.run(lambda connection: _keep(connection, service, answers, days))


def _keep(connection: sa.Connection, service: str, answers: Mapping[str, Any], days: float) -> None:
    now = connection.scalar(sa.select(sa.func.now()))
    assert isinstance(now, datetime)
    until = now + timedelta(days=days)
    # In one order for everybody: two that keep the same answers would wait for each other otherwise.
    rows = [
        {"service": service, "question": question, "answer": answers[question], "answered_at": now, "expires_at": until}
        for question in sorted(answers)
    ]
    insert = (postgresql if connection.dialect.name == "postgresql" else sqlite).insert(ServiceAnswer)
    given = {name: insert.excluded[name] for name in ("answer", "answered_at", "expires_at")}
    connection.execute(insert.on_conflict_do_update(index_elements=["service", "question"], set_=given), rows)


async def forget_expired(mill: rm.Mill, *, batch: int = BATCH) -> int:
    """Delete answers that hold no longer, a few at a time, each in a transaction of its own. How many there were."""
    key = sa.tuple_(ServiceAnswer.service, ServiceAnswer.question)
    old = (
        sa.select(ServiceAnswer.service, ServiceAnswer.question)
        .where(ServiceAnswer.expires_at <= sa.func.now())
        .limit(batch)
        .with_for_update(skip_locked=True)
    )
    statement = sa.delete(ServiceAnswer).where(key.in_(old))
    forgotten = 0
    while True:
        gone = await mill.run(lambda connection: connection.execute(statement).rowcount)
        forgotten += gone
        if gone < batch:
            return forgotten
