"""`rowmill requeue`, `cancel` and `prune`: what changes many rows, after a look at which they are."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from typing import Annotated, Any

import typer
from sqlalchemy import or_

from rowmill.cli.app import load_mill
from rowmill.cli.choosing import agreed, blaming, chosen
from rowmill.cli.exits import Exit, UsageError
from rowmill.cli.help import CHANGE
from rowmill.cli.options import (
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
from rowmill.operator.browse import find_rows
from rowmill.operator.change import ChangeResult, Progress
from rowmill.operator.filters import Condition, Filter, Preview, known_stage, parse_when

LimitOption = Annotated[int | None, typer.Option("--limit", "-n", metavar="N", min=1, help="At most so many rows.")]
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
    limit: LimitOption = None,
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
    condition = filters.requeueable(mill.store.terms(mill[queue]), wanted)

    async def act(tick: Progress) -> ChangeResult:
        return await change.requeue(mill.store, mill[queue], wanted, stage=to_stage, most=limit, progress=tick)

    carry_out(mill, queue, "requeue", wanted, condition, act, limit=limit, dry_run=dry_run, yes=yes, json=json)


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
    limit: LimitOption = None,
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
    condition = filters.cancellable(mill.store.terms(mill[queue]), wanted)

    async def act(tick: Progress) -> ChangeResult:
        return await change.cancel(mill.store, mill[queue], wanted, most=limit, progress=tick)

    carry_out(mill, queue, "cancel", wanted, condition, act, limit=limit, dry_run=dry_run, yes=yes, json=json)


def prune(
    queue: QueueArgument,
    older_than: Annotated[str, typer.Option("--older-than", metavar="AGE", help="Finished so long ago: 12h, 7d, 4w.")],
    state: StateOption = None,
    error_code: ErrorCodeOption = None,
    where: WhereOption = None,
    key: KeyOption = None,
    limit: LimitOption = None,
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
    condition = or_(*filters.prunable(mill.store.terms(mill[queue]), wanted, age))

    async def act(tick: Progress) -> ChangeResult:
        return await change.prune(mill.store, mill[queue], wanted, age, most=limit, progress=tick)

    carry_out(mill, queue, "prune", wanted, condition, act, limit=limit, dry_run=dry_run, yes=yes, json=json)


def carry_out(
    mill: Mill,
    queue: str,
    verb: str,
    wanted: Filter,
    condition: Condition,
    act: Callable[[Progress], Awaitable[ChangeResult]],
    *,
    limit: int | None,
    dry_run: bool,
    yes: bool,
    json: bool,
) -> None:
    """Look, ask, do, report."""
    terms = mill.store.terms(mill[queue])

    with blaming(wanted):
        named = read(mill, lambda connection: find_rows(connection, terms, wanted.keys))
        found = read(mill, lambda connection: filters.preview(connection, terms, condition))
        if limit is not None and found.rows > limit:
            found = Preview(limit, False, found.keys[:limit])
        if not agreed(found, verb, queue, yes=yes, dry_run=dry_run, json=json):
            if not found.rows:
                for row in named[:FEW]:
                    say(f"row {row.key} is {row.kind} ({row.state or 'NULL'})")
            return
        done = asyncio.run(changing(mill, verb, found.rows, act))
    data: dict[str, Any] = {
        "queue": queue,
        "command": verb,
        "changed": done.rows,
        "refused": done.refused,
        "dry_run": False,
    }
    emit(data, json, f"{verb}: {done.rows:,} rows of {queue}")
    if done.refused:
        say(f"{done.refused:,} rows stay as they are: a constraint of the table forbids the change")
        raise typer.Exit(Exit.FAILED)


async def changing(
    mill: Mill, verb: str, rows: int, act: Callable[[Progress], Awaitable[ChangeResult]]
) -> ChangeResult:
    async with mill.opened():
        with progress(verb, rows) as tick:
            return await act(tick)
