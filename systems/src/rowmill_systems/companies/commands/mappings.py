"""`rowmill systems companies mappings`: what people know of names."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from rowmill.systems.commands import Exit, JsonOption, UrlOption, emit, progress, say, table
from rowmill_systems.companies.commands.loading import LARGEST_ID, load, prepared, run, usage_errors

app = typer.Typer(no_args_is_help=True, help="Internal mappings: import and export them, decide conflicts.")
MOST_SHOWN = 20
"""Bad lines that are printed; --json has more."""


@app.command("import")
def read_file(
    file: Annotated[
        Path, typer.Argument(metavar="FILE.csv", help="Columns match_type, alias, company_id[, source, confidence].")
    ],
    database_url: UrlOption = None,
    json: JsonOption = False,
) -> None:
    """Import mappings from a CSV file. A second id for a name is kept as a conflict, and the first one holds.

    match_type is plan_code, account_number, hardcode, account_name or company_name. Exits with 5 if lines were bad or
    in conflict.

    \b
    Example:
      rowmill systems companies mappings import mappings.csv
    """
    from rowmill_systems.companies.mapping_files import import_mappings
    from rowmill_systems.companies.mappings import CompanyMappingRepository
    from rowmill_systems.parts.sheets.opening import opened

    companies = prepared(load(database_url))
    size = file.stat().st_size if file.is_file() else None
    with (
        usage_errors(str(file)),
        opened(file) as opened_file,
        progress("Importing", size) as seen,
        companies.engine.begin() as connection,
    ):
        repository = CompanyMappingRepository(connection, companies.settings)
        found = import_mappings(repository, opened_file, on_progress=seen)

    def tell() -> None:
        print(f"{found.lines:,} lines: {found.added:,} added, {found.changed:,} changed, {found.unchanged:,} unchanged")
        if found.conflicts:
            print(f"{found.conflicts:,} in conflict. To see them: rowmill systems companies mappings conflicts")
        for bad in found.bad_lines[:MOST_SHOWN]:
            say(f"line {bad.line}: {bad.message}")
        if found.bad > MOST_SHOWN:
            say(f"and {found.bad - MOST_SHOWN:,} more lines")

    emit(asdict(found), json, tell)
    raise typer.Exit(Exit.FINDINGS if found.bad or found.conflicts else Exit.OK)


@app.command("export")
def write_file(
    out: Annotated[
        Path | None, typer.Option("--out", "--output", "-o", metavar="FILE.csv", help="Otherwise stdout.")
    ] = None,
    cached: Annotated[bool, typer.Option("--cached", help="Answers of providers, too.")] = False,
    database_url: UrlOption = None,
) -> None:
    """Write mappings as CSV that can be imported again.

    \b
    Example:
      rowmill systems companies mappings export --out mappings.csv
    """
    from rowmill_systems.companies.mapping_files import export_mappings
    from rowmill_systems.companies.mappings import CompanyMappingRepository
    from rowmill_systems.parts.sheets.target import check_target, written

    companies = prepared(load(database_url))
    with usage_errors(str(out or "standard output")):
        if out is not None:
            check_target(out, None)
        with companies.engine.connect() as connection, written(out, mark=False) as file:
            number = export_mappings(CompanyMappingRepository(connection, companies.settings), file, cached=cached)
    say(f"{number:,} mappings")


@app.command()
def conflicts(
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, max=1000)] = 50,
    after: Annotated[
        int, typer.Option("--after", metavar="ID", min=0, max=LARGEST_ID, help="Go on behind this one.")
    ] = 0,
    database_url: UrlOption = None,
    json: JsonOption = False,
) -> None:
    """List names with two ids. Exits with 5 if there are any.

    \b
    Example:
      rowmill systems companies mappings conflicts --json
    """
    from rowmill_systems.companies.mappings import CompanyMappingRepository

    companies = prepared(load(database_url))
    found = run(
        companies,
        lambda connection: CompanyMappingRepository(connection, companies.settings).conflicts(limit=limit, after=after),
    )
    rows = [(each.id, each.match_type, each.alias, each.company_id, each.other_company_id) for each in found]
    heads = ["id", "kind", "name", "holds", "other"]
    emit([asdict(each) for each in found], json, lambda: table(heads, rows) if rows else print("no conflict"))
    raise typer.Exit(Exit.FINDINGS if found else Exit.OK)


@app.command()
def decide(
    conflict: Annotated[
        int, typer.Argument(metavar="ID", min=1, max=LARGEST_ID, help="Of a conflict, as the list shows it.")
    ],
    company_id: Annotated[str, typer.Argument(metavar="COMPANY", help="The id that is right.")],
    by: Annotated[str, typer.Option("--by", metavar="WHO")] = "command line",
    database_url: UrlOption = None,
    json: JsonOption = False,
) -> None:
    """Say which of two ids is right.

    \b
    Example:
      rowmill systems companies mappings decide 3 600000123
    """
    from rowmill_systems.companies.deciding import decide_conflict
    from rowmill_systems.companies.mappings import ConflictGone

    companies = prepared(load(database_url))
    try:
        rows = run(companies, lambda connection: decide_conflict(connection, companies, conflict, company_id, by))
    except ConflictGone as error:
        say(str(error))
        raise typer.Exit(Exit.FAILED) from None
    emit({"conflict": conflict, "company_id": company_id, "rows_written": rows}, json, "decided")
