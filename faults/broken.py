"""The engine with one guard removed. A lab that does not detect it is worthless."""

import re
from collections.abc import Callable, Sequence
from typing import Any

import sqlalchemy as sa

from rowmill.model.lifecycle import BURY, RELEASE, Move
from rowmill.model.states import Step
from rowmill.operator import change
from rowmill.operator.filters import Filter
from rowmill.store import rescue as rescuing
from rowmill.store.postgres import renew as postgres_renew
from rowmill.store.postgres import settle as postgres_settle
from rowmill.store.queue_sql import QueueSql
from rowmill.store.sqlite import settle as sqlite_settle
from rowmill.store.sqlite import store as sqlite_store

Builds = Callable[..., str]

FENCE = re.compile(r' AND (?:t\.)?"?lease"? = (?:g_lease|:lease)')
"""The condition that the lease still holds, in the statements of both databases."""


def unfenced(build: Builds, applies: Callable[[Move], bool] | None = None) -> Builds:
    """Wrap a builder of statements so that they check no lease, for some moves or always."""

    def built(sql: Any, *about: Any, **options: Any) -> str:
        statement = build(sql, *about, **options)
        if applies is not None and not applies(about[1]):
            return statement
        broken = FENCE.sub("", statement)
        assert broken != statement
        return broken

    return built


def unfence(names: Sequence[str], applies: Callable[[Move], bool] | None = None) -> None:
    for module in (postgres_settle, postgres_renew, sqlite_settle, sqlite_store):
        for name in names:
            if hasattr(module, name):
                setattr(module, name, unfenced(getattr(module, name), applies))


def without_settle_fence() -> None:
    """Write every verdict but a release, whoever holds the row."""
    unfence(("settle_statement", "settle_alike_statement"), lambda move: move is not RELEASE)


def without_release_fence() -> None:
    """Release a row, whoever holds it."""
    unfence(("settle_statement", "settle_alike_statement"), lambda move: move is RELEASE)


def without_renew_fence() -> None:
    """Renew a lease, whoever holds the row."""
    unfence(("renew_statement",))


class SqlWithFastClock:
    """The SQL of a queue with a clock that is an hour ahead."""

    def __init__(self, sql: Any) -> None:
        self._sql = sql

    def now(self, column: str) -> str:
        return str(self._sql.later(column, "3600.0"))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sql, name)


def without_rescue_guard() -> None:
    """Take rows from workers whose leases are valid."""
    rescue = rescuing.rescue

    def hasty(connection: Any, sql: Any, step: Step, most: int, **options: Any) -> rescuing.Rescued:
        return rescue(connection, SqlWithFastClock(sql), step, most, **options)  # type: ignore[arg-type]

    rescuing.rescue = hasty


def without_due_time() -> None:
    """Claim rows before their backoff is over."""
    QueueSql.due = property(lambda self: f"{self.available_at} IS NOT NULL")  # type: ignore[method-assign, assignment]


def without_second_chance() -> None:
    """Bury all rows of a dead worker, at any attempt."""

    def merciless(connection: Any, sql: Any, step: Step, rows: Sequence[Any], retry_alone: bool) -> rescuing.Rescued:
        return rescuing.Rescued(buried=len(rescuing._rescue_as(BURY, connection, sql, step, rows, sa.true())))

    rescuing._give_back = merciless


def without_requeue_guard() -> None:
    """Let operators requeue running rows."""
    setattr(change, "requeueable", _any_row)  # noqa: B010


def without_cancel_guard() -> None:
    """Let operators cancel running and finished rows."""
    setattr(change, "cancellable", _any_row)  # noqa: B010


def without_prune_guard() -> None:
    """Let operators delete unfinished rows."""
    setattr(change, "prunable", lambda sql, wanted, older_than: [_any_row(sql, wanted)])  # noqa: B010


def _any_row(sql: QueueSql, wanted: Filter) -> "sa.ColumnElement[bool]":
    """Match rows in any state."""
    return sa.and_(sa.true(), *wanted.conditions(sql))


GUARDS: dict[str, Callable[[], None]] = {
    "settle": without_settle_fence,
    "release": without_release_fence,
    "renew": without_renew_fence,
    "rescue": without_rescue_guard,
    "due": without_due_time,
    "chance": without_second_chance,
    "requeue": without_requeue_guard,
    "cancel": without_cancel_guard,
    "prune": without_prune_guard,
}
