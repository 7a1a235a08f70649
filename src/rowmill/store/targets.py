"""Which rows each verb of an operator may touch, and how many they are."""

from dataclasses import dataclass
from datetime import timedelta

import sqlalchemy as sa
from sqlalchemy import Connection

from rowmill.model.errors import BadRequest
from rowmill.model.lifecycle import CLAIMABLE, FINAL, Kind
from rowmill.store.clauses import in_words
from rowmill.store.filters import Filter, changed
from rowmill.store.keys import scalar
from rowmill.store.lexicon import Lexicon
from rowmill.store.terms import Terms

Condition = sa.ColumnElement[bool]


@dataclass(frozen=True, slots=True)
class Preview:
    """What a command would change."""

    rows: int
    capped: bool
    """There are more than were counted."""
    keys: list[str]
    """A few of them."""


# served by: the primary key, walked once
def requeueable(terms: Terms, wanted: Filter) -> Condition:
    """Finished rows, those that wait for their next try, and those that are ready but have no attempts left."""
    final = in_words(terms, terms.queue.vocabulary.all_of(FINAL))
    used_up = [
        sa.and_(in_words(terms, step.claimable), sa.literal_column(terms.used_up(step))) for step in terms.queue.steps
    ]
    return sa.and_(sa.or_(final, Lexicon(terms).waiting(), *used_up), *wanted.conditions(terms))


# served by: the ready indexes, or the primary key, walked once
def cancellable(terms: Terms, wanted: Filter) -> Condition:
    """Rows that nobody has taken yet."""
    if not terms.queue.can_cancel:
        raise BadRequest(
            f"queue {terms.queue.name} has no word for cancelled rows. "
            'Declare one: States(cancelled="cancelled"), if the column takes it'
        )
    waiting = in_words(terms, terms.queue.vocabulary.all_of(CLAIMABLE))
    return sa.and_(waiting, *wanted.conditions(terms))


# served by: an index on finished_at where there is one (`indexes.prune_index`), else the primary key, walked once
def prunable(terms: Terms, wanted: Filter, older_than: timedelta) -> list[Condition]:
    """Rows that finished so long ago; those that do not say when they did, by their last change."""
    if older_than < timedelta(0):
        raise BadRequest("an age can't be negative")
    final = in_words(terms, terms.queue.vocabulary.all_of(FINAL))
    finished = terms.queue.columns["finished_at"]
    aged = changed(terms, older_than, after=False, by=["finished_at"])
    aged_otherwise = changed(terms, older_than, after=False, by=["updated_at", "created_at"])
    rest = wanted.conditions(terms)
    return [sa.and_(final, aged, *rest), sa.and_(final, finished.is_(None), aged_otherwise, *rest)]


# served by: the partial index on running rows, (leased_until)
def expired(terms: Terms) -> Condition:
    """Running rows whose lease has run out."""
    until = terms.queue.columns["leased_until"]
    running = in_words(terms, terms.queue.vocabulary.of(Kind.RUNNING))
    return sa.and_(running, until < sa.literal_column(terms.now("leased_until")))


# served by: as the condition
def preview(connection: Connection, terms: Terms, condition: Condition, *, cap: int = 1_000_000) -> Preview:
    """How many rows a condition holds for, counted up to a cap, and the keys of a few."""
    queue = terms.queue
    some = connection.execute(sa.select(*queue.key).where(condition).limit(5)).all()
    if len(some) < 5:
        rows = len(some)
    else:
        found = sa.select(sa.literal(1).label("one")).select_from(queue.table).where(condition).limit(cap + 1)
        rows = connection.scalar(sa.select(sa.func.count()).select_from(found.subquery())) or 0
    return Preview(min(rows, cap), rows > cap, [queue.key_text(scalar(tuple(key))) for key in some])
