"""`rowmill pause`, `resume`, `rescue` and `migrate`."""

import asyncio
import shlex
from functools import partial
from typing import Annotated, Any

import typer
from sqlalchemy import Connection

from rowmill.cli.app import load_mill
from rowmill.cli.choosing import confirmed
from rowmill.cli.exits import Exit
from rowmill.cli.help import CHANGE, SET_UP
from rowmill.cli.options import AppOption, JsonOption, QueueArgument, UrlOption, YesOption
from rowmill.cli.output import emit, progress
from rowmill.mill import Mill, Queue
from rowmill.model.dead_rows import notify_dead
from rowmill.operator import filters
from rowmill.operator.filters import Preview, known_stage
from rowmill.store import rescue as rescuing
from rowmill.store.indexes import IndexState, bare_name, has_wake_trigger, index_states, queue_indexes
from rowmill.store.own import fleet, schema
from rowmill.store.rescue import Rescued
from rowmill.store.table_checks import has_table, missing_columns

SWEEP = 500
"""Rows that are rescued in one transaction."""

StageChoice = Annotated[str | None, typer.Option("--stage", metavar="NAME", help="Only this stage.")]


def register(app: typer.Typer) -> None:
    app.command(rich_help_panel=CHANGE)(pause)
    app.command(rich_help_panel=CHANGE)(resume)
    app.command(rich_help_panel=CHANGE)(rescue)
    app.command(rich_help_panel=SET_UP)(migrate)


def pause(
    queue: QueueArgument,
    stage: StageChoice = None,
    app: AppOption = None,
    database_url: UrlOption = None,
    json: JsonOption = False,
) -> None:
    """Stop claiming rows of a queue, or of one stage. Running rows finish. Workers react within seconds.

    \b
    Example:
      rowmill pause files
      rowmill pause entities --stage enrich
    """
    mill = load_mill(app, database_url)
    chosen = staged(mill, queue, stage)

    new = asyncio.run(mill.run(schema.checked(lambda connection: fleet.pause(connection, chosen, stage))))
    what = f"stage {stage} of {queue}" if stage else queue
    emit({"queue": queue, "stage": stage, "paused": True, "changed": new}, json,
         f"{what} is paused" if new else f"{what} was paused already")  # fmt: skip


def resume(
    queue: QueueArgument,
    stage: StageChoice = None,
    app: AppOption = None,
    database_url: UrlOption = None,
    json: JsonOption = False,
) -> None:
    """Resume a queue with all of its stages, or one stage.

    \b
    Example:
      rowmill resume files
    """
    mill = load_mill(app, database_url)
    chosen = staged(mill, queue, stage)

    def work(connection: Connection) -> tuple[int, bool]:
        schema.check_version(connection)
        ended = fleet.resume(connection, chosen, stage)
        return ended, fleet.WHOLE in fleet.paused(connection, chosen)

    async def resuming() -> tuple[int, bool]:
        async with mill.opened() as store:
            answer = await store.run(work)
            await store.notify_workers([chosen])
            return answer

    ended, still = asyncio.run(resuming())
    what = f"stage {stage} of {queue}" if stage else queue
    text = f"{what} is resumed" if ended else f"{what} was not paused"
    if still:
        text += f"; but all of {queue} is paused: rowmill resume {shlex.quote(queue)}"
    emit({"queue": queue, "stage": stage, "paused": still, "changed": bool(ended)}, json, text)


def staged(mill: Mill, queue: str, stage: str | None) -> Queue[Any]:
    chosen = mill[queue]
    if stage is not None:
        known_stage(chosen, stage)
    return chosen


def rescue(
    queues: Annotated[
        list[str] | None, typer.Argument(metavar="QUEUE", help="The queues to rescue. Default: all.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print what would change.")] = False,
    yes: YesOption = False,
    app: AppOption = None,
    database_url: UrlOption = None,
    json: JsonOption = False,
) -> None:
    """Return rows with an expired lease to the queue, or bury them if no attempts are left. Workers do this by
    themselves; use it when none is running.

    \b
    Example:
      rowmill rescue
    """
    mill = load_mill(app, database_url)
    chosen = [mill[name] for name in queues or list(mill.queues)]
    names = ", ".join(queue.name for queue in chosen)
    found = asyncio.run(mill.run(lambda connection: expired(connection, mill, chosen), write=False))
    if not confirmed(found, "rescue", names, yes=yes, dry_run=dry_run, json=json):
        return
    done = asyncio.run(sweep(mill, chosen, found.rows))
    data: dict[str, Any] = {"queue": names, "command": "rescue", "changed": done.returned + done.buried}
    data |= {"returned": done.returned, "buried": done.buried, "dry_run": False}
    emit(data, json, f"rescue: {done.returned:,} rows returned, {done.buried:,} buried, of {names}")


