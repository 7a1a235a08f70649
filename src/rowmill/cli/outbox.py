"""`rowmill outbox`: counts and events of an outbox."""

import asyncio
from typing import Annotated, Any

import typer

from rowmill.cli.app import load_mill
from rowmill.cli.exits import UsageError
from rowmill.cli.help import LOOK
from rowmill.cli.options import AppOption, JsonOption, LimitOption, StateOption, UrlOption
from rowmill.cli.output import clock, emit, table
from rowmill.cli.rows import cut, read
from rowmill.mill import Mill
from rowmill.model.lifecycle import StateKind
from rowmill.model.option_names import listed
from rowmill.operator.filters import Filter
from rowmill.outbox.outbox import Outbox
from rowmill.outbox.queries import EventView

NameArgument = Annotated[
    str | None, typer.Argument(metavar="OUTBOX", help="The name of the outbox. Needed if there are several.")
]

outbox = typer.Typer(
    help="Show counts and events of an outbox. An outbox is a queue: requeue, why, show etc. work too.",
    no_args_is_help=True,
)


def register(app: typer.Typer) -> None:
    outbox.command("stats")(stats)
    outbox.command("list")(list_events)
    app.add_typer(outbox, name="outbox", rich_help_panel=LOOK)


def stats(
    name: NameArgument = None, app: AppOption = None, database_url: UrlOption = None, json: JsonOption = False
) -> None:
    """Show the counts of an outbox: pending, dead, due and processed events, and how long they took.

    \b
    Example:
      rowmill outbox stats --json
    """
    mill = load_mill(app, database_url)
    chosen = the_outbox(mill, name)
    found = asyncio.run(chosen.stats())
    data = {"outbox": chosen.queue.name, **found.as_dict()}

    def shown() -> None:
        rows = [[field.replace("_", " "), "" if value is None else value] for field, value in found.as_dict().items()]
        table(["outbox " + chosen.queue.name, ""], rows)

    emit(data, json, shown)


def list_events(
    name: NameArgument = None,
    dead: Annotated[bool, typer.Option("--dead", help="Only dead events.")] = False,
    state: StateOption = None,
    event_type: Annotated[str | None, typer.Option("--type", metavar="TYPE", help="Events of this type.")] = None,
    aggregate: Annotated[
        str | None, typer.Option("--aggregate", metavar="ID", help="Events of this aggregate.")
    ] = None,
    limit: LimitOption = 20,
    app: AppOption = None,
    database_url: UrlOption = None,
    json: JsonOption = False,
) -> None:
    """List events in the order of their ids, without payloads.

    \b
    Example:
      rowmill outbox list --dead
      rowmill outbox list --aggregate 17 --json
    """
    mill = load_mill(app, database_url)
    chosen = the_outbox(mill, name)
    wanted = Filter(states=(*(state or ()), *([StateKind.DEAD.value] if dead else [])))
    rows = read(
        mill, lambda c: chosen.list_events(c, wanted, limit + 1, event_type=event_type, aggregate_id=aggregate)
    )  # fmt: skip
    found, more = rows[:limit], len(rows) > limit

    def shown() -> None:
        heads = ["id", "type", "aggregate", "state", "attempts", "created", "error"]
        table(heads, [event_row(event) for event in found])
        if more:
            print(f"… and more: --limit {limit * 10} shows them")

    data = {"outbox": chosen.queue.name, "events": [as_data(event) for event in found], "more": more}
    emit(data, json, shown if found else "no events")


def the_outbox(mill: Mill, name: str | None) -> Outbox:
    known = ", ".join(mill.outboxes)
    if not known:
        raise UsageError("this mill has no outbox: declare one with mill.outbox()")
    if name is None and len(mill.outboxes) > 1:
        raise UsageError(f"which outbox? This mill has: {known}")
    if name is None:
        return next(iter(mill.outboxes.values()))
    if name not in mill.outboxes:
        raise UsageError(f"this mill has no outbox {name}. It has: {listed(mill.outboxes, name)}")
    return mill.outboxes[name]


def event_row(event: EventView) -> list[Any]:
    row = event.row
    return [
        row.key,
        event.event_type,
        event.aggregate_id,
        row.state,
        row.attempts,
        clock(event.created_at),
        cut(row.error),
    ]


def as_data(event: EventView) -> dict[str, Any]:
    row = event.row
    return {
        "id": row.key, "event_type": event.event_type, "aggregate_id": event.aggregate_id, "state": row.state,
        "kind": row.kind, "attempts": row.attempts, "created_at": event.created_at, "available_at": row.available_at,
        "processed_at": row.finished_at, "last_error": row.error,
    }  # fmt: skip
