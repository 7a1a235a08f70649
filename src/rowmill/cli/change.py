"""`rowmill requeue`, `cancel` and `prune`: change many rows, after a preview."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import Annotated, Any

import typer
from sqlalchemy import Connection, or_

from rowmill.cli.app import load_mill
from rowmill.cli.choosing import confirmed, filter_from, usage_errors_in_where
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
    int | None, typer.Option("--limit", "-n", metavar="N", min=1, max=MOST_ROWS, help="Change at most N rows.")
]
FEW = 5
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Only print what would change.")]


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
        typer.Option("--to-stage", metavar="NAME", help="Start again at this stage. Default: the stage that failed."),
    ] = None,
    limit: MostOption = None,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    app: AppOption = None,
    database_url: UrlOption = None,
    json: JsonOption = False,
) -> None:
    """Make rows ready again with attempts at zero. Dead rows, unless you give --state or --key.

    \b
    Example:
      rowmill requeue files --error-code timeout --since 1d
      rowmill requeue files --key 17 --yes
    """
    mill = load_mill(app, database_url)
    wanted = filter_from(state, stage, error_code, since, until, where, key)
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
    run_verb(mill, queue, verb, wanted, limit=limit, dry_run=dry_run, yes=yes, json=json)


def cancel(
    queue: QueueArgument,
    state: StateOption = None,
    stage: StageOption = None,
    error_code: ErrorCodeOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    where: WhereOption = None,
    key: KeyOption = None,
    every: Annotated[
        bool, typer.Option("--all", help="Cancel every row that waits. Required without a filter.")
    ] = False,
    limit: MostOption = None,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    app: AppOption = None,
    database_url: UrlOption = None,
    json: JsonOption = False,
) -> None:
    """Cancel rows that wait. Running and finished rows are not changed.

    \b
    Example:
      rowmill cancel files --where "project_id = 4"
    """
    mill = load_mill(app, database_url)
    wanted = filter_from(state, stage, error_code, since, until, where, key)
    if wanted.empty and not every:
        raise UsageError("which rows? Give a filter (--state, --where, --key, …), or --all for every row that waits")
    sql = mill.store.sql(mill[queue])

    async def act(tick: Progress) -> ChangeResult:
        return await change.cancel(mill.store, mill[queue], wanted, most=limit, progress=tick)

    def is_already(row: RowView) -> bool:
        return row.kind == StateKind.CANCELLED

    verb = Verb("cancel", "rows that wait", partial(filters.cancellable, sql), act, is_already)
    run_verb(mill, queue, verb, wanted, limit=limit, dry_run=dry_run, yes=yes, json=json)


def prune(
    queue: QueueArgument,
    older_than: Annotated[
        str, typer.Option("--older-than", metavar="AGE", help="Rows finished at least this long ago: 12h, 7d, 4w.")
    ],
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
    """DELETE finished rows from your table: done and cancelled ones, unless you give --state. This can't be undone.

    \b
    Example:
      rowmill prune files --older-than 7d
      rowmill prune files --older-than 30d --state dead --yes
    """
    mill = load_mill(app, database_url)
    age = parse_when(older_than)
    if not isinstance(age, timedelta):
        raise UsageError("--older-than takes a length of time: 12h, 7d, 4w")
    wanted = filter_from(state, None, error_code, None, None, where, key)
    if not wanted.states and not wanted.keys:
        wanted = replace(wanted, states=(StateKind.DONE.value, StateKind.CANCELLED.value))
    sql = mill.store.sql(mill[queue])

    async def act(tick: Progress) -> ChangeResult:
        return await change.prune(mill.store, mill[queue], wanted, age, most=limit, progress=tick)

    def touches(which: Filter) -> Condition:
        return or_(*filters.prunable(sql, which, age))

    verb = Verb("prune", f"rows that finished {older_than} ago or earlier", touches, act, lambda row: False)
    run_verb(mill, queue, verb, wanted, limit=limit, dry_run=dry_run, yes=yes, json=json)


@dataclass(frozen=True, slots=True)
class Verb:
    """A command that changes rows."""

    name: str
    rule: str
    """Which rows it accepts, in words."""
    touches: Callable[[Filter], Condition]
    """Return the condition for rows of a filter that the command accepts."""
    act: Callable[[Progress], Awaitable[ChangeResult]]
    is_already: Callable[[RowView], bool]
    """Return whether a row is already in the state that the command leads to."""


def run_verb(
    mill: Mill, queue: str, verb: Verb, wanted: Filter, *, limit: int | None, dry_run: bool, yes: bool, json: bool
) -> None:
    """Preview, ask, change, report. Exits with 1 if a row named by --key is not changed and was not in the wanted state
    already."""
    sql, condition = mill.store.sql(mill[queue]), verb.touches(wanted)

    with usage_errors_in_where(wanted):
        untouched = read(mill, lambda connection: out_of_reach(connection, sql, verb, wanted))
        found = read(mill, lambda connection: filters.preview(connection, sql, condition))
        if limit is not None and found.rows > limit:
            found = Preview(limit, False, found.keys[:limit])
        failed = [row for row in untouched if not verb.is_already(row)]
        data: dict[str, Any] = {"untouched": [{"key": r.key, "state": r.state, "kind": r.kind} for r in untouched]}
        if not confirmed(found, verb.name, queue, yes=yes, dry_run=dry_run, json=json, more=data):
            report_untouched(untouched, verb)
            raise typer.Exit(Exit.FAILED if failed else Exit.OK)
        done = asyncio.run(changing(mill, verb, found.rows))
    data |= {"queue": queue, "command": verb.name, "changed": done.rows, "refused": done.refused, "dry_run": False}
    emit(data, json, f"{verb.name}: {done.rows:,} rows of {queue}")
    report_untouched(untouched, verb)
    if done.refused:
        say(f"{done.refused:,} rows stay as they are: a constraint of the table forbids the change")
    missed = found.rows - done.rows - done.refused if wanted.keys else 0
    if missed > 0:
        say(f"{missed:,} of the rows that you named were taken or locked by somebody else meanwhile: try again")
    if done.refused or failed or missed > 0:
        raise typer.Exit(Exit.FAILED)


def out_of_reach(connection: Connection, sql: QueueSql, verb: Verb, wanted: Filter) -> list[RowView]:
    """Return the rows named by --key that the command does not accept. Raises UnknownRow for keys that don't exist."""
    if not wanted.keys:
        return []
    reached = filters.keys_of(connection, sql, verb.touches(Filter(keys=wanted.keys)))
    return [row for row in find_rows(connection, sql, wanted.keys) if row.key not in reached]


def report_untouched(rows: list[RowView], verb: Verb) -> None:
    for row in rows[:FEW]:
        how = " already" if verb.is_already(row) else f": {verb.name} takes {verb.rule}"
        say(f"row {row.key} is {row.kind} ({row.state or 'NULL'}){how}")
    if len(rows) > FEW:
        say(f"… and {len(rows) - FEW:,} more rows that you named can't be taken, or need not be")


async def changing(mill: Mill, verb: Verb, rows: int) -> ChangeResult:
    async with mill.opened():
        with progress(verb.name, rows) as tick:
            return await verb.act(tick)
