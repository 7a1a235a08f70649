"""`rowmill systems entities`: serve, work, link, kb, migrate."""

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rowmill.errors import DeclarationError, PermanentError
from rowmill.systems import commands
from rowmill.systems.commands import (
    FormatOption,
    GraceOption,
    JsonOption,
    LevelOption,
    LogFormat,
    UrlOption,
    UsageError,
)
from rowmill_systems.entities.commands import kb as kb_commands

if TYPE_CHECKING:
    from fastapi import FastAPI

    from rowmill_systems.entities.entities import Entities

NAME = "entities"
SourcesOption = Annotated[
    str | None,
    typer.Option(
        "--sources", metavar="NAMES", help="Who is asked: embedded,wikidata,dbpedia. Otherwise ENTITIES_SOURCES."
    ),
]


class Format(StrEnum):
    CSV = "csv"
    JSON = "json"


app = typer.Typer(
    no_args_is_help=True,
    help="Entities: names are linked to knowledge bases, enriched by what these know, conflicts kept for a person.",
)


def load(
    database_url: str | None = None, sources: str | None = None, kb: Path | None = None, *, enrich: bool = True
) -> "Entities":
    """Build the entities that options and environment describe."""
    try:
        from rowmill_systems.entities.entities import Entities
        from rowmill_systems.entities.settings import EntitiesSettings
    except ImportError as error:
        raise UsageError(kb_commands.NEEDED.format(error.name)) from error
    url = commands.given_url(database_url)
    settings = commands.settings_from(EntitiesSettings, database_url=url, sources=sources, knowledge_base=kb)
    try:
        return Entities(settings, enrich=enrich)
    except (DeclarationError, PermanentError) as error:
        raise UsageError(str(error)) from error


def migrate(database_url: UrlOption = None, json: JsonOption = False) -> None:
    """Make the tables of entities, or bring them to this version. Entities that are there already become a queue.

    \b
    Example:
      rowmill systems entities migrate --database-url postgresql://localhost/research
    """
    commands.migrate(load(database_url), json)


def serve(
    host: commands.HostOption = "127.0.0.1",
    port: commands.PortOption = 8000,
    name: commands.NameOption = None,
    with_worker: Annotated[bool, typer.Option("--with-worker", help="Link and enrich too, in this process.")] = False,
    database_url: UrlOption = None,
    sources: SourcesOption = None,
    kb: kb_commands.KbOption = None,
    log_level: LevelOption = None,
    log_format: FormatOption = LogFormat.TEXT,
) -> None:
    """Serve the API (/openapi.json) and the pages: the pipeline, the entities, conflicts to decide.

    It has no users of its own: put a proxy before it that knows who may see what.

    \b
    Example:
      rowmill systems entities serve --with-worker
      rowmill systems entities serve --port 8080 --sources wikidata,dbpedia --with-worker
    """
    entities = load(database_url, sources, kb)

    def build(hosts: Sequence[str]) -> "FastAPI":
        from rowmill_systems.entities.web.app import create_app

        return create_app(entities, hosts=hosts)

    commands.serve(
        entities, NAME, build, host=host, port=port, names=name, with_worker=with_worker,
        log_level=log_level, log_format=log_format,
    )  # fmt: skip


def work(
    processes: commands.ProcessesOption = 1,
    grace: GraceOption = None,
    database_url: UrlOption = None,
    sources: SourcesOption = None,
    kb: kb_commands.KbOption = None,
    log_level: LevelOption = None,
    log_format: FormatOption = LogFormat.TEXT,
    lifeline: commands.LifelineOption = False,
) -> None:
    """Link and enrich until told to stop: finish within the grace period, give the rest back. Twice: leave at once.

    \b
    Example:
      rowmill systems entities work
      ENTITIES_CONTACT=team@example.org rowmill systems entities work --sources wikidata,dbpedia --processes 2
    """
    options = {"--database-url": commands.given_url(database_url), "--sources": sources, "--kb": kb}
    commands.work(
        load(database_url, sources, kb), NAME, processes=processes, grace=grace, log_level=log_level,
        log_format=log_format, lifeline=lifeline, options=options,
    )  # fmt: skip


def link(
    file: Annotated[
        Path, typer.Argument(metavar="FILE.csv", help="CSV with names of columns in its first line; - is stdin.")
    ],
    column: Annotated[str, typer.Option("--column", "-c", metavar="COLUMN", help="Where the names are.")],
    type_column: Annotated[
        str | None,
        typer.Option("--type-column", metavar="COLUMN", help="Where it says what they are: person, ORG, city…"),
    ] = None,
    type: Annotated[str | None, typer.Option("--type", metavar="TYPE", help="What all of them are: person…")] = None,
    context_column: Annotated[
        list[str] | None,
        typer.Option(
            "--context-column", metavar="COLUMN", help="Words that tell namesakes apart; may be given several times."
        ),
    ] = None,
    id_column: Annotated[
        str | None,
        typer.Option("--id-column", metavar="COLUMN", help="What rows are known by; otherwise their lines."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Where to write. Otherwise stdout.")
    ] = None,
    format: Annotated[Format, typer.Option("--format", help="CSV, or one JSON object per line.")] = Format.CSV,
    enrich: Annotated[bool, typer.Option("--enrich/--no-enrich", help="Look up properties too, or only links.")] = True,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Try those again that failed when this file was linked before.")
    ] = False,
    run: Annotated[
        str, typer.Option("--run", metavar="NAME", help="Under another name, all of the file is asked anew.")
    ] = "",
    delimiter: Annotated[
        str | None,
        typer.Option(
            "--delimiter", metavar="SIGN", help="What separates the cells, if the detection is wrong: ';', tab…"
        ),
    ] = None,
    database_url: UrlOption = None,
    sources: SourcesOption = None,
    kb: kb_commands.KbOption = None,
) -> None:
    """Link the names of a CSV file, and add columns with what was found.

    The file's own columns stay as they are. After them come wikidata_id, dbpedia_uri, other_ids, linking_label,
    linking_confidence, linking_source, enrichment_status, enrichment_note, and a column for each property that was
    found, as entity_birth_date; several values are joined by "; ". Added cells that a spreadsheet would take for a
    formula begin with an apostrophe; those of the file are not touched.

    Rows are kept in the database. Interrupted, the same command goes on where it was, and a second run of the same
    file with the same options asks nobody. While a service can't be asked, it waits, and says so. Exits with 5 if some
    rows failed.

    \b
    Example:
      rowmill systems entities link people.csv --column name --type person --output linked.csv
      rowmill systems entities link - -c Name --type-column Kind --context-column Notes --format json < names.csv
    """
    entities = load(database_url, sources, kb, enrich=enrich)
    from rowmill_systems.entities.commands.linking import LinkFileOptions, link_file

    wanted = LinkFileOptions(
        file=None if str(file) == "-" else file,
        column=column,
        type_column=type_column,
        type=type,
        context_columns=tuple(context_column or ()),
        id_column=id_column,
        output=None if output is None or str(output) == "-" else output,
        as_json=format is Format.JSON,
        enrich=enrich,
        retry_failed=retry_failed,
        run=run,
        delimiter=delimiter,
    )
    raise typer.Exit(link_file(entities, wanted))


for command in (serve, work, link, migrate):
    app.command()(command)
app.add_typer(kb_commands.app, name="kb")
