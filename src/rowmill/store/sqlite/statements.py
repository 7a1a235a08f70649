"""The statements of one queue on SQLite, each built once, and their parameters."""

import sqlite3
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from operator import itemgetter
from typing import Any

from sqlalchemy import Column

from rowmill.model.dead_rows import DeadRow, used_up
from rowmill.model.judge import Verdict
from rowmill.model.lease import Lease
from rowmill.model.lifecycle import ErrorChange
from rowmill.model.queue import QueueSpec
from rowmill.model.states import Step
from rowmill.store import order_per_key
from rowmill.store.indexes import QueueIndex, bare_name, is_as_wanted
from rowmill.store.order_per_key import Finder, Search
from rowmill.store.refused_rows import RefusedRows
from rowmill.store.row_sizes import RowSizer
from rowmill.store.rows import RowLoader
from rowmill.store.settle_batch import SettleBatch
from rowmill.store.sqlite import claim, settle
from rowmill.store.sqlite import sql as statement_sql
from rowmill.store.sqlite.claim import BURIED_PLACE
from rowmill.store.sqlite.sql import SqliteQueueSql
from rowmill.store.watermark import Stretch

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
        return RowLoader(self.sql)

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

    def buried(self, step: Step, records: Sequence[Any]) -> list[DeadRow]:
        """Return the rows that a claim buried, because their attempts were used up."""
        queue, load = self.sql.queue, self.load
        return [
            used_up(
                queue, load.retry(step, record), load.key(record), record[load.attempts_place], partial(load, record)
            )
            for record in records
            if record[BURIED_PLACE]
        ]

    def claim_statement(
        self, connection: sqlite3.Connection, step: Step, stretch: Stretch, left_out: int, *, pick: bool = False
    ) -> str:
        """Return the statement that claims rows or, with `pick`, only finds them."""

        def make() -> str:
            rows = claim.ready_rows(self.sql, step, stretch, left_out)
            return claim.pick_of(rows) if pick else claim.claim_of(self.sql, step, rows)

        return self._by_index(connection, ("claim", step.name, stretch, left_out, pick), step, make)

    def weigh_statement(self, connection: sqlite3.Connection, step: Step, stretch: Stretch, left_out: int) -> str:
        wanted = ("weigh", step.name, stretch, left_out)
        return self._by_index(connection, wanted, step, lambda: claim.weigh_ready(self.sql, step, stretch, left_out))

    def weigh_in_order_statement(
        self, connection: sqlite3.Connection, step: Step, find: Finder, left_out: int, *, behind: bool
    ) -> str:
        def make() -> str:
            return claim.weigh_of(self.sql, claim.free_rows(self.sql, step, find, left_out, behind=behind))

        return self._by_index(connection, ("weigh", step.name, find.__name__, left_out, behind), step, make)

    def in_order_statement(
        self,
        connection: sqlite3.Connection,
        step: Step,
        find: Finder,
        left_out: int,
        *,
        pick: bool = False,
        behind: bool = False,
    ) -> str:
        """Return the statement that claims rows in order or, with `pick`, only finds them."""

        def make() -> str:
            rows = claim.free_rows(self.sql, step, find, left_out, behind=behind)
            return claim.pick_of(rows) if pick else claim.claim_of(self.sql, step, rows)

        return self._by_index(connection, ("claim", step.name, find.__name__, left_out, pick, behind), step, make)

    def claim_this_statement(self, connection: sqlite3.Connection, step: Step) -> str:
        return self._by_index(connection, ("claim this", step.name), step, lambda: claim.claim_this(self.sql, step))

    def priorities_statement(self, connection: sqlite3.Connection, step: Step) -> str:
        wanted = ("priorities", step.name)
        return self._by_index(connection, wanted, step, lambda: order_per_key.priorities(self.sql, step))

    def settle_statement(self, batch: SettleBatch) -> str:
        wanted = ("settle", batch.step.name, batch.move.name, batch.columns)
        return self._statement(wanted, lambda: settle.settle_statement(self.sql, batch.step, batch.move, batch.columns))

    def settle_alike_statement(self, batch: SettleBatch) -> str:
        wanted = ("settle alike", batch.step.name, batch.move.name)
        return self._statement(wanted, lambda: settle.settle_alike_statement(self.sql, batch.step, batch.move))

    @cached_property
    def renew_statement(self) -> str:
        return statement_sql.renew(self.sql)

    @cached_property
    def holds_statement(self) -> str:
        return statement_sql.holds(self.sql)

    def value_statement(self, column: "Column[Any]") -> str:
        return self._statement(("value", column.name), lambda: statement_sql.value(self.sql, column))

    def _statement(self, wanted: tuple[Any, ...], make: Callable[[], str]) -> str:
        found = self.texts.get(wanted)
        if found is None:
            found = self.texts[wanted] = make()
        return found

    def _by_index(
        self, connection: sqlite3.Connection, wanted: tuple[Any, ...], step: Step, make: Callable[[], str]
    ) -> str:
        """Return a statement that finds rows to claim, bound to those of its indexes that the file has."""

        def usable(index: QueueIndex) -> bool:
            find = "SELECT sql FROM sqlite_master WHERE type = 'index' AND name = ?"
            made = connection.execute(find, (bare_name(index),)).fetchone()
            return made is not None and is_as_wanted(made[0], index)

        return self._statement(wanted, lambda: claim.by_index(self.sql, step, make(), usable))

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
