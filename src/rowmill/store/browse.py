"""Rows as an operator sees them: a list, or one with its history."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection

from rowmill.model.errors import UnknownRow
from rowmill.model.lease import worker_of
from rowmill.store.clauses import keys_in
from rowmill.store.filters import Filter
from rowmill.store.keys import parse_key, scalar
from rowmill.store.lexicon import Lexicon
from rowmill.store.moment import as_moment, as_stored
from rowmill.store.schema import own_tables
from rowmill.store.terms import Terms

MOST_HISTORY = 100
TIMES = ("available_at", "leased_until", "finished_at")


@dataclass(frozen=True, slots=True)
class RowView:
    """The progress of a row."""

    key: str
    state: str | None
    kind: str
    stage: str | None
    attempts: int
    max_attempts: int | None
    """How many it may have at its stage; None: there is no end, or the row is at no stage."""
    available_at: datetime | None
    leased_until: datetime | None
    worker: int | None
    finished_at: datetime | None
    error: str | None


@dataclass(frozen=True, slots=True)
class AttemptView:
    """An attempt that failed."""

    stage: str
    attempt: int
    worker: int
    started_at: datetime | None
    ended_at: datetime | None
    code: str
    message: str


# served by: as the filter; in the order of the primary key
def list_rows(connection: Connection, terms: Terms, wanted: Filter, limit: int) -> list[RowView]:
    """Rows in the order of their keys, `limit` at the most."""
    queue = terms.queue
    rows = connection.execute(
        sa.select(*progress(terms)).where(sa.true(), *wanted.conditions(terms)).order_by(*queue.key).limit(limit)
    )
    return [row_view(terms, row) for row in rows]


# served by: the primary key
def find_row(connection: Connection, terms: Terms, key: str) -> RowView:
    """The progress of one row."""
    row = connection.execute(sa.select(*progress(terms)).where(keys_in(terms, [parse_key(terms.queue, key)]))).first()
    if row is None:
        raise unknown_row(terms, key)
    return row_view(terms, row)


# served by: the primary key
def values(connection: Connection, terms: Terms, key: str) -> dict[str, Any]:
    """Everything that a row holds, by column."""
    queue, state = terms.queue, terms.queue.columns["state"]
    columns = [Lexicon(terms).raw_state.label(c.name) if c is state else c for c in queue.table.columns]
    this = keys_in(terms, [parse_key(queue, key)])
    try:
        row = connection.execute(sa.select(*columns).where(this)).first()
    except (ValueError, TypeError):  # something in it is not what its column says: it is shown as it stands
        bare = [sa.type_coerce(column, sa.types.NullType()).label(column.name) for column in columns]
        row = connection.execute(sa.select(*bare).where(this)).first()
    if row is None:
        raise unknown_row(terms, key)
    return {column.name: value for column, value in zip(queue.table.columns, row, strict=True)}


# served by: the history's index on (queue, key, id)
def history(connection: Connection, terms: Terms, key: str) -> list[AttemptView]:
    """The failed attempts of a row, oldest first; of many, the last ones."""
    queue, attempt = terms.queue, own_tables(connection.dialect.name).attempt
    text = queue.key_text(scalar(parse_key(queue, key)))
    rows = connection.execute(
        sa.select(attempt)
        .where(attempt.c.queue == queue.name, attempt.c.key == text)
        .order_by(attempt.c.id.desc())
        .limit(MOST_HISTORY)
    ).all()
    return [
        AttemptView(
            row.stage,
            row.attempt,
            row.worker,
            as_moment(row.started_at),
            as_moment(row.ended_at),
            row.code,
            row.message,
        )
        for row in reversed(rows)
    ]


def progress(terms: Terms) -> list["sa.ColumnElement[Any]"]:
    queue = terms.queue
    roles = ("attempts", "lease", "error", *(["max_attempts"] if "max_attempts" in queue.columns else []), *TIMES)
    stored = {role: as_stored(queue.columns[role], terms.dialect.name) for role in TIMES}
    columns = ((stored.get(role, queue.columns[role])).label(f"r_{role}") for role in roles)
    return [*queue.key, Lexicon(terms).raw_state.label("r_state"), *columns]


def row_view(terms: Terms, row: Any) -> RowView:
    queue, lexicon = terms.queue, Lexicon(terms)
    word = lexicon.word(row.r_state)
    step = None if word is None else queue.vocabulary.step_of(word)
    own = getattr(row, "r_max_attempts", None)
    retry = None if step is None else step.retry.with_limit(own if isinstance(own, int) else None)
    times = {role: as_moment(getattr(row, f"r_{role}"), queue.epoch) for role in TIMES}
    return RowView(
        key=queue.key_text(scalar(tuple(row[: len(queue.key)]))),
        state=None if row.r_state is None else str(lexicon.plain(row.r_state)),
        kind=lexicon.meaning(row.r_state),
        stage=None if step is None else step.name,
        attempts=row.r_attempts or 0,
        max_attempts=None if retry is None or retry.unlimited else retry.attempts,
        worker=None if row.r_lease is None else worker_of(row.r_lease),
        error=row.r_error,
        **times,
    )


def unknown_row(terms: Terms, key: str) -> UnknownRow:
    return UnknownRow(f"queue {terms.queue.name} has no row with the key {key}")
