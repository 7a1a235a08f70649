"""`rowmill list`, `show` and `why`: rows, and why they wait."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, TypeVar

import typer
from sqlalchemy import Connection

from rowmill.cli.app import load_mill
from rowmill.cli.choosing import filter_from, usage_errors_in_where
from rowmill.cli.exits import UsageError
from rowmill.cli.help import LOOK
from rowmill.cli.options import (
    AppOption,
    ErrorCodeOption,
    JsonOption,
    KeyArgument,
    KeyOption,
    LimitOption,
    QueueArgument,
    SinceOption,
    StageOption,
    StateOption,
    UntilOption,
    UrlOption,
    WhereOption,
)
from rowmill.cli.output import clock, emit, one_line, printable, table
from rowmill.limits.obstacles import limit_obstacles
from rowmill.mill import Mill
from rowmill.operator import browse
from rowmill.operator.browse import AttemptView, Sort
from rowmill.operator.why import why as find_why
from rowmill.store.own import schema

T = TypeVar("T")
WIDTH = 60
"""Width of a text in a table."""
LONG = 1000
"""Characters of a value that `show` prints."""


def register(app: typer.Typer) -> None:
    app.command("list", rich_help_panel=LOOK)(list_rows)
    app.command(rich_help_panel=LOOK)(show)
    app.command(rich_help_panel=LOOK)(why)


def list_rows(
    queue: QueueArgument,
    state: StateOption = None,
    stage: StageOption = None,
    error_code: ErrorCodeOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    where: WhereOption = None,
    key: KeyOption = None,
    columns: Annotated[
        str | None, typer.Option("--columns", metavar="A,B", help="Show these columns of the table instead.")
    ] = None,
    sort: Annotated[
        str | None,
        typer.Option("--sort", metavar="COLUMN", help="Sort by this column. An index must start with it."),
    ] = None,
    desc: Annotated[bool, typer.Option("--desc", help="Sort descending. Needs --sort.")] = False,
    limit: LimitOption = 20,
    app: AppOption = None,
    database_url: UrlOption = None,
    json: JsonOption = False,
) -> None:
    """List rows by key, or in the order of --sort.

    \b
    Example:
      rowmill list files --state dead --since 6h
      rowmill list files --columns id,path,size --sort created_at --desc
      rowmill list files --where "size > 1000000" --json
    """
    mill = load_mill(app, database_url)
    sql = mill.store.sql(mill[queue])
    wanted = filter_from(state, stage, error_code, since, until, where, key)
    if desc and sort is None:
        raise UsageError("--desc needs a column to sort by, as in --sort created_at --desc")
    order = None if sort is None else Sort(sort, desc)
    named = None if columns is None else [name.strip() for name in columns.split(",") if name.strip()]
    if named == []:
        raise UsageError("--columns takes the names of columns, as in --columns id,status")
    found: list[Any]
    with usage_errors_in_where(wanted):
        if named is None:
            found = read(mill, lambda c: browse.list_rows(c, sql, wanted, limit + 1, order))
        else:
            found = read(mill, lambda c: browse.list_values(c, sql, wanted, limit + 1, named, order))
    more = len(found) > limit
    found = found[:limit]

    def shown() -> None:
        if named is None:
            heads = ["key", "state", "kind", "attempts", "available", "error"]
            table(heads, [[r.key, r.state or "NULL", r.kind, r.attempts, clock(r.available_at), cut(r.error)]
                          for r in found])  # fmt: skip
        else:
            table(named, [["NULL" if r[name] is None else cut(one_line(r[name])) for name in named] for r in found])
        if more:
            print(f"… and more: --limit {limit * 10} shows them")

    emit({"queue": queue, "rows": found, "more": more}, json, shown if found else "no rows")


def show(
    queue: QueueArgument,
    key: KeyArgument,
    full: Annotated[bool, typer.Option("--full", help="Print long values in full, and every traceback.")] = False,
    app: AppOption = None,
    database_url: UrlOption = None,
    json: JsonOption = False,
) -> None:
    """Show one row: its columns, every failed attempt, and the last traceback if workers store them.

    \b
    Example:
      rowmill show files 17
    """
    mill = load_mill(app, database_url)
    sql = mill.store.sql(mill[queue])
    row, values, attempts = read(
        mill,
        lambda c: (browse.find_row(c, sql, key), browse.values(c, sql, key), browse.history(c, sql, key)),
    )
    shown_values = values if full or json else {name: shortened(value) for name, value in values.items()}

    def shown() -> None:
        stage = f", stage {row.stage}" if row.stage and len(mill[queue].steps) > 1 else ""
        counted = mill[queue].counting
        print(f"{queue} {row.key}: {row.state or 'NULL'} ({row.kind}{stage}), {row.attempts} {counted}")
        table(["column", "value"], [[name, "NULL" if v is None else v] for name, v in shown_values.items()])
        if attempts:
            print()
            table(["stage", "attempt", "ended", "worker", "code", "message"], [history_row(one) for one in attempts])
        traced = [one for one in attempts if one.traceback]
        for one in traced if full else traced[-1:]:
            print(printable(f"\nattempt {one.attempt} at stage {one.stage}, {one.code}:\n{one.traceback}"))
        if len(traced) > 1 and not full:
            print(f"\n--full shows the tracebacks of {len(traced) - 1} more")

    data = {"queue": queue, "key": row.key, "row": row, "values": shown_values, "history": attempts}
    emit(data, json, shown)


def why(
    queue: QueueArgument,
    key: KeyArgument,
    app: AppOption = None,
    database_url: UrlOption = None,
    json: JsonOption = False,
) -> None:
    """Explain why a row is not processed: a lease, its backoff, a limit, a pause, the order of its key, no worker; or
    that it is finished.

    \b
    Example:
      rowmill why files 17
    """
    mill = load_mill(app, database_url)
    sql = mill.store.sql(mill[queue])
    row, holds = read(mill, lambda c: find_why(c, sql, key, partial(limit_obstacles, mill.limits, mill[queue])))
    data = {"queue": queue, "key": row.key, "state": row.state, "kind": row.kind, "stage": row.stage, "holds": holds}
    lines = "\n".join(f"  {hold.reason}: {hold.text}" for hold in holds)
    emit(data, json, f"{queue} {row.key} ({row.state or 'NULL'})\n{lines}")


def read(mill: Mill, work: Callable[[Connection], T]) -> T:
    """Run a query, after a check of the schema version."""
    return asyncio.run(mill.run(schema.checked(work), write=False))


def history_row(one: AttemptView) -> list[Any]:
    return [one.stage, one.attempt, clock(one.ended_at), one.worker, one.code, cut(one.message)]


def cut(text: str | None) -> str:
    line = one_line(text or "")
    return line if len(line) <= WIDTH else line[: WIDTH - 1] + "…"


def shortened(value: Any) -> Any:
    """Shorten a long value for display."""
    if isinstance(value, str):
        text = value
    elif isinstance(value, (dict, list)):
        text = one_line(value)
    else:
        return value
    return value if len(text) <= LONG else f"{text[:LONG]}… ({len(text):,} characters)"
