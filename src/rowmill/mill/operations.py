"""The operations of a queue for people and dashboards, from Python: counts, list, why, requeue, cancel, prune."""

import builtins
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypedDict, TypeVar, Unpack
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy import Connection

from rowmill.model.duration import Duration, in_seconds
from rowmill.model.errors import BadRequest
from rowmill.model.lifecycle import StateKind
from rowmill.model.option_names import check_options
from rowmill.model.queue import QueueSpec as QueueModel
from rowmill.model.states import Word
from rowmill.store.open import reachable
from rowmill.store.own import schema

if TYPE_CHECKING:  # a worker asks none of these questions, and imports nothing for them
    from rowmill.mill.mill import Mill
    from rowmill.operator import RowCounts, RowView, Why
    from rowmill.operator.filters import Filter, When

R = TypeVar("R")
T = TypeVar("T")
KEY_PARTS = (str, int, float, Decimal, UUID, date, Enum)
"""What a part of a key may be."""
FIRST_ROWS = 100
"""The default limit of `list`."""


class RowFilter(TypedDict, total=False):
    """Selects rows. An option that is left out does not filter."""

    state: Word | Sequence[Word]
    """Words of the table, or what they mean: ready, waiting, running, done, dead, cancelled, unknown."""
    stage: str
    error_code: str
    """The code of the last failure."""
    since: float | timedelta | datetime
    """Rows changed after this: seconds ago (`rm.hours(6)`), a timedelta ago, or a datetime (UTC if it has no zone)."""
    until: float | timedelta | datetime
    """Changed before this."""
    where: "sa.ColumnElement[bool] | sa.TextClause"
    """A condition of SQLAlchemy: `Article.title == "cup"`, or `sa.text("size > 1000")`."""