def expired(connection: Connection, mill: Mill, queues: list[Queue[Any]]) -> Preview:
    schema.check_version(connection)
    looks = []
    for queue in queues:
        sql = mill.store.sql(queue)
        looks.append(filters.preview(connection, sql, filters.expired(sql)))
    keys = [key for look in looks for key in look.keys][:5]
    return Preview(sum(look.rows for look in looks), any(look.capped for look in looks), keys)


async def sweep(mill: Mill, queues: list[Queue[Any]], rows: int) -> Rescued:
    returned = buried = 0
    async with mill.opened() as store:
        with progress("rescue", rows) as tick:
            for queue in queues:
                sql = store.sql(queue)
                for step in queue.steps:
                    found = Rescued(1)
                    while found.returned or found.buried:
                        found = await store.run(partial(rescuing.rescue, sql=sql, step=step, most=SWEEP))
                        returned, buried = returned + found.returned, buried + found.buried
                        notify_dead(queue, found.deaths)
                        tick(returned + buried)
                store.forget(queue)
                await store.notify_workers([queue])
    return Rescued(returned, buried)


def migrate(
    tables: Annotated[bool, typer.Option("--tables", help="Also create missing tables of declared queues.")] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Change nothing. Exit with 4 if a migration is needed.")
    ] = False,
    app: AppOption = None,
    database_url: UrlOption = None,
    json: JsonOption = False,
) -> None:
    """Migrate Rowmill's own tables to this version, and create the indexes of the declared queues.

    \b
    Example:
      rowmill migrate
      rowmill migrate --check
    """
    mill = load_mill(app, database_url, may_create=not check)
    if check:
        asyncio.run(mill.run(schema.check_version, write=False))
        steps, absent = [], []
    else:
        absent = asyncio.run(mill.run(lambda connection: missing_tables(connection, mill), write=False))
        steps = asyncio.run(mill.migrate(tables=tables))
    missing = asyncio.run(mill.run(lambda connection: missing_tables(connection, mill), write=False))
    columns = asyncio.run(mill.run(lambda connection: lacking_columns(connection, mill), write=False))
    unfit = asyncio.run(mill.run(lambda connection: unfit_indexes(connection, mill), write=False))
    made = [name for name in absent if name not in missing]
    lines = [f"Rowmill's tables are at version {schema.VERSION}" + ("" if steps or check else ", as before")]
    lines += [f"table {name} was created" for name in made]
    lines += [f"table {name} is missing. Create it, or run: rowmill migrate --tables" for name in missing]
    lines += columns
    lines += unfit
    data = {
        "version": schema.VERSION, "steps": steps, "created": made, "missing": missing, "columns": columns,
        "indexes": unfit,
    }  # fmt: skip
    emit(data, json, "\n".join(lines))
    if missing or columns or unfit:
        raise typer.Exit(Exit.SCHEMA)


def missing_tables(connection: Connection, mill: Mill) -> list[str]:
    tables = [queue.table for queue in mill.queues.values()]
    return [str(table.fullname) for table in tables if not has_table(connection, table)]


def lacking_columns(connection: Connection, mill: Mill) -> list[str]:
    """List columns that the code declares and the tables lack, each with the command that adds it."""
    there = [queue for queue in mill.queues.values() if has_table(connection, queue.table)]
    return [line for queue in there for line in missing_columns(connection, mill.store.sql(queue))]


def unfit_indexes(connection: Connection, mill: Mill) -> list[str]:
    """List missing or wrong indexes and triggers, each with the command that fixes it."""
    found = []
    for queue in mill.queues.values():
        if not has_table(connection, queue.table):
            continue
        sql = mill.store.sql(queue)
        wanted = queue_indexes(sql)
        states = index_states(connection, sql, wanted)
        for index in wanted:
            match states[index.name]:
                case IndexState.MISSING:
                    found.append(f"index {bare_name(index)} is missing. Run: rowmill migrate")
                case IndexState.INVALID:
                    found.append(
                        f"index {bare_name(index)} is invalid after a failed attempt to build it. Run: rowmill migrate"
                    )
                case IndexState.OTHER:
                    mend = f"Run: rowmill adopt {shlex.quote(queue.name)} --apply"
                    found.append(f"index {bare_name(index)} is not what queue {queue.name} needs. {mend}")
        if connection.dialect.name == "postgresql" and not has_wake_trigger(connection, sql):
            found.append(f"trigger rowmill_wake of table {queue.table.fullname} is missing. Run: rowmill migrate")
    return found
