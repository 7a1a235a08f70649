"""Build the queue as it will be after the migration."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Column, MetaData, Table
from sqlalchemy.engine import Dialect

from rowmill.adopt import known_names
from rowmill.adopt.guess import AdoptOptions, StateGuess
from rowmill.adopt.roles import Roles
from rowmill.adopt.table_facts import TableFacts
from rowmill.model import declare
from rowmill.model.errors import MESSAGE_LENGTH
from rowmill.model.lifecycle import StateKind
from rowmill.model.queue import REQUIRED, Columns, Order, QueueSpec
from rowmill.model.retry import Retry
from rowmill.model.states import States as StateWords
from rowmill.model.states import Word, vocabulary
from rowmill.store.postgres.sql import PostgresQueueSql
from rowmill.store.queue_sql import QueueSql
from rowmill.store.sqlite.sql import SqliteQueueSql


def sql_of(queue: QueueSpec[Any], dialect: Dialect) -> QueueSql:
    return PostgresQueueSql(queue, dialect) if dialect.name == "postgresql" else SqliteQueueSql(queue, dialect)


def future_table(facts: TableFacts, states: StateGuess, roles: Roles) -> tuple[Table, Columns]:
    """Return the table as it will be after the migration, and which column holds what."""
    table = facts.table.to_metadata(MetaData())
    for name, kind in roles.types.items():
        table.columns[name].type = kind
    names = dict(roles.names) | ({} if states.column is None else {"state": states.column})
    for role in REQUIRED:
        if role not in names:
            names[role] = _free_name(table, role)
            table.append_column(_new_column(role, names[role], states))
    for role in set(declare.NULLABLE) & set(names):
        table.columns[names[role]].nullable = True
    state, error = table.columns[names["state"]], table.columns[names["error"]]
    words = [word for words in states.words.values() for word in words]
    if isinstance(state.type, sa.Enum):
        labels = list(dict.fromkeys([*state.type.enums, *map(str, words)]))
        if labels != state.type.enums:
            state.type = _with_labels(state.type, labels)
    elif isinstance(state.type, sa.String):
        longest = max(len(str(word)) for word in words)
        if state.type.length is not None and state.type.length < longest:
            state.type = sa.Text()
    if isinstance(error.type, sa.String) and (error.type.length or MESSAGE_LENGTH) < MESSAGE_LENGTH:
        error.type = error.type if error.name in facts.bound else sa.Text()  # errors are cut to what fits
    return table, Columns(**{role: name for role, name in names.items() if role != "priority"})


def _with_labels(kind: sa.Enum, labels: list[str]) -> "sa.types.TypeEngine[Any]":
    from sqlalchemy.dialects.postgresql import ENUM

    return ENUM(*labels, name=kind.name, schema=kind.schema, create_type=False)


def _free_name(table: Table, role: str) -> str:
    for name in (role, *(prefix + role for prefix in known_names.PREFIXES)):
        if name not in table.columns:
            return name
    raise ValueError(f"table {table.name} has no free name for {role}")


def _new_column(role: str, name: str, states: StateGuess) -> "Column[Any]":
    moment = sa.DateTime(timezone=True)
    match role:
        case "state":
            return Column(name, sa.Text, server_default=str(states.words[StateKind.READY][0]))
        case "attempts":
            return Column(name, sa.Integer, nullable=False, server_default="0")
        case "lease":
            return Column(name, sa.BigInteger)
        case "error":
            return Column(name, sa.Text)
        case _:
            return Column(name, moment)


def state_words(words: Mapping[StateKind, tuple[Word, ...]], others: tuple[Word, ...] = ()) -> StateWords:
    def of(kind: StateKind) -> Any:
        found = words.get(kind, ())
        return found[0] if len(found) == 1 else found or None

    given = StateWords(of(StateKind.READY), of(StateKind.RUNNING), of(StateKind.DONE), of(StateKind.DEAD))
    return replace(given, waiting=of(StateKind.WAITING), cancelled=of(StateKind.CANCELLED), others=others or None)


def order_of(facts: TableFacts, roles: Roles, choices: AdoptOptions) -> Order:
    """Return the order of claims: by priority if there is one; oldest first if the key does not tell which row is
    older."""
    keys = list(facts.table.primary_key.columns)
    by: tuple[str, ...] = ()
    created = roles.names.get("created_at")
    counted = len(keys) == 1 and isinstance(keys[0].type, sa.Integer)
    # A NULL in a column of the order is never beyond a watermark: such rows could be passed over.
    if created is not None and not counted and not facts.table.columns[created].nullable:
        by = (created,)
    return Order(priority=roles.names.get("priority"), lower_first=choices.lower_first, by=by)


def build_queue(
    facts: TableFacts, states: StateGuess, roles: Roles, choices: AdoptOptions, dialect: Dialect
) -> tuple[QueueSpec[Any], Columns, Order]:
    """Build the queue and check it like `Mill.queue` does. Raises DeclarationError with all problems."""
    table, columns = future_table(facts, states, roles)
    order = order_of(facts, roles, choices)
    names = declare.columns_by_name(table, None)
    checked = declare.DeclarationChecker(table.name, table, names)
    mapped = checked.columns(columns)
    words = vocabulary(state_words(states.words, states.others), (), Retry(), choices.lease, None)
    checked.words(words, mapped.get("state"))
    priority, order_by = checked.order(order)
    checked.epoch(roles.epoch, mapped)
    checked.check()
    queue: QueueSpec[Any] = QueueSpec(
        name=table.name, table=table, mapper=None, columns=mapped, names=names, vocabulary=words,
        priority=priority, lower_first=order.lower_first, order_by=order_by, epoch=roles.epoch,
        counts="failures" if known_names.counts_failures(columns.attempts) else "attempts",
        finished_on=roles.finished_on,
    )  # fmt: skip
    return queue, columns, order
