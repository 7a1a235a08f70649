"""The statements of one queue, each built once, with its watermarks and refused rows."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import cached_property, partial
from operator import itemgetter
from typing import Any

from sqlalchemy import Column

from rowmill.model.dead_rows import DeadRow, used_up
from rowmill.model.lease import Lease, Tokens
from rowmill.model.lifecycle import ErrorChange
from rowmill.model.states import Step
from rowmill.store.keys import Key
from rowmill.store.order_per_key import Finder, Search
from rowmill.store.postgres import claim, renew, settle
from rowmill.store.postgres import sql as statement_sql
from rowmill.store.postgres.claim import BURIED_PLACE, PLACE
from rowmill.store.postgres.sql import PostgresQueueSql
from rowmill.store.postgres.values import (
    ToArray,
    as_text,
    element_converter,
    flat,
    key_converter,
    numbers,
    sent_as_own_type,
    unchanged,
)
from rowmill.store.refused_rows import RefusedRows
from rowmill.store.row_sizes import ByteLimit, RowSizer
from rowmill.store.rows import RowLoader
from rowmill.store.settle_batch import SettleBatch
from rowmill.store.watermark import Position, Shape, Watermark


class QueueStatements:
    """The statements, watermarks and value converters of one queue."""

    def __init__(self, sql: PostgresQueueSql) -> None:
        self.sql = sql
        self.marks: dict[str, Watermark] = {}
        self.refusals: defaultdict[str, RefusedRows] = defaultdict(RefusedRows)
        self.searches: defaultdict[str, Search] = defaultdict(
            lambda: Search(lambda records: self.load.per(max(records, key=PLACE)))
        )
        self.texts: dict[tuple[Any, ...], str] = {}
        queue = sql.queue
        self.key_as_own_type = [sent_as_own_type(sql, column) for column in queue.key]
        self.key_converters = [key_converter(sql, column) for column in queue.key]
        self.level_name = None if queue.priority is None else queue.priority.name
        sequence = [*queue.order_by, *(key for key in queue.key if key not in queue.order_by)]
        self.available_name = queue.columns["available_at"].name
        self.sequence_names = [column.name for column in sequence]

    @cached_property
    def load(self) -> RowLoader:
        return RowLoader(self.sql)

    @cached_property
    def weigher(self) -> RowSizer:
        return RowSizer(self.sql)

    @cached_property
    def place(self) -> Callable[[Any], Any]:
        """Return the sort key by which rows are ordered in every statement that locks several. Parts that Python may
        not be able to compare, such as IPv4 and IPv6 addresses, are ordered as text."""
        if all(self.key_as_own_type):
            return itemgetter(*(place for place, _ in self.load.key_places))
        return lambda record: [as_text(part) for part in self.load.raw_key(record)]

    def mark(self, step: Step) -> Watermark:
        found = self.marks.get(step.name)
        if found is None:
            found = self.marks[step.name] = Watermark(by_level=self.sql.queue.priority is not None)
        return found

    def search(self, step: Step) -> Search:
        return self.searches[step.name]

    def leases(self, step: Step, records: Sequence[Any], within: ByteLimit | None = None) -> list[Lease[Any]]:
        """Return the leases of the records that a claim returned. The time of the claim is in one of them. A record
        without a token was left as it was by a trigger, and is nobody's."""
        now = next((record[-1] for record in records if record[-1] is not None), None) or datetime.now(UTC)
        queue, load, key = self.sql.queue, self.load, self.load.key
        token, attempts = load.lease_place, load.attempts_place
        weights = self.weigher.weights(records, within)
        leases = [
            Lease(queue, step, key(record), record[token], record[attempts], now, record, load, weight=weight)
            for record, weight in zip(records, weights, strict=True)
            if record[token] is not None
        ]
        return load.with_own_limits(leases)

    def holds_our_tokens(self, records: Sequence[Any], tokens: Tokens) -> bool:
        """Return whether every row has the lease that its claim wrote, or none. A trigger may have written another."""
        place = self.load.lease_place
        return {record[place] for record in records} <= {None, *tokens.given}

    def buried(self, step: Step, records: Sequence[Any]) -> list[DeadRow]:
        """Return the rows that a claim buried, because their attempts were used up."""
        queue, load = self.sql.queue, self.load
        return [
            used_up(
                queue, load.retry(step, record), load.key(record), record[load.attempts_place], partial(load, record)
            )
            for record in records
            if record[BURIED_PLACE] is not None
        ]

    def position(self, record: Any) -> Position:
        """Return the position of a claimed row in the index, in the driver's values."""
        level = None if self.level_name is None else (record[self.level_name] or 0)
        return level, record[self.available_name], tuple(record[name] for name in self.sequence_names)

    def refused(self, step: Step) -> RefusedRows:
        return self.refusals[step.name]

    def _once(self, wanted: tuple[Any, ...], make: Callable[[], str]) -> str:
        """Return a statement, building it at its first use."""
        found = self.texts.get(wanted)
        if found is None:
            found = self.texts[wanted] = make()
        return found

    def claim_statement(self, step: Step, shape: Shape, left_out: int = 0, *, weighed: bool = False) -> str:
        wanted = ("claim", step.name, shape, left_out, weighed)
        return self._once(wanted, lambda: claim.claim_statement(self.sql, step, shape, left_out, weighed=weighed))

    def settle_statement(self, batch: SettleBatch, *, skip_locked: bool = False, one: bool = False) -> str:
        shape = batch.step, batch.move, batch.columns
        wanted = ("settle", batch.step.name, batch.move.name, batch.columns, skip_locked, one)
        return self._once(wanted, lambda: settle.settle_statement(self.sql, *shape, skip_locked=skip_locked, one=one))

    def in_order_statement(
        self, step: Step, find: Finder, shape: Shape, left_out: int, *, behind: bool = False, weighed: bool = False
    ) -> str:
        wanted = ("claim in order", step.name, find.__name__, shape, left_out, behind, weighed)
        return self._once(
            wanted,
            lambda: claim.claim_in_order(self.sql, step, find, shape, left_out, behind=behind, weighed=weighed),
        )

    def oldest_statement(self, step: Step, shape: Shape) -> str:
        return self._once(("oldest", step.name, shape), lambda: claim.oldest(self.sql, step, shape))

    def passed_over_statement(self, step: Step, shape: Shape) -> str:
        return self._once(("passed over", step.name, shape), lambda: claim.passed_over(self.sql, step, shape))

    def run_together_statement(self, per: "Column[Any]") -> str:
        return self._once(("run together",), lambda: claim.run_together(self.sql, per))

    def give_back_statement(self, step: Step) -> str:
        return self._once(("give back", step.name), lambda: claim.give_back(self.sql, step))

    @cached_property
    def renew_statement(self) -> str:
        return renew.renew_statement(self.sql)

    @cached_property
    def holds_statement(self) -> str:
        return statement_sql.holds(self.sql)

    @cached_property
    def lock_statement(self) -> str:
        return statement_sql.lock(self.sql)

    def value_statement(self, column: "Column[Any]") -> str:
        return self._once(("value", column.name), lambda: statement_sql.value(self.sql, column))

    def key_arrays(self, leases: Sequence[Lease[Any]]) -> list[Any]:
        """Return the keys of these rows, as one array per key column."""
        return [convert(parts) for convert, parts in self._key_parts([lease.record for lease in leases])]

    def _key_parts(self, records: Sequence[Any]) -> "list[tuple[ToArray, list[Any]]]":
        places = (place for place, _ in self.load.key_places)
        return [
            (convert, [record[place] for record in records])
            for place, convert in zip(places, self.key_converters, strict=True)
        ]

    def raw_key_arrays(self, keys: Sequence[Key]) -> list[Any]:
        return [convert([key[n] for key in keys]) for n, convert in enumerate(self.key_converters)]

    def settle_arguments(self, batch: SettleBatch, *, one: bool = False) -> list[Any]:
        """Return the arrays for `settle_statement`, in its order; with `one`, single values."""
        arrays = self._settle_arrays(batch)
        if one:
            return [values[0] if convert in (numbers, unchanged) else convert(values)[0] for convert, values in arrays]
        return [convert(values) for convert, values in arrays]

    def _settle_arrays(self, batch: SettleBatch) -> "list[tuple[ToArray, list[Any]]]":
        verdicts = batch.verdicts
        arrays: list[tuple[ToArray, list[Any]]] = [(numbers, [verdict.lease.token for verdict in verdicts])]
        plain: list[list[Any]] = []
        if batch.move.delayed:
            plain.append([verdict.wait for verdict in verdicts])
        if batch.move.failed:
            plain += [
                [verdict.lease.attempt for verdict in verdicts],
                [verdict.code for verdict in verdicts],
                [verdict.message for verdict in verdicts],
                [verdict.error for verdict in verdicts],
                [verdict.lease.claimed_at for verdict in verdicts],
                [batch.queue.key_text(verdict.lease.key) for verdict in verdicts],
                [verdict.failure.traceback for verdict in verdicts],
            ]
        elif batch.move.error is ErrorChange.SET:
            plain += [[verdict.code for verdict in verdicts], [verdict.error for verdict in verdicts]]
        arrays += [(unchanged, values) for values in plain]
        arrays += self._key_parts([verdict.lease.record for verdict in verdicts])
        for name in batch.columns:
            convert = element_converter(self.sql, batch.queue.by_name[name])
            values = (verdict.values[name] for verdict in verdicts)
            arrays.append((unchanged, flat(values if convert is None else map(convert, values))))
        return arrays
