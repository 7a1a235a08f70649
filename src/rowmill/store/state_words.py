"""State words as a table stores them, and as people type them."""

from difflib import get_close_matches
from typing import Any

import sqlalchemy as sa

from rowmill.model.errors import BadRequest
from rowmill.model.lifecycle import StateKind
from rowmill.model.states import Word, as_value
from rowmill.store.expressions import in_words
from rowmill.store.queue_sql import QueueSql, bare

UNKNOWN = "unknown"
"""The meaning of a state that the lifecycle does not know."""
OTHER = "other"
"""The meaning of a state that the queue leaves alone: `States(others=...)`."""


class StateWords:
    """Every state word of a queue. States are read raw, since a column's type may refuse a word that it does not
    know."""

    def __init__(self, sql: QueueSql) -> None:
        self.sql = sql
        self.vocabulary = sql.queue.vocabulary
        self.words = self.vocabulary.all_of(frozenset(StateKind))
        kind = bare(sql.queue.columns["state"], sql.dialect)
        self._padded = isinstance(kind, sa.CHAR) and sql.dialect.name == "postgresql"
        self._by_raw = {self.raw(word): word for word in self.words}
        self._others = {self.raw(word) for word in self.vocabulary.others}

    @property
    def raw_state(self) -> "sa.ColumnElement[Any]":
        """The state column without type conversion."""
        return sa.type_coerce(self.sql.queue.columns["state"], sa.String())

    def plain(self, raw: Any) -> Any:
        """Return a raw state without the blanks with which PostgreSQL fills up a CHAR."""
        return raw.rstrip(" ") if self._padded and isinstance(raw, str) else raw

    def word(self, raw: Any) -> Word | None:
        """Return the word for a raw state; None for an unknown one."""
        return self._by_raw.get(self.plain(raw))

    def text(self, word: Word) -> str:
        """Return a word as people see it in the table."""
        return str(self.raw(word))

    def kind(self, raw: Any) -> StateKind | None:
        word = self.word(raw)
        return None if word is None else self.vocabulary.kind(word)

    def meaning(self, raw: Any) -> str:
        """Return what a raw state means: a kind of state, `other` or `unknown`."""
        kind = self.kind(raw)
        return str(kind) if kind is not None else OTHER if self.plain(raw) in self._others else UNKNOWN

    def raw(self, word: Word) -> Any:
        column = self.sql.queue.columns["state"]
        value = as_value(word, column.type)
        bind = self.sql.binder(column)
        return value if bind is None else bind(value)

    # served by: as the words ask for; strangers by no index
    def condition(self, text: str) -> "sa.ColumnElement[bool]":
        """Return the condition for rows in the state that somebody typed: a word of the table, a kind, `other` or
        `unknown`."""
        every = (*self.words, *self.vocabulary.others)
        exact = [word for word in every if text in (self.text(word), getattr(word, "name", None))]
        if exact:
            return in_words(self.sql, exact)
        if text == StateKind.WAITING:
            return self.waiting()
        if text in set(StateKind):
            words = self.vocabulary.of(StateKind(text))
            return in_words(self.sql, words) if words else sa.false()
        if text == UNKNOWN:
            state = self.sql.queue.columns["state"]
            return sa.or_(state.is_(None), sa.not_(in_words(self.sql, every)))
        if text == OTHER:
            return in_words(self.sql, self.vocabulary.others) if self.vocabulary.others else sa.false()
        known = list(map(self.text, every))
        near = get_close_matches(text, [*known, *StateKind], n=1)
        raise BadRequest(
            f"queue {self.sql.queue.name} has no state {text}. Its words: {', '.join(known)}; "
            f"or a kind: {', '.join([*StateKind, OTHER, UNKNOWN])}" + (f". Did you mean {near[0]}?" if near else "")
        )

    def waiting(self) -> "sa.ColumnElement[bool]":
        """Return the condition for rows that wait for their next try: in a word of their own or, without one, ready and
        not yet due."""
        parts = []
        later = self.sql.queue.columns["available_at"] > sa.literal_column(self.sql.now("available_at"))
        for step in self.vocabulary.steps:
            if step.waiting:
                parts.append(in_words(self.sql, step.waiting))
            else:
                parts.append(sa.and_(in_words(self.sql, step.ready), later))
        return sa.or_(*parts)
