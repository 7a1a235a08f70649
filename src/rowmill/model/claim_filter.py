"""Checks the `where=` condition of a queue that claims only some of its table's rows."""

from collections.abc import Callable, Iterator
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Column, Table
from sqlalchemy.exc import ArgumentError
from sqlalchemy.sql import visitors
from sqlalchemy.sql.elements import BindParameter, ColumnClause, FunctionFilter, Over, TextClause, WithinGroup
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.sql.selectable import SelectBase
from sqlalchemy.types import NullType

from rowmill.model.declare import TAKEN_FOR_PARAMETERS

Condition = sa.ColumnElement[bool]
TAKEN = "where=... has a text that SQLAlchemy takes for a parameter of its own: use another value"
AGGREGATES = frozenset({"count", "sum", "avg", "min", "max", "array_agg", "string_agg", "group_concat", "total"})


def checked(given: Any, table: Table, spell: Callable[[Condition], str]) -> tuple[Condition | None, list[str]]:
    """Return the condition over plain columns of the table, and a list of what is wrong with it. `spell` renders it as
    SQL."""
    if given is None:
        return None, []
    example = f"as in where={table.name}.c.{table.columns[0].name} == ..."
    if isinstance(given, (bool, str)):
        return None, [f"where=... takes a condition over columns, {example}, not {given!r}"]
    try:
        condition = sa.and_(given)
    except ArgumentError:
        return None, [f"where=... takes a condition over columns, {example}, not {type(given).__name__}"]
    problems = list(dict.fromkeys(_problems(condition, table)))
    if not problems and not isinstance(condition.type, (sa.Boolean, NullType)):
        problems.append(
            f"where=... is {condition.type!r}, not a condition: compare it with something. For an operator that "
            "SQLAlchemy does not know to be one, write column.bool_op(...)"
        )
    if not problems:
        condition = _plain(condition, table)
        problems += _unspellable(condition, spell)
    return condition, problems


def _problems(condition: Condition, table: Table) -> Iterator[str]:
    own = set(table.columns)
    for part in visitors.iterate(condition):
        match part:
            case SelectBase():
                yield "where=... has a sub-query, which a claim can't lock rows by: use columns of the table alone"
            case TextClause():
                yield "where=... has SQL as text, which can't be checked: write it with columns of the table"
            case Over() | WithinGroup() | FunctionFilter():
                yield "where=... has a window or an aggregate: a row is claimed by what it holds itself"
            case FunctionElement() if _aggregates(part):
                yield f"where=... has the aggregate {part.name}(): a row is claimed by what it holds itself"
            case ColumnClause() if part not in own:
                yield f"where=... names column {part}, which is not one of table {table.name}"
            case BindParameter() if part.required and part.value is None and part.callable is None:
                yield f"where=... has the parameter {part.key} without a value: write the value itself"
            case BindParameter(value=str() as text) if TAKEN_FOR_PARAMETERS.search(text):
                yield TAKEN  # some versions of SQLAlchemy put something else in its place at once


def _aggregates(function: Any) -> bool:
    name = str(getattr(function, "name", "")).lower()
    return name in AGGREGATES and not (name in ("min", "max") and len(function.clauses) > 1)


def _plain(condition: Condition, table: Table) -> Condition:
    """Return the condition with the columns of the Table in place of attributes of an ORM class."""
    by_name = {column.name: column for column in table.columns}

    def replaced(element: Any, **_: Any) -> Any:
        return by_name[element.name] if isinstance(element, Column) else None

    plain: Condition = visitors.replacement_traverse(condition, {}, replaced)
    return plain


def _unspellable(condition: Condition, spell: Callable[[Condition], str]) -> Iterator[str]:
    try:
        text = spell(condition)
    except Exception as error:
        why = str(error).partition("(Background")[0].strip()
        yield f"where=... has a value that can't be written into a statement: {type(error).__name__}: {why}"
        return
    if TAKEN_FOR_PARAMETERS.search(text) or "\0" in text:
        yield TAKEN
