"""`rowmill systems companies targets`: tables whose temporary ids are replaced."""

from dataclasses import asdict
from typing import Annotated

import typer

from rowmill.systems.commands import Exit, JsonOption, UrlOption, clock, emit, table
from rowmill_systems.companies.commands.loading import load, prepared, run, usage_errors

app = typer.Typer(no_args_is_help=True, help="Tables of pipelines whose temporary ids are replaced by real ones.")
TableArgument = Annotated[str, typer.Argument(metavar="TABLE", help="With its schema, if it is in another.")]
ColumnArgument = Annotated[str, typer.Argument(metavar="COLUMN", help="Where the company ids are.")]


@app.command("list")
def show(database_url: UrlOption = None, json: JsonOption = False) -> None:
    """List the targets, and how many rows each got.

    \b
    Example:
      rowmill systems companies targets list --json
    """
    from rowmill_systems.companies.reads import target_list

    companies = prepared(load(database_url))
    found = [dict(row) for row in run(companies, lambda connection: target_list(connection, companies.tables))]
    heads = ["table", "column", "rows written", "swept", "last error"]
    rows = [
        (each["table_name"], each["column_name"], each["rows_written"], clock(each["swept_at"]), each["last_error"])
        for each in found
    ]
    emit(found, json, lambda: table(heads, rows))


@app.command()
def add(name: TableArgument, column: ColumnArgument, database_url: UrlOption = None, json: JsonOption = False) -> None:
    """Replace temporary ids in this column from now on, and those that are there already with the next sweep.

    \b
    Example:
      rowmill systems companies targets add sales.policies company_id
    """
    from rowmill_systems.companies.write_back import register_target

    companies = prepared(load(database_url))
    target = run(companies, lambda connection: register_target(connection, name, column))
    hint = "" if target.indexed else f". No index finds its rows by {column}: each writing reads the whole table"
    emit(asdict(target), json, f"{target.table_name}.{column} is registered{hint}")


@app.command()
def remove(
    name: TableArgument, column: ColumnArgument, database_url: UrlOption = None, json: JsonOption = False
) -> None:
    """Leave a column alone from now on.

    \b
    Example:
      rowmill systems companies targets remove sales.policies company_id
    """
    from rowmill_systems.companies.write_back import unregister_target

    companies = prepared(load(database_url))
    removed = run(companies, lambda connection: unregister_target(connection, name, column))
    emit({"removed": removed}, json, f"{name}.{column} is {'no target any more' if removed else 'not a target'}")
    raise typer.Exit(Exit.OK if removed else Exit.FAILED)


@app.command()
def sweep(
    everything: Annotated[
        bool, typer.Option("--everything", help="Look at every resolved name, and at whole columns.")
    ] = False,
    database_url: UrlOption = None,
    json: JsonOption = False,
) -> None:
    """Replace temporary ids whose names were resolved meanwhile.

    Exits with 5 if a target could not be written.

    \b
    Example:
      rowmill systems companies targets sweep
    """
    from rowmill_systems.companies.sweeping import sweep_targets

    companies = prepared(load(database_url))
    with usage_errors():
        found = sweep_targets(companies, everything=everything)
    text = f"{found.rows:,} rows of {found.targets:,} targets written"
    emit(asdict(found), json, text + (f"; not written: {', '.join(found.failed)}" if found.failed else ""))
    raise typer.Exit(Exit.FINDINGS if found.failed else Exit.OK)
