"""The statements of one queue, each built once, with its watermarks and refused rows."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import cached_property
from operator import itemgetter
from typing import Any

from rowmill.model.lease import Lease
from rowmill.model.states import Step
from rowmill.store.keys import Key
from rowmill.store.order_per_key import Search
from rowmill.store.postgres.sql import PostgresQueueSql
from rowmill.store.postgres.values import ToArray, as_text, key_converter, sent_as_own_type
from rowmill.store.refused_rows import RefusedRows
from rowmill.store.row_sizes import RowSizer
from rowmill.store.rows import RowLoader, row_loader
from rowmill.store.watermark import Position, Watermark

PLACE = itemgetter(-2)
"""The place of a record in its claim."""


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
        return row_loader(self.sql)

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

    def position(self, record: Any) -> Position:
        """Return the position of a claimed row in the index, in the driver's values."""
        level = None if self.level_name is None else (record[self.level_name] or 0)
        return level, record[self.available_name], tuple(record[name] for name in self.sequence_names)

    def refused(self, step: Step) -> RefusedRows:
        return self.refusals[step.name]

    def once(self, build: Callable[..., str], *parts: Any, **options: Any) -> str:
        """Return the statement that `build(sql, *parts, **options)` makes. It is built at its first use."""
        # Stages, moves and columns go by their names: to hash a stage would hash the user's backoff.
        wanted = (build, *[getattr(part, "name", part) for part in parts], *options.items())
        found = self.texts.get(wanted)
        if found is None:
            found = self.texts[wanted] = build(self.sql, *parts, **options)
        return found

    def key_arrays(self, leases: Sequence[Lease[Any]]) -> list[Any]:
        """Return the keys of these rows, as one array per key column."""
        return [convert(parts) for convert, parts in self.key_parts([lease.record for lease in leases])]

    def key_parts(self, records: Sequence[Any]) -> "list[tuple[ToArray, list[Any]]]":
        places = (place for place, _ in self.load.key_places)
        return [
            (convert, [record[place] for record in records])
            for place, convert in zip(places, self.key_converters, strict=True)
        ]

    def raw_key_arrays(self, keys: Sequence[Key]) -> list[Any]:
        return [convert([key[n] for key in keys]) for n, convert in enumerate(self.key_converters)]
