"""`rowmill requeue`, `cancel` and `prune`: what changes many rows, after a look at which they are."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import Annotated, Any

import typer
from sqlalchemy import Connection, or_

from rowmill.cli.app import load_mill
from rowmill.cli.choosing import agreed, blaming, chosen
from rowmill.cli.exits import Exit, UsageError
from rowmill.cli.help import CHANGE
from rowmill.cli.options import (
    MOST_ROWS,
    AppOption,
    ErrorCodeOption,
    JsonOption,
    KeyOption,
    QueueArgument,
    SinceOption,
    StageOption,
    StateOption,
    UntilOption,
    UrlOption,
    WhereOption,
    YesOption,
)
from rowmill.cli.output import emit, progress, say
from rowmill.cli.rows import read
from rowmill.mill import Mill
from rowmill.model.lifecycle import StateKind
from rowmill.operator import change, filters
from rowmill.operator.browse import RowView, find_rows
from rowmill.operator.change import ChangeResult, Progress
from rowmill.operator.filters import Condition, Filter, Preview, known_stage, parse_when
from rowmill.store.queue_sql import QueueSql

MostOption = Annotated[
    int | None, typer.Option("--limit", "-n", metavar="N", min=1, max=MOST_ROWS, help="The most rows to take.")
]
FEW = 5
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Only say what would be changed.")]


def register(app: typer.Typer) -> None:
    app.command(rich_help_panel=CHANGE)(requeue)
    app.command(rich_help_panel=CHANGE)(cancel)
    app.command(rich_help_panel=CHANGE)(prune)


def requeue(
    queue: QueueArgument,
    state: StateOption = None,
    stage: StageOption = None,
    error_code: ErrorCodeOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    where: WhereOption = None,
    key: KeyOption = None,
    to_stage: Annotated[
        str | None,
        typer.Option("--to-stage", metavar="NAME", help="Where to begin again; by default, the stage that failed."),
    ] = None,
    limit: MostOption = None,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    app: AppOption = None,
    database_url: UrlOption = None,
    json: JsonOption = False,
) -> None:
    """Put rows back: ready now, attempts at zero. Dead rows, unless --state or --key says otherwise.

    \b
    Example:
      rowmill requeue files --error-code timeout --since 1d
      rowmill requeue files --key 17 --yes
    """
    mill = load_mill(app, database_url)
    wanted = chosen(state, stage, error_code, since, until, where, key)
    if not wanted.states and not wanted.keys:
        wanted = replace(wanted, states=(StateKind.DEAD.value,))
    if to_stage is not None:
        known_stage(mill[queue], to_stage)
    sql = mill.store.sql(mill[queue])

    async def act(tick: Progress) -> ChangeResult:
        return await change.requeue(mill.store, mill[queue], wanted, stage=to_stage, most=limit, progress=tick)

    def is_already(row: RowView) -> bool:
        return row.kind == StateKind.READY and to_stage in (None, row.stage)

    verb = Verb("requeue", "rows that are finished or wait", partial(filters.requeueable, sql), act, is_already)
    carry_out(mill, queue, verb, wanted, limit=limit, dry_run=dry_run, yes=yes, json=json)


def cancel(
    queue: QueueArgument,
    state: StateOption = None,
    stage: StageOption = None,
    error_code: ErrorCodeOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    where: WhereOption = None,
    key: KeyOption = None,
    every: Annotated[bool, typer.Option("--all", help="Every row that waits, if no filter is given.")] = False,
    limit: MostOption = None,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    app: AppOption = None,
    database_url: UrlOption = None,
    json: JsonOption = False,
) -> None:
    """Cancel rows that wait. Running and finished ones are not touched.

    \b
    Example:
      rowmill cancel files --where "project_id = 4"
    """
    mill = load_mill(app, database_url)
    wanted = chosen(state, stage, error_code, since, until, where, key)
    if wanted.empty and not every:
        raise UsageError("which rows? Give a filter (--state, --where, --key, …), or --all for every row that waits")
    sql = mill.store.sql(mill[queue])

    async def act(tick: Progress) -> ChangeResult:
        return await change.cancel(mill.store, mill[queue], wanted, most=limit, progress=tick)

    def is_already(row: RowView) -> bool:
        return row.kind == StateKind.CANCELLED

    verb = Verb("cancel", "rows that wait", partial(filters.cancellable, sql), act, is_already)
    carry_out(mill, queue, verb, wanted, limit=limit, dry_run=dry_run, yes=yes, json=json)


def prune(
    queue: QueueArgument,
    older_than: Annotated[str, typer.Option("--older-than", metavar="AGE", help="Finished so long ago: 12h, 7d, 4w.")],
    state: StateOption = None,
    error_code: ErrorCodeOption = None,
    where: WhereOption = None,
    key: KeyOption = None,
    limit: MostOption = None,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    app: AppOption = None,
    database_url: UrlOption = None,
    json: JsonOption = False,
) -> None:
    """DELETE finished rows from your table: done and cancelled ones, unless --state says otherwise. They can't be
    brought back.

    \b
    Example:
      rowmill prune files --older-than 7d
      rowmill prune files --older-than 30d --state dead --yes
    """
    mill = load_mill(app, database_url)
    age = parse_when(older_than)
    if not isinstance(age, timedelta):
        raise UsageError("--older-than takes a length of time: 12h, 7d, 4w")
    wanted = chosen(state, None, error_code, None, None, where, key)
    if not wanted.states and not wanted.keys:
        wanted = replace(wanted, states=(StateKind.DONE.value, StateKind.CANCELLED.value))
    sql = mill.store.sql(mill[queue])

    async def act(tick: Progress) -> ChangeResult:
        return await change.prune(mill.store, mill[queue], wanted, age, most=limit, progress=tick)

    def touches(which: Filter) -> Condition:
        return or_(*filters.prunable(sql, which, age))

    verb = Verb("prune", f"rows that finished {older_than} ago or earlier", touches, act, lambda row: False)
    carry_out(mill, queue, verb, wanted, limit=limit, dry_run=dry_run, yes=yes, json=json)


@dataclass(frozen=True, slots=True)
class Verb:
    """What is done to rows."""

    name: str
    rule: str
    """Which rows it takes, in words."""
    touches: Callable[[Filter], Condition]
    """Which rows of a filter it may be done to."""
    act: Callable[[Progress], Awaitable[ChangeResult]]
    is_already: Callable[[RowView], bool]
    """Is a row as it would be after it?"""


def carry_out(
    mill: Mill, queue: str, verb: Verb, wanted: Filter, *, limit: int | None, dry_run: bool, yes: bool, json: bool
) -> None:
    """Look, ask, do, report. Fails if a row that was named by its key is not changed, and not as it was to be."""
    sql, condition = mill.store.sql(mill[queue]), verb.touches(wanted)

    with blaming(wanted):
        untouched = read(mill, lambda connection: out_of_reach(connection, sql, verb, wanted))
        found = read(mill, lambda connection: filters.preview(connection, sql, condition))
        if limit is not None and found.rows > limit:
            found = Preview(limit, False, found.keys[:limit])
        failed = [row for row in untouched if not verb.is_already(row)]
        data: dict[str, Any] = {"untouched": [{"key": r.key, "state": r.state, "kind": r.kind} for r in untouched]}
        if not agreed(found, verb.name, queue, yes=yes, dry_run=dry_run, json=json, more=data):
            tell_untouched(untouched, verb)
            raise typer.Exit(Exit.FAILED if failed else Exit.OK)
        done = asyncio.run(changing(mill, verb, found.rows))
    data |= {"queue": queue, "command": verb.name, "changed": done.rows, "refused": done.refused, "dry_run": False}
    emit(data, json, f"{verb.name}: {done.rows:,} rows of {queue}")
    tell_untouched(untouched, verb)
    if done.refused:
        say(f"{done.refused:,} rows stay as they are: a constraint of the table forbids the change")
    missed = found.rows - done.rows - done.refused if wanted.keys else 0
    if missed > 0:
        say(f"{missed:,} of the rows that you named were taken or locked by somebody else meanwhile: try again")
    if done.refused or failed or missed > 0:
        raise typer.Exit(Exit.FAILED)


def out_of_reach(connection: Connection, sql: QueueSql, verb: Verb, wanted: Filter) -> list[RowView]:
    """Rows that were named by their keys and that can't be changed so, whatever else the filter says. Raises
    UnknownRow for keys that no row has."""
    if not wanted.keys:
        return []
    reached = filters.keys_of(connection, sql, verb.touches(Filter(keys=wanted.keys)))
    return [row for row in find_rows(connection, sql, wanted.keys) if row.key not in reached]


def tell_untouched(rows: list[RowView], verb: Verb) -> None:
    for row in rows[:FEW]:
        how = " already" if verb.is_already(row) else f": {verb.name} takes {verb.rule}"
        say(f"row {row.key} is {row.kind} ({row.state or 'NULL'}){how}")
    if len(rows) > FEW:
        say(f"… and {len(rows) - FEW:,} more rows that you named can't be taken, or need not be")


async def changing(mill: Mill, verb: Verb, rows: int) -> ChangeResult:
    async with mill.opened():
        with progress(verb.name, rows) as tick:
            return await verb.act(tick)
