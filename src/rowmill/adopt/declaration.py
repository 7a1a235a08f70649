"""Generate the Python code that declares an adopted table."""

import json
from dataclasses import fields
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Column

from rowmill.adopt import known_names
from rowmill.adopt.flags import HeldBack
from rowmill.adopt.guess import AdoptOptions, StateGuess
from rowmill.adopt.roles import Roles
from rowmill.adopt.table_facts import DOMAINS, RETYPED, TableFacts
from rowmill.model.lifecycle import StateKind
from rowmill.model.queue import Columns, Order, QueueSpec

WIDTH = 100


def declaration(
    facts: TableFacts,
    queue: QueueSpec[Any],
    columns: Columns,
    order: Order,
    states: StateGuess,
    roles: Roles,
    choices: AdoptOptions,
    held: list[HeldBack],
) -> str:
    """Return code to paste: a reflected Table, and the lines to add to an ORM class."""
    table = facts.table
    overrides = _packed(_columns(facts, queue, roles))
    where = [] if table.schema is None else [f"schema={_literal(table.schema)}"]
    references = ["resolve_fks=False"] if table.foreign_keys else []
    options = [*_call("columns", "Columns", _differing(columns)), *_call("states", "States", _states(states))]
    if order != Order():
        options += _call("order", "Order", _set_fields(order))
    policies = [f"lease={_seconds(choices.lease)}"]
    if queue.epoch != "s":
        policies.append(f"epoch={_literal(queue.epoch)}")
    if queue.counting != "attempts":
        policies.append(f"counts={_literal(queue.counting)}")
    if queue.finished_on != "final":
        policies.append(f"finished_on={_literal(queue.finished_on)}")
    name = known_names.plain(table.name) or "rows"
    options += _packed([*policies, *_where(f"{name}_table", held)])
    on_expression = queue.priority is not None and queue.priority.nullable
    quiet = [] if not on_expression else [
        "",
        "# SQLAlchemy can't reflect an index on an expression, and says so.",
        'warnings.filterwarnings("ignore", message="Skipped unsupported reflection of expression-based index")',
    ]  # fmt: skip
    lines = [
        *(["import warnings", ""] if quiet else []),
        "import rowmill as rm",
        "import sqlalchemy as sa",
        *quiet,
        "",
        "mill = rm.Mill()  # the database of DATABASE_URL",
        "",
        f"{name}_table = sa.Table(",
        f"    {_literal(table.name)}, sa.MetaData(),",
        *overrides,
        *_packed([*where, *references, "autoload_with=mill.store.sync_engine"]),
        ")",
        f"{name} = mill.queue(",
        f"    {name}_table,",
        *options,
        ")",
        "",
        # As a comment: a handler that does nothing would finish the rows.
        "# Add your handler. What it returns is written into the row, with the state:",
        "#",
        f"# @{name}.handler(concurrency=8)",
        "# async def work(lease: rm.Lease[rm.Record]):",
        '#     return {"a_column": await your_work(lease.row)}',
    ]
    added = [column for column in queue.table.columns if column.name not in table.columns]
    if added:
        lines += ["", "# An ORM class goes in the place of the Table. Add to it:"]
        lines += [f"#     {_attribute(column)}" for column in added]
    return "\n".join(lines) + "\n"


def _where(table: str, held: list[HeldBack]) -> list[str]:
    """Return the condition for claims, if some rows are held back."""
    free = [one.free.format(f"{table}.c[{_literal(one.column)}]") for one in held]
    if len(free) > 1:
        free = [f"sa.and_({', '.join(free)})"]
    return [f"where={condition}" for condition in free]


def _packed(parts: list[str], indent: str = "    ") -> list[str]:
    """Wrap arguments over lines, as many per line as fit."""
    lines: list[str] = []
    for part in parts:
        if lines and len(lines[-1]) + len(part) + 2 <= WIDTH:
            lines[-1] += f" {part},"
        else:
            lines.append(f"{indent}{part},")
    return lines


def _columns(facts: TableFacts, queue: QueueSpec[Any], roles: Roles) -> list[str]:
    """Return the columns that the migration adds or changes, and those whose type the database does not know. With
    them, the declaration is valid before and after the migration."""
    found = []
    for column in queue.table.columns:
        there = facts.table.columns.get(column.name)
        if there is None:
            options = "" if column.nullable else ", nullable=False"
            found.append(f"sa.Column({_literal(column.name)}, {_kind(column)}{options}{_default(column)})")
        elif (
            column.name in roles.types
            or there.nullable != column.nullable
            or repr(there.type) != repr(column.type)
            or ((there.info.get(DOMAINS) or there.info.get(RETYPED)) and column in queue.columns.values())
        ):
            found.append(f"sa.Column({_literal(column.name)}, {_kind(column)})")
    return found


def _kind(column: "Column[Any]") -> str:
    match column.type:
        case sa.DateTime(timezone=True):
            return "sa.DateTime(timezone=True)"
        case sa.DateTime():
            return "sa.DateTime"
        case sa.BigInteger():
            return "sa.BigInteger"
        case sa.Integer():
            return "sa.Integer"
        case sa.Enum() as kind:
            where = f", schema={_literal(kind.schema)}" if kind.schema else ""
            return f"sa.Enum({', '.join(map(_literal, kind.enums))}, name={_literal(kind.name)}{where})"
        case sa.Numeric() | sa.Float():
            return "sa.Float"
        case _:
            return "sa.Text"


def _attribute(column: "Column[Any]") -> str:
    python = {"sa.BigInteger": "int", "sa.Integer": "int", "sa.Text": "str"}.get(_kind(column), "datetime")
    optional = " | None" if column.nullable else ""
    return f"{column.name}: Mapped[{python}{optional}] = mapped_column({_kind(column)}{_default(column)})"


def _default(column: "Column[Any]") -> str:
    if column.server_default is None:
        return ""
    arg = getattr(column.server_default, "arg", "")
    return f", server_default={_literal(str(getattr(arg, 'text', arg)))}"


def _differing(columns: Columns) -> dict[str, Any]:
    given = Columns()
    return {role: name for role, name in columns.items() if getattr(given, role) != name}


def _set_fields(value: Any) -> dict[str, Any]:
    return {f.name: getattr(value, f.name) for f in fields(value) if getattr(value, f.name) != f.default}


def _states(states: StateGuess) -> dict[str, Any]:
    found = {}
    for kind in StateKind:
        words = states.words.get(kind, ())
        if words:
            found[str(kind)] = words[0] if len(words) == 1 else words
    if states.others:
        found["others"] = states.others
    return found


def _call(option: str, name: str, values: dict[str, Any]) -> list[str]:
    """Return `option=rm.Name(…),`, on one line if it fits."""
    given = [f"{key}={_literal(value)}" for key, value in values.items()]
    line = f"    {option}=rm.{name}({', '.join(given)}),"
    if len(line) <= WIDTH:
        return [line]
    return [f"    {option}=rm.{name}(", *_packed(given, " " * 8), "    ),"]


def _literal(value: Any) -> str:
    """Return a literal with double quotes, as a formatter would write it."""
    if isinstance(value, tuple):
        return f"({', '.join(map(_literal, value))}{',' if len(value) == 1 else ''})"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)


def _seconds(seconds: float) -> str:
    return f"rm.minutes({seconds / 60:g})" if seconds % 60 == 0 else f"rm.seconds({seconds:g})"