class QueueOperations(QueueModel[R], Generic[R]):
    """The operations of a queue: they answer questions about its rows and change them, as the command line does.

    Each method exists twice: `await articles.counts()` for code in an event loop, and `articles.counts_sync()` for code
    without one. Inside a running loop, the second kind raises BadRequest and names the first.
    """

    mill: "Mill"

    async def counts(self) -> "RowCounts":
        """Count the rows by state. Exact on small tables; on big ones, finished rows are estimated.

        counts = await articles.counts()
        if counts.dead: ...
        """
        from rowmill.operator.counts import RowCounts, counts

        sql = self.mill.store.sql(self)
        return await self._read(lambda connection: RowCounts(tuple(counts(connection, sql))))

    def counts_sync(self) -> "RowCounts":
        """`counts` for code without an event loop."""
        return self.mill.run_blocking(self.counts, "counts_sync()", "await queue.counts()")

    async def why(self, key: Any) -> "Why":
        """Return why a row is not worked on: a lease, its backoff, a limit, a pause, no worker; or that it is finished.
        Raises UnknownRow if no row has this key.

        print(await articles.why(17))
        """
        from rowmill.limits.obstacles import limit_obstacles
        from rowmill.operator.why import Why, why

        sql, closed = self.mill.store.sql(self), partial(limit_obstacles, self.mill.limits, self)
        text = self._typed(key)
        row, holds = await self._read(lambda connection: why(connection, sql, text, closed))
        return Why(row, tuple(holds))

    def why_sync(self, key: Any) -> "Why":
        """`why` for code without an event loop."""
        return self.mill.run_blocking(partial(self.why, key), "why_sync()", "await queue.why(key)")

    async def requeue(
        self, *keys: Any, to_stage: str | None = None, limit: int | None = None, **which: Unpack[RowFilter]
    ) -> int:
        """Put rows back: ready now, attempts at zero, error cleared. Return how many.

        Name the rows by their keys, by a filter, or by both; a filter means dead rows unless it has a `state`. Without
        either, nothing is changed. A row that somebody works on stays, and so does one that a constraint of the table
        refuses. With several stages, a dead row begins again at the one that failed, or at `to_stage`.

        await articles.requeue(17, 18)
        await articles.requeue(error_code="timeout", since=rm.hours(6))
        """
        from rowmill.operator.change import requeue

        wanted = self._filter("requeue()", keys, which, limit, "to_stage")
        if wanted.empty:
            return 0
        if not wanted.states and not wanted.keys:
            wanted = replace(wanted, states=(StateKind.DEAD.value,))
        async with self.mill.opened() as store:
            with reachable(self.mill.url):
                return (await requeue(store, self, wanted, stage=to_stage, most=limit)).rows

    def requeue_sync(
        self, *keys: Any, to_stage: str | None = None, limit: int | None = None, **which: Unpack[RowFilter]
    ) -> int:
        """`requeue` for code without an event loop."""
        work = partial(self.requeue, *keys, to_stage=to_stage, limit=limit, **which)
        return self.mill.run_blocking(work, "requeue_sync()", "await queue.requeue(...)")

    async def cancel(self, *keys: Any, limit: int | None = None, **which: Unpack[RowFilter]) -> int:
        """Cancel rows that nobody has taken yet. Return how many. They stay in the table, as cancelled.

        Name the rows by their keys, by a filter, or by both; without either, nothing is changed. The queue needs a word
        for cancelled rows: `States(cancelled="cancelled")`.

        await articles.cancel(17)
        await articles.cancel(where=Article.project_id == 4)
        """
        from rowmill.operator.change import cancel

        wanted = self._filter("cancel()", keys, which, limit)
        if wanted.empty:
            return 0
        async with self.mill.opened() as store:
            with reachable(self.mill.url):
                return (await cancel(store, self, wanted, most=limit)).rows

    def cancel_sync(self, *keys: Any, limit: int | None = None, **which: Unpack[RowFilter]) -> int:
        """`cancel` for code without an event loop."""
        work = partial(self.cancel, *keys, limit=limit, **which)
        return self.mill.run_blocking(work, "cancel_sync()", "await queue.cancel(...)")

    async def prune(
        self, older_than: Duration, *keys: Any, limit: int | None = None, **which: Unpack[RowFilter]
    ) -> int:
        """Delete rows that finished at least `older_than` (seconds or a `timedelta`) ago. Return how many.

        Done and cancelled rows, unless the filter has a `state` or you name keys. They go in small batches, each in a
        transaction of its own; a row that is locked, or that another table refers to, stays. A row without a
        `finished_at` ages by `updated_at`, or else by `created_at`.

        await articles.prune(rm.days(7))
        await articles.prune(rm.days(30), state="dead")
        """
        from rowmill.operator.change import prune

        wanted = self._filter("prune()", keys, which, limit, "older_than")
        if not wanted.states and not wanted.keys:
            wanted = replace(wanted, states=(StateKind.DONE.value, StateKind.CANCELLED.value))
        age = timedelta(seconds=in_seconds(older_than))
        async with self.mill.opened() as store:
            with reachable(self.mill.url):
                return (await prune(store, self, wanted, age, most=limit)).rows

    def prune_sync(self, older_than: Duration, *keys: Any, limit: int | None = None, **which: Unpack[RowFilter]) -> int:
        """`prune` for code without an event loop."""
        work = partial(self.prune, older_than, *keys, limit=limit, **which)
        return self.mill.run_blocking(work, "prune_sync()", "await queue.prune(...)")

    async def list(self, *keys: Any, limit: int = FIRST_ROWS, **which: Unpack[RowFilter]) -> "builtins.list[RowView]":
        """Return the progress of rows in the order of their keys, `limit` at the most.

        for row in await articles.list(state="dead", since=rm.hours(6)):
            print(row.key, row.attempts, row.error)
        """
        from rowmill.operator.browse import list_rows

        sql, wanted = self.mill.store.sql(self), self._filter("list()", keys, which, limit)
        return await self._read(lambda connection: list_rows(connection, sql, wanted, limit))

    def list_sync(self, *keys: Any, limit: int = FIRST_ROWS, **which: Unpack[RowFilter]) -> "builtins.list[RowView]":
        """`list` for code without an event loop."""
        work = partial(self.list, *keys, limit=limit, **which)
        return self.mill.run_blocking(work, "list_sync()", "await queue.list(...)")

    async def _read(self, work: Callable[[Connection], T]) -> T:
        return await self.mill.run(schema.checked(work), write=False)

    def _filter(self, method: str, keys: Sequence[Any], which: RowFilter, limit: int | None, *besides: str) -> "Filter":
        from rowmill.operator.filters import Filter

        check_options(method, which, (*RowFilter.__annotations__, "limit", *besides))
        if limit is not None and limit < 0:
            raise BadRequest(f"limit must be 0 or more, not {limit}")
        state, where = which.get("state", ()), which.get("where")
        if isinstance(where, str):
            raise BadRequest("where=... takes a condition of SQLAlchemy. For text of your own: where=sa.text(...)")
        return Filter(
            states=tuple(map(self._state, (state,) if isinstance(state, (str, int, Enum)) else state)),
            stage=which.get("stage"),
            error_code=which.get("error_code"),
            since=_time("since", which.get("since")),
            until=_time("until", which.get("until")),
            keys=tuple(self._typed(key) for key in keys),
            condition=None if where is None else sa.and_(where),
        )

    def _typed(self, key: Any) -> str:
        """Return a key as an operator would type it: as JSON if it has several parts, which may contain the
        separator."""
        parts = tuple(key) if isinstance(key, (tuple, sa.Row)) else (key,)
        for part in parts:
            if not isinstance(part, KEY_PARTS):
                raise BadRequest(
                    f"the key of a row of {self.name} is a value, or a tuple of them, not {type(part).__name__}. Name "
                    "several rows one by one: 17, 18, or *keys"
                )
        texts = [part.name if isinstance(part, Enum) else str(part) for part in parts]
        return texts[0] if len(texts) == 1 else json.dumps(texts)

    def _state(self, word: Word) -> str:
        """Return a state as an operator would type it."""
        if isinstance(word, Enum):
            words = (*self.vocabulary.all_of(frozenset(StateKind)), *self.vocabulary.others)
            return word.name if word in words else str(word.value)
        return str(word)


def _time(option: str, given: Any) -> "When | None":
    if given is None or isinstance(given, (timedelta, datetime)):
        return given
    try:
        return timedelta(seconds=given)
    except (TypeError, ValueError, OverflowError):
        raise BadRequest(
            f"{option}=... takes seconds ago, as in rm.hours(6), a timedelta or a datetime, not {given!r}"
        ) from None
