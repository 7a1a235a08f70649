"""`rowmill grants`: print the privileges that a database role needs."""

import asyncio
from collections.abc import Iterator
from typing import Annotated, Any

import typer
from sqlalchemy import Connection, text

from rowmill.cli.app import load_mill
from rowmill.cli.exits import UsageError
from rowmill.cli.help import SET_UP
from rowmill.cli.options import AppOption, JsonOption, UrlOption
from rowmill.cli.output import emit, say
from rowmill.mill import Mill, Queue
from rowmill.store.own import privileges
from rowmill.store.own.privileges import Privilege, Purpose

NO_ROLES = (
    "SQLite has no roles. Whoever may write to the file and its folder may do everything, so give them to the user "
    "that runs the workers, and to the one that puts rows in: chmod 660 for the file, 770 for the folder"
)


def register(app: typer.Typer) -> None:
    app.command(rich_help_panel=SET_UP)(grants)


def grants(
    queues: Annotated[
        list[str] | None, typer.Argument(metavar="QUEUE", help="The queues to grant for. Default: all.")
    ] = None,
    role: Annotated[
        str, typer.Option("--role", metavar="NAME", help="The role that gets the privileges.", show_default=False)
    ] = "",
    operator: Annotated[bool, typer.Option("--operator", help="The role also requeues, cancels and pauses.")] = False,
    producer: Annotated[bool, typer.Option("--producer", help="The role only inserts rows.")] = False,
    result: Annotated[
        list[str] | None,
        typer.Option(
            "--result",
            metavar="QUEUE.COLUMN",
            help="Handlers write only these columns. Repeatable. Default: all columns but the key.",
        ),
    ] = None,
    app: AppOption = None,
    database_url: UrlOption = None,
    json: JsonOption = False,
) -> None:
    """Print the privileges that a PostgreSQL role needs, and no others, as GRANT statements. Changes nothing.

    By default for a worker. For tables that your handlers write to, grant the privileges yourself.

    \b
    Example:
      rowmill grants --role app_worker | psql shop
      rowmill grants files --role app_worker --result files.topic
      rowmill grants --role web --producer
    """
    if not role:
        raise UsageError("which role? Give --role NAME")
    if role.lower() in ("public", "none"):
        raise UsageError(f"{role} is no role, but what PostgreSQL calls everybody or nobody. Name one")
    if operator and producer:
        raise UsageError("a producer is no operator. Give --operator or --producer, not both")
    part = Purpose.OPERATOR if operator else Purpose.PRODUCER if producer else Purpose.WORKER
    mill = load_mill(app, database_url)
    chosen = [mill[name] for name in queues or list(mill.queues)]
    if mill.store.dialect.name != "postgresql":
        emit({"role": role, "for": part, "statements": [], "note": NO_ROLES}, json, lambda: say(NO_ROLES))
        return
    results = result_columns(mill, chosen, result) if result else None

    def work(connection: Connection) -> list[str]:
        wanted = list(privileges_of(connection, mill, chosen, part, results))
        return privileges.grants(wanted, role, connection.dialect.identifier_preparer)

    statements = asyncio.run(mill.run(work, write=False))
    data = {"role": role, "for": part, "queues": [queue.name for queue in chosen], "statements": statements}
    emit(data, json, lambda: print("\n".join(f"{statement};" for statement in statements)))


def result_columns(mill: Mill, chosen: list[Queue[Any]], named: list[str]) -> dict[str, list[str]]:
    """Return the result columns by queue, as given with --result."""
    found: dict[str, list[str]] = {queue.name: [] for queue in chosen}
    for one in named:
        queue = next((queue for queue in chosen if one.startswith(f"{queue.name}.")), None)
        if queue is None:
            raise UsageError(f"--result takes QUEUE.COLUMN, as in {chosen[0].name}.topic, not {one!r}")
        column = queue.writable.get(one.removeprefix(f"{queue.name}."))
        if column is None:
            known = ", ".join(privileges.writable(mill.store.sql(queue)))
            raise UsageError(f"no handler may write {one!r}. Queue {queue.name} has: {known}")
        found[queue.name].append(column)
    return found


def privileges_of(
    connection: Connection, mill: Mill, queues: list[Queue[Any]], part: Purpose, results: dict[str, list[str]] | None
) -> Iterator[Privilege]:
    """Yield all privileges that the role needs."""
    yield Privilege("CONNECT", "database", str(connection.scalar(text("SELECT current_database()"))))
    if part is Purpose.PRODUCER:
        for queue in queues:
            yield from privileges.of_producer(connection, queue)
        return
    yield from privileges.of_worker([], limited=bool(mill.limits))
    if part is Purpose.OPERATOR:
        yield from privileges.of_operator()
    for queue in queues:
        sql = mill.store.sql(queue)
        columns = privileges.writable(sql) if results is None else tuple(results[queue.name])
        yield Privilege("USAGE", "schema", "", privileges.schema_of(connection, queue.table))
        yield from privileges.of_queue(queue.table, tuple(dict.fromkeys((*privileges.written(sql), *columns))))
        yield from privileges.of_policies(sql)
