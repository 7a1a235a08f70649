"""`rowmill list`, `show` and `why`: rows, and what holds them."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, TypeVar

import typer
from sqlalchemy import Connection

from rowmill.cli.app import load_mill
from rowmill.cli.choosing import blaming, chosen
from rowmill.cli.options import (
    AppOption,
    ErrorCodeOption,
    JsonOption,
    KeyArgument,
    KeyOption,
    QueueArgument,
    SinceOption,
    StageOption,
    StateOption,
    UntilOption,
    UrlOption,
    WhereOption,
)
from rowmill.cli.output import emit, one_line, table
from rowmill.limits.holding import shut
from rowmill.mill import Mill
from rowmill.store import browse, schema
from rowmill.store.browse import AttemptView, RowView
from rowmill.store.why import why as find_why

T = TypeVar("T")
WIDTH = 60
"""Of a text in a table."""
LONG = 1000
"""Characters of a value that `show` prints."""


def register(app: typer.Typer) -> None:
    app.command("list")(list_rows)
    app.command()(show)
    app.command()(why)


def list_rows(
    queue: QueueArgument,
    state: StateOption = None,
    stage: StageOption = None,
    error_code: ErrorCodeOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    where: WhereOption = None,
    key: KeyOption = None,
    limit: Annotated[int, typer.Option("--limit", "-n", metavar="N", min=1, help="At most so many.")] = 20,
    app: AppOption = None,
    database_url: UrlOption = None,
    json: JsonOption = False,
) -> None:
    """List rows in the order of their keys.

    \b
    Example:
      rowmill list files --state dead --since 6h
      rowmill list files --where "size > 1000000" --json
    """
    mill = load_mill(app, database_url)
    terms = mill.store.terms(mill[queue])
    wanted = chosen(state, stage, error_code, since, until, where, key)
    with blaming(wanted):
        rows = read(mill, lambda c: browse.list_rows(c, terms, wanted, limit + 1))
    found, more = rows[:limit], len(rows) > limit

    def shown() -> None:
        heads = ["key", "state", "kind", "attempts", "available", "error"]
        cells = [[r.key, r.state or "NULL", r.kind, r.attempts, clock(r), cut(r.error)] for r in found]
        table(heads, cells)
        if more:
            print(f"… and more: --limit {limit * 10} shows them")

    emit({"queue": queue, "rows": found, "more": more}, json, shown if found else "no rows")


def show(
    queue: QueueArgument,
    key: KeyArgument,
    full: Annotated[bool, typer.Option("--full", help="Long values in full.")] = False,
    app: AppOption = None,
    database_url: UrlOption = None,
    json: JsonOption = False,
) -> None:
    """Show one row: its columns, and every attempt that failed.

    \b
    Example:
      rowmill show files 17
    """
    mill = load_mill(app, database_url)
    terms = mill.store.terms(mill[queue])
    row, values, attempts = read(
        mill,
        lambda c: (browse.find_row(c, terms, key), browse.values(c, terms, key), browse.history(c, terms, key)),
    )
    shown_values = values if full else {name: shortened(value) for name, value in values.items()}

    def shown() -> None:
        stage = f", stage {row.stage}" if row.stage and len(mill[queue].steps) > 1 else ""
        counted = mill[queue].counting
        print(f"{queue} {row.key}: {row.state or 'NULL'} ({row.kind}{stage}), {row.attempts} {counted}")
        table(["column", "value"], [[name, "NULL" if v is None else v] for name, v in shown_values.items()])
        if attempts:
            print()
            table(["stage", "attempt", "ended", "worker", "code", "message"], [history_row(one) for one in attempts])

    data = {"queue": queue, "key": row.key, "row": row, "values": shown_values, "history": attempts}
    emit(data, json, shown)


def why(
    queue: QueueArgument,
    key: KeyArgument,
    app: AppOption = None,
    database_url: UrlOption = None,
    json: JsonOption = False,
) -> None:
    """Say what holds a row: a lease, its backoff, a limit, a pause, the order of its key, no worker; or that it is
    finished.

    \b
    Example:
      rowmill why files 17
    """
    mill = load_mill(app, database_url)
    terms = mill.store.terms(mill[queue])
    row, holds = read(mill, lambda c: find_why(c, terms, key, partial(shut, mill.limits, mill[queue])))
    data = {"queue": queue, "key": row.key, "state": row.state, "kind": row.kind, "stage": row.stage, "holds": holds}
    lines = "\n".join(f"  {hold.reason}: {hold.text}" for hold in holds)
    emit(data, json, f"{queue} {row.key} ({row.state or 'NULL'})\n{lines}")


def read(mill: Mill, work: Callable[[Connection], T]) -> T:
    """Run a read, on a database of the right version."""
    return asyncio.run(mill.run(schema.checked(work), write=False))


def clock(row: RowView) -> str:
    return f"{row.available_at:%Y-%m-%d %H:%M:%S}" if row.available_at else ""


def history_row(one: AttemptView) -> list[Any]:
    ended = f"{one.ended_at:%Y-%m-%d %H:%M:%S}" if one.ended_at else ""
    return [one.stage, one.attempt, ended, one.worker, one.code, cut(one.message)]


def cut(text: str | None) -> str:
    line = one_line(text or "")
    return line if len(line) <= WIDTH else line[: WIDTH - 1] + "…"


def shortened(value: Any) -> Any:
    """A value that does not flood the screen."""
    if isinstance(value, str):
        text = value
    elif isinstance(value, (dict, list)):
        text = one_line(value)
    else:
        return value
    return value if len(text) <= LONG else f"{text[:LONG]}… ({len(text):,} characters)"
