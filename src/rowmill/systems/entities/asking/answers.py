"""Answers of services, kept in the database for the whole fleet. Times are the database's."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

import rowmill as rm
from rowmill.systems.entities import clock
from rowmill.systems.entities.asking.rounds import Rounds
from rowmill.systems.entities.asking.since import in_utc
from rowmill.systems.entities.models import ServiceAnswer

log = logging.getLogger("rowmill")
BATCH = 500
KEY = sa.tuple_(ServiceAnswer.service, ServiceAnswer.question)


Asked = tuple[str, datetime | None]
"""A question, and since when an answer to it counts."""


@dataclass(frozen=True, slots=True)
class Kept:
    """An answer to be kept, for so many days."""

    service: str
    question: str
    answer: Any
    days: float


class Answers:
    """Many handlers ask at the same moment, and are served together."""

    def __init__(self, mill: rm.Mill) -> None:
        self._mill = mill
        self._finding = Rounds[tuple[str, Sequence[Asked]], dict[Asked, Any]](self._find)
        self._keeping = Rounds[Sequence[Kept], None](self._keep)

    async def find(self, service: str, questions: Sequence[Asked]) -> dict[Asked, Any]:
        """Those that are there, hold still and are new enough, by question."""
        return await self._finding.ask((service, questions)) if questions else {}

    async def keep(self, service: str, answers: Mapping[str, Any], days: float) -> None:
        """By question; an older answer gives way. For no time at all: not at all. One that can't be kept is an answer
        all the same: whoever asked has it, and to lose it would be to ask again."""
        if not answers or days <= 0:
            return
        try:
            await self._keeping.ask([Kept(service, question, answer, days) for question, answer in answers.items()])
        except Exception as error:
            log.warning("%d answers of %s could not be kept: %s", len(answers), service, type(error).__name__)

    async def _find(self, asked: Sequence[tuple[str, Sequence[Asked]]]) -> list[dict[Asked, Any]]:
        pairs = sorted({(service, question) for service, questions in asked for question, _ in questions})

        def read(connection: sa.Connection) -> dict[tuple[str, str], Any]:
            found: dict[tuple[str, str], Any] = {}
            for start in range(0, len(pairs), BATCH):
                wanted = sa.select(ServiceAnswer.__table__).where(
                    KEY.in_(pairs[start : start + BATCH]), ServiceAnswer.expires_at > sa.func.now()
                )
                found |= {(row.service, row.question): row for row in connection.execute(wanted)}
            return found

        there = await self._mill.run(read, write=False)

        def is_new(service: str, question: str, since: datetime | None) -> bool:
            row = there.get((service, question))
            return row is not None and (since is None or in_utc(row.answered_at) > since)

        return [
            {each: there[service, each[0]].answer for each in questions if is_new(service, *each)}
            for service, questions in asked
        ]

    async def _keep(self, asked: Sequence[Sequence[Kept]]) -> list[None]:
        # The last of several answers to one question; and in one order for everybody: two that keep the same answers
        # would wait for each other otherwise.
        kept = {(each.service, each.question): each for answers in asked for each in answers}
        await self._mill.run(lambda connection: _keep(connection, [kept[key] for key in sorted(kept)]))
        return [None] * len(asked)


def _keep(connection: sa.Connection, answers: Sequence[Kept]) -> None:
    now = connection.scalar(sa.select(clock.now(connection)))
    assert isinstance(now, datetime)
    rows = [
        {
            "service": each.service, "question": each.question, "answer": each.answer, "answered_at": now,
            "expires_at": now + timedelta(days=each.days),
        }
        for each in answers
    ]  # fmt: skip
    insert = (postgresql if connection.dialect.name == "postgresql" else sqlite).insert(ServiceAnswer)
    given = {name: insert.excluded[name] for name in ("answer", "answered_at", "expires_at")}
    connection.execute(insert.on_conflict_do_update(index_elements=["service", "question"], set_=given), rows)


async def forget_expired(mill: rm.Mill, *, batch: int = BATCH) -> int:
    """Delete answers that hold no longer, a few at a time, each in a transaction of its own. How many there were."""
    old = (
        sa.select(ServiceAnswer.service, ServiceAnswer.question)
        .where(ServiceAnswer.expires_at <= sa.func.now())
        .limit(batch)
        .with_for_update(skip_locked=True)
    )
    statement = sa.delete(ServiceAnswer).where(KEY.in_(old))
    forgotten = 0
    while True:
        gone = await mill.run(lambda connection: connection.execute(statement).rowcount)
        forgotten += gone
        if gone < batch:
            return forgotten
