"""`rowmill systems intake`: serve, work, ingest, migrate."""

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rowmill.cli import process
from rowmill.cli.app import GIVEN, Given
from rowmill.cli.exits import Exit, UsageError
from rowmill.cli.logs import LogFormat, start_log
from rowmill.cli.options import JsonOption, UrlOption
from rowmill.cli.output import emit, say
from rowmill.cli.supervisor import Supervisor
from rowmill.cli.work import FormatOption, GraceOption, LevelOption, settings_of
from rowmill.model.errors import DeclarationError, PermanentError, SchemaMismatch

if TYPE_CHECKING:
    from rowmill.systems.intake.intake import Intake

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
MIGRATE = "rowmill systems intake migrate"


def register(app: typer.Typer) -> None:
    group = typer.Typer(
        no_args_is_help=True,
        help="Document intake: files are read in the background, fields suggested with evidence, a person decides.",
    )
    for command in (serve, work, ingest, migrate):
        group.command()(command)
    app.add_typer(group, name="intake")


def load(database_url: str | None = None, storage: str | None = None) -> "Intake":
    """The intake that options and environment describe."""
    try:
        from pydantic import ValidationError

        from rowmill.systems.intake.intake import Intake
        from rowmill.systems.intake.settings import IntakeSettings
    except ImportError as error:
        raise UsageError(
            f"intake needs packages that are not installed ({error.name}). Run: pip install 'rowmill[intake,ocr]'"
        ) from error
    url = database_url or GIVEN.get(Given()).database_url
    given: dict[str, Any] = {"database_url": url, "storage": storage}
    try:
        settings = IntakeSettings(**{name: value for name, value in given.items() if value})
    except ValidationError as error:
        problems = [f"INTAKE_{'_'.join(map(str, one['loc'])).upper()}: {one['msg']}" for one in error.errors()]
        raise UsageError("; ".join(problems)) from None
    try:
        return Intake(settings)
    except (DeclarationError, PermanentError, LookupError) as error:
        raise UsageError(str(error)) from error


async def prepare(intake: "Intake") -> None:
    """Tables as this version needs them: made at once on SQLite, which is nobody else's; elsewhere somebody decides."""
    from rowmill.systems.intake import migrations

    found = await intake.mill.run(migrations.current, write=intake.mill.url.get_backend_name() == "sqlite")
    if found >= migrations.heads():
        return
    if intake.mill.url.get_backend_name() != "sqlite":
        raise SchemaMismatch(f"the tables of intake are missing or of another version. Run: {MIGRATE}")
    await intake.migrate()


def migrate(database_url: UrlOption = None, json: JsonOption = False) -> None:
    """Make the tables of intake, or bring them to this version. Files that are there already become a queue.

    \b
    Example:
      rowmill systems intake migrate --database-url postgresql://localhost/files
    """
    from rowmill.systems.intake import migrations

    intake = load(database_url)

    async def change() -> list[str]:
        await intake.migrate()
        return sorted(await intake.mill.run(migrations.current, write=False))

    revisions = asyncio.run(change())
    emit({"revisions": revisions}, json, f"the tables are at {', '.join(revisions)}")


def serve(
    host: Annotated[str, typer.Option("--host", metavar="ADDRESS", help="Where to listen.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", metavar="PORT", min=0, max=65535)] = 8000,
    name: Annotated[
        list[str] | None,
        typer.Option("--name", metavar="HOST", help="A host name that it is called by, besides the loopback's."),
    ] = None,
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
    settings = settings_of(intake.mill, None, None, None)
    start_log(log_level, log_format)

    async def run() -> None:
        from rowmill.systems.intake.web.serve import serve_until_told

        await prepare(intake)
        await serve_until_told(intake, host, port, name or [], settings, with_worker, said=say)

    process.run_loop(run())


def work(
    processes: Annotated[
        int, typer.Option("--processes", "-p", metavar="N", min=1, help="Run so many worker processes.")
    ] = 1,
    grace: GraceOption = None,
    database_url: UrlOption = None,
    storage: StorageOption = None,
    log_level: LevelOption = None,
    log_format: FormatOption = LogFormat.TEXT,
    lifeline: Annotated[bool, typer.Option("--lifeline", hidden=True)] = False,
) -> None:
    """Read files until told to stop: finish within the grace period, give the rest back. Twice: leave at once.

    \b
    Example:
      rowmill systems intake work
      INTAKE_OCR=tesseract rowmill systems intake work --processes 2
    """
    intake = load(database_url, storage)
    settings = settings_of(intake.mill, None, grace, None)
    start_log(log_level, log_format)
    if processes > 1:
        given = {
            "--grace": grace, "--database-url": database_url or GIVEN.get(Given()).database_url, "--storage": storage,
            "--log-level": log_level, "--log-format": log_format.value,
        }  # fmt: skip
        options = [text for name, value in given.items() if value is not None for text in (name, str(value))]
        command = [sys.executable, "-m", "rowmill", "systems", "intake", "work", "--lifeline", *options]
        raise typer.Exit(Supervisor(command, processes).run())
    if lifeline:
        process.follow_lifeline(settings.grace)
    told = process.Told(supervised=lifeline)
    told.listen()

    async def run() -> None:
        await prepare(intake)
        async with intake.opened():
            await process.work(intake.mill, None, settings, told)

    process.run_loop(told.unless_before(run))


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
    settings = settings_of(intake.mill, None, None, None)
    start_log(None, LogFormat.TEXT, "error")
    told = process.Told()
    told.listen()

    async def run() -> int:
        from rowmill.cli.systems.ingesting import Batch, put_in, read_all, report

        await prepare(intake)
        async with intake.opened():
            batch = Batch(organization, project, doc_type)
            await put_in(intake, batch, paths)
            if not no_work:
                await read_all(intake, batch, settings, told)
            return await report(intake, batch, json, read=not no_work)

    code = process.run_loop(told.unless_before(run))
    raise typer.Exit(told.code or (Exit.OK if code is None else code))
