"""An application whose rows, answers and errors all hold a secret. Its database is that of DATABASE_URL."""

import enum
import os
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

import rowmill as rm

SECRET = "wOrd-of-Pass-7351"


class Mood(enum.Enum):
    GOOD = "good"


class Base(DeclarativeBase): ...


class Letter(rm.QueueMixin, Base):
    __tablename__ = "letter"
    __table_args__ = (sa.CheckConstraint("checked IS NULL OR length(checked) < 3", name="is_short"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    kind: Mapped[str]
    body: Mapped[str] = mapped_column(default=SECRET)
    needed: Mapped[str] = mapped_column(default=SECRET)
    single: Mapped[str | None] = mapped_column(unique=True)
    checked: Mapped[str | None]
    number: Mapped[int | None]
    day: Mapped[Any] = mapped_column(sa.Date, nullable=True)
    amount: Mapped[Any] = mapped_column(sa.Numeric(4, 2), nullable=True)
    short: Mapped[str | None] = mapped_column(sa.String(5))
    mood: Mapped[Mood | None]
    note: Mapped[Any] = mapped_column(sa.JSON, nullable=True)


class Copy(Base):
    __tablename__ = "copy"
    id: Mapped[int] = mapped_column(primary_key=True)
    text: Mapped[str] = mapped_column(unique=True)


mill = rm.Mill()
letters = mill.queue(Letter, retry=rm.Retry(attempts=2, backoff=rm.fixed(0)))

ANSWERS: dict[str, Any] = {
    "unique": {"single": SECRET},
    "null": {"needed": None},
    "check": {"checked": SECRET},
    "number": {"number": SECRET},
    "day": {"day": SECRET},
    "amount": {"amount": SECRET},
    "short": {"short": SECRET},
    "mood": {"mood": SECRET},
    "note": {"note": {SECRET, "a set is not JSON"}},
    "column": {SECRET: 1},
    "reserved": {"state": SECRET},
    "list": [SECRET],
    "outcome": rm.Dead("dead", SECRET),
    "again": rm.RetryLater(0, "again", SECRET),
    "fine": {"note": {"secret": SECRET}},
}
ALLOWED = {"raised", "chained", "permanent", "settling", "sync", "outcome", "again", "exit", "column"}
"""What these say of themselves is kept on the row, and in the history: it is the handler's own message."""


def fail(kind: str) -> None:
    match kind:
        case "raised":
            raise ValueError(SECRET)
        case "chained":
            try:
                raise KeyError(SECRET)
            except KeyError as error:
                raise RuntimeError(SECRET) from error
        case "permanent":
            raise rm.PermanentError(SECRET)
        case "exit":
            raise SystemExit(SECRET)


@letters.handler()
async def read(letter: rm.Lease[Letter]) -> Any:
    kind = letter.row.kind
    fail(kind)
    if kind == "settling":
        async with letter.settling() as session:
            session.add(Copy(text=SECRET))
    return ANSWERS.get(kind)


KINDS = [*ANSWERS, "raised", "chained", "permanent", "exit", "settling"]


def tell(event: str, fields: Any) -> None:
    """An observer that writes all it hears to a file, and fails."""
    if file := os.environ.get("HEARD"):
        with Path(file).open("a") as heard:
            heard.write(f"{event} {fields!r}\n")
        raise ValueError(SECRET)


mill.observe(tell)


def fill(connection: sa.Connection) -> None:
    """A row of each kind, and one that already holds what another wants."""
    connection.execute(sa.insert(Copy).values(text=SECRET))
    rows = [{"kind": kind, "single": None} for kind in KINDS] + [{"kind": "done", "single": SECRET}]
    for row in rows:
        connection.execute(letters.insert(row))
