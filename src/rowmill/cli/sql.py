"""`rowmill sql`: print the statements of a queue."""

from collections.abc import Iterator, Sequence
from typing import Annotated

import typer

from rowmill.cli.app import load_mill
from rowmill.cli.control import StageChoice, staged
from rowmill.cli.help import LOOK
from rowmill.cli.options import AppOption, JsonOption, UrlOption
from rowmill.cli.output import emit
from rowmill.operator.statements import HotStatement, hot_statements, pretty
from rowmill.store import expressions
from rowmill.store.postgres.session import SESSION

PLANNED_AS_FOR_WORKERS = {
    **{name: value for name, value in SESSION.items() if name.startswith("enable_") or name == "jit"},
    "plan_cache_mode": "force_generic_plan",
}


def register(app: typer.Typer) -> None:
    app.command(rich_help_panel=LOOK)(sql)


def sql(
    queue: Annotated[str, typer.Argument(metavar="QUEUE", help="The name of the queue.")],
    stage: StageChoice = None,
    app: AppOption = None,
    database_url: UrlOption = None,
    json: JsonOption = False,
) -> None:
    """Print the statements that workers send all the time: claims, settles, renewals, rescues. Does not connect.

    Each statement comes with an EXPLAIN, planned like for a worker. Running the output changes nothing.

    \b
    Example:
      rowmill sql files | psql shop
      rowmill sql entities --stage link
      rowmill sql files --app app:mill --database-url sqlite:///shop.db | sqlite3 shop.db
    """
    mill = load_mill(app, database_url)
    wanted = staged(mill, queue, stage)
    sql = mill.store.sql(wanted)
    found = [one for one in hot_statements(sql) if stage in (None, one.stage)]
    dialect = mill.store.dialect.name
    script = postgres_script if dialect == "postgresql" else sqlite_script
    emit({"queue": wanted.name, "dialect": dialect, "statements": found}, json, lambda: "\n".join(script(found)))


def postgres_script(statements: Sequence[HotStatement]) -> Iterator[str]:
    """Yield a script for psql: prepare, explain and deallocate each statement."""
    for name, value in PLANNED_AS_FOR_WORKERS.items():
        yield f"SET {name} = {value};"
    for number, one in enumerate(statements, start=1):
        places = max(map(int, expressions.placeholders(one.text)), default=0)
        values = f"({', '.join(['NULL'] * places)})" if places else ""
        yield from ("", _title(one), f"PREPARE rowmill_{number} AS", f"{pretty(one.text)};")
        yield from (f"EXPLAIN EXECUTE rowmill_{number}{values};", f"DEALLOCATE rowmill_{number};")


def sqlite_script(statements: Sequence[HotStatement]) -> Iterator[str]:
    """Yield a script for sqlite3, where unset parameters are NULL."""
    for one in statements:
        yield from ("", _title(one), "EXPLAIN QUERY PLAN", f"{pretty(one.text)};")


def _title(one: HotStatement) -> str:
    return f"-- {one.name}, stage {one.stage}; served by {one.served_by}"
