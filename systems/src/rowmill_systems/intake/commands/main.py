"""`rowmill systems intake`: serve, work, ingest, migrate."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rowmill.errors import DeclarationError, PermanentError
from rowmill.systems import commands
from rowmill.systems.commands import (
    Exit,
    FormatOption,
    GraceOption,
    JsonOption,
    LevelOption,
    LogFormat,
    StopSignals,
    UrlOption,
    UsageError,
    run_loop,
    settings_of,
    start_log,
)

if TYPE_CHECKING:
    from fastapi import FastAPI

    from rowmill_systems.intake.intake import Intake

StorageOption = Annotated[
    str | None,
    typer.Option("--storage", metavar="PLACE", help="A folder, or s3://bucket/prefix. Otherwise INTAKE_STORAGE."),
]
LARGEST_ID = 2**31 - 1
OrganizationOption = Annotated[
    int, typer.Option("--organization", metavar="ID", min=1, max=LARGEST_ID, help="Whose files they are.")
]
ProjectOption = Annotated[
    int, typer.Option("--project", metavar="ID", min=1, max=LARGEST_ID, help="The project that they belong to.")
]
NAME = "intake"


app = typer.Typer(
    no_args_is_help=True,
    help="Document intake: files are read in the background, fields suggested with evidence, a person decides.",
)


def load(database_url: str | None = None, storage: str | None = None) -> "Intake":
    """Build the intake that options and environment describe."""
    try:
        from rowmill_systems.intake.intake import Intake
        from rowmill_systems.intake.settings import IntakeSettings
    except ImportError as error:
        command = "pip install 'rowmill-systems[intake,ocr]'"
        raise UsageError(f"intake needs packages that are not installed ({error.name}). Run: {command}") from error
    settings = commands.settings_from(IntakeSettings, database_url=commands.given_url(database_url), storage=storage)
    try:
        return Intake(settings)
    except (DeclarationError, PermanentError, LookupError) as error:
        raise UsageError(str(error)) from error


def migrate(database_url: UrlOption = None, json: JsonOption = False) -> None:
    """Make the tables of intake, or bring them to this version. Files that are there already become a queue.

    \b
    Example:
      rowmill systems intake migrate --database-url postgresql://localhost/files
    """
    commands.migrate(load(database_url), json)


def serve(
    host: commands.HostOption = "127.0.0.1",
    port: commands.PortOption = 8000,
    name: commands.NameOption = None,
    with_worker: Annotated[bool, typer.Option("--with-worker", help="Read files too, in this process.")] = False,
    database_url: UrlOption = None,
    storage: StorageOption = None,
    log_level: LevelOption = None,
    log_format: FormatOption = LogFormat.TEXT,
) -> None:
    """Serve the API (/openapi.json) and the pages to upload, watch and review.

    It has no users of its own: put a proxy before it that knows who may see which project, by the path.

    \b
    Example:
      rowmill systems intake serve --with-worker
      rowmill systems intake serve --port 8080 --storage s3://files/intake
    """
    intake = load(database_url, storage)

    def build(hosts: Sequence[str]) -> "FastAPI":
        from rowmill_systems.intake.web.app import create_app

        return create_app(intake, hosts=hosts)

    commands.serve(
        intake, NAME, build, host=host, port=port, names=name, with_worker=with_worker,
        log_level=log_level, log_format=log_format,
    )  # fmt: skip


def work(
    processes: commands.ProcessesOption = 1,
    grace: GraceOption = None,
    database_url: UrlOption = None,
    storage: StorageOption = None,
    log_level: LevelOption = None,
    log_format: FormatOption = LogFormat.TEXT,
    lifeline: commands.LifelineOption = False,
) -> None:
    """Read files until told to stop: finish within the grace period, give the rest back. Twice: leave at once.

    \b
    Example:
      rowmill systems intake work
      INTAKE_OCR=tesseract rowmill systems intake work --processes 2
    """
    commands.work(
        load(database_url, storage), NAME, processes=processes, grace=grace, log_level=log_level, log_format=log_format,
        lifeline=lifeline, options={"--database-url": commands.given_url(database_url), "--storage": storage},
    )  # fmt: skip


def ingest(
    paths: Annotated[list[Path], typer.Argument(metavar="PATH…", help="Files, or folders of them.", exists=True)],
    organization: OrganizationOption = 1,
    project: ProjectOption = 1,
    doc_type: Annotated[
        str | None, typer.Option("--doc-type", metavar="TYPE", help="What they are: invoice, contract…")
    ] = None,
    no_work: Annotated[bool, typer.Option("--no-work", help="Only put them in; workers elsewhere read them.")] = False,
    database_url: UrlOption = None,
    storage: StorageOption = None,
    json: JsonOption = False,
) -> None:
    """Put files in, read them here, and say what was found. Exits with 5 if some could not be read.

    \b
    Example:
      rowmill systems intake ingest ~/invoices --doc-type invoice
      rowmill systems intake ingest a.pdf b.docx --project 7 --no-work --json
    """
    intake = load(database_url, storage)
    settings = settings_of(intake.mill, None)
    start_log(None, LogFormat.TEXT, "error")
    told = StopSignals()
    told.listen()

    async def run() -> int:
        from rowmill_systems.intake.commands.ingesting import IngestedFiles, put_in, read_all, report

        await commands.prepare(intake, NAME)
        async with intake.opened():
            batch = IngestedFiles(organization, project, doc_type)
            await put_in(intake, batch, paths)
            if not no_work:
                await read_all(intake, batch, settings, told)
            return await report(intake, batch, json, read=not no_work)

    code = run_loop(told.run_until_stopped(run))
    raise typer.Exit(told.code or (Exit.OK if code is None else code))


for command in (serve, work, ingest, migrate):
    app.command()(command)
