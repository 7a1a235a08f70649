"""The statements of one queue on SQLite, each built once, and their parameters."""

import sqlite3
from collections import defaultdict
from collections.abc import Callable
from functools import cached_property
from operator import itemgetter
from typing import Any

from rowmill.model.judge import Verdict
from rowmill.model.lease import Lease
from rowmill.model.lifecycle import ErrorChange
from rowmill.model.queue import QueueSpec
from rowmill.model.states import Step
from rowmill.store.indexes import IN_ORDER, QueueIndex, bare_name, is_as_wanted, queue_indexes, ready_index
from rowmill.store.order_per_key import Search
from rowmill.store.refused_rows import RefusedRows
from rowmill.store.row_sizes import RowSizer
from rowmill.store.rows import RowLoader, row_loader
from rowmill.store.settle_batch import SettleBatch
from rowmill.store.sqlite.sql import SqliteQueueSql


def by_index(
    sql: SqliteQueueSql, step: Step, statement: str, usable: Callable[[QueueIndex], bool] = lambda _: True
) -> str:
    """Return a statement with INDEXED BY for the queue's own indexes, if they are usable."""
    named = [(step.claimable, ready_index(sql, step))]
    named += [(sql.holding, index) for index in queue_indexes(sql) if index.serves == IN_ORDER]
    for words, index in named:
        rows = sql.is_in(words)
        if usable(index):
            source = f"FROM {sql.table} INDEXED BY {index.name} WHERE {rows}"
            statement = statement.replace(f"FROM {sql.table} WHERE {rows}", source)
    return statement


def _key(build: Callable[..., str], parts: tuple[Any, ...], options: dict[str, Any]) -> tuple[Any, ...]:
    """Return what a statement is kept under. Stages and moves go by their names: to hash a stage would hash the user's
    backoff."""
    return (build, *[getattr(part, "name", part) for part in parts], *options.items())


CLASSES: dict[type, int] = {type(None): 0, int: 1, float: 1, str: 2, bytes: 3}
"""SQLite's order of values of different types, which any column may hold."""


def in_sequence(queue: QueueSpec[Any]) -> Callable[[list[Any]], list[Any]]:
    """Return a function that sorts claimed records in the order of the claim: RETURNING keeps no order."""
    columns = list(queue.claimed)
    places = [columns.index(column) for column in (queue.columns["available_at"], *queue.order_by, *queue.key)]
    level = None if queue.priority is None else columns.index(queue.priority)
    sign = 1 if queue.lower_first else -1
    plainly = itemgetter(*places)

    def key(record: Any) -> Any:
        first = [] if level is None else [sign * (record[level] or 0)]
        return first + [(CLASSES.get(type(record[place]), 1), record[place]) for place in places]

    def ordered(records: list[Any]) -> list[Any]:
        if level is None:
            try:
                return sorted(records, key=plainly)
            except TypeError:  # values of different types
                pass
        return sorted(records, key=key)

    return ordered


class SqliteQueueStatements:
    """The statements and value converters of one queue."""

    def __init__(self, sql: SqliteQueueSql) -> None:
        self.sql = sql
        self.refusals: defaultdict[str, RefusedRows] = defaultdict(RefusedRows)
        self.searches: defaultdict[str, Search] = defaultdict(
            lambda: Search(lambda records: max(map(self.load.per, records)))
        )
        self.texts: dict[tuple[Any, ...], str] = {}
        self._binders: dict[str, Callable[[Any], Any] | None] = {}

    @cached_property
    def load(self) -> RowLoader:
        return row_loader(self.sql)

    @cached_property
    def weigher(self) -> RowSizer:
        return RowSizer(self.sql)

    @cached_property
    def in_sequence(self) -> Callable[[list[Any]], list[Any]]:
        return in_sequence(self.sql.queue)

    def refused(self, step: Step) -> RefusedRows:
        return self.refusals[step.name]

    def search(self, step: Step) -> Search:
        return self.searches[step.name]

    def once(self, build: Callable[..., str], *parts: Any, **options: Any) -> str:
        """Return the statement that `build(sql, *parts, **options)` makes. It is built at its first use."""
        return self._text(_key(build, parts, options), lambda: build(self.sql, *parts, **options))

    def once_by_index(
        self, connection: sqlite3.Connection, build: Callable[..., str], step: Step, *parts: Any, **options: Any
    ) -> str:
        """Return a statement that finds rows to claim, as `once` does, with INDEXED BY for those of the queue's indexes
        that the file has. By itself, SQLite prefers an index of the user's that begins with the state, as most tables
        have, and sorts."""

        def usable(index: QueueIndex) -> bool:
            find = "SELECT sql FROM sqlite_master WHERE type = 'index' AND name = ?"
            made = connection.execute(find, (bare_name(index),)).fetchone()
            return made is not None and is_as_wanted(made[0], index)

        wanted = _key(build, (step, *parts), options)
        return self._text(wanted, lambda: by_index(self.sql, step, build(self.sql, step, *parts, **options), usable))

    def _text(self, wanted: tuple[Any, ...], make: Callable[[], str]) -> str:
        found = self.texts.get(wanted)
        if found is None:
            found = self.texts[wanted] = make()
        return found

    def settle_parameters(self, verdict: Verdict) -> dict[str, Any]:
        given = self.fence(verdict.lease)
        if verdict.move.delayed:
            given["wait"] = verdict.wait
        if verdict.move.error is ErrorChange.SET:
            given |= {"error": verdict.error, "code": verdict.code}
        for place, (name, value) in enumerate(verdict.values.items()):
            given[f"v{place}"] = self._bind(name, value)
        return given

    def alike(self, batch: SettleBatch) -> dict[int, list[Any]] | None:
        """Return the keys by token, if the verdicts of this batch differ in nothing else and JSON can hold the keys;
        otherwise None."""
        if batch.columns or batch.move.delayed or batch.move.error is ErrorChange.SET or len(self.load.key_places) != 1:
            return None
        [(place, _)] = self.load.key_places
        found: defaultdict[int, list[Any]] = defaultdict(list)
        for verdict in batch.verdicts:
            key = verdict.lease.record[place]
            if not isinstance(key, (int, str)):
                return None
            found[verdict.lease.token].append(key)
        return found

    def fence(self, lease: Lease[Any]) -> dict[str, Any]:
        given: dict[str, Any] = {"lease": lease.token}
        for place, part in enumerate(self.load.raw_key(lease.record)):
            given[f"k{place}"] = part
        return given

    def _bind(self, name: str, value: Any) -> Any:
        if name not in self._binders:
            self._binders[name] = self.sql.binder(self.sql.queue.by_name[name])
        bind = self._binders[name]
        return value if bind is None else bind(value)
