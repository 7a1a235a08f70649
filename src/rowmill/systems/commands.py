"""What the commands of every system share: options, output, exit codes, settings, tables, server and workers."""

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from rowmill.cli import process
from rowmill.cli.app import given_url
from rowmill.cli.choosing import ask_to_change
from rowmill.cli.exits import Exit, UsageError
from rowmill.cli.logs import LogFormat, start_log
from rowmill.cli.options import JsonOption, UrlOption, YesOption
from rowmill.cli.output import clock, close_stdout, emit, progress, say, table
from rowmill.cli.process import StopSignals, run_loop
from rowmill.cli.supervisor import Supervisor, worker_command
from rowmill.cli.work import FormatOption, GraceOption, LevelOption, settings_of
from rowmill.model.errors import SchemaMismatch

if TYPE_CHECKING:
    from pydantic_settings import BaseSettings
    from starlette.types import ASGIApp

    from rowmill.systems.system import System

__all__ = [
    "Exit", "FormatOption", "GraceOption", "HostOption", "JsonOption", "LevelOption", "LifelineOption", "LogFormat",
    "NameOption", "PortOption", "ProcessesOption", "StopSignals", "UrlOption", "UsageError", "YesOption",
    "ask_to_change", "clock", "close_stdout", "emit", "given_url", "migrate", "prepare", "progress", "run_loop", "say",
    "serve", "settings_from", "settings_of", "start_log", "table", "work",
]  # fmt: skip

S = TypeVar("S", bound="BaseSettings")

HostOption = Annotated[str, typer.Option("--host", metavar="ADDRESS", help="The address to listen on.")]
PortOption = Annotated[int, typer.Option("--port", metavar="PORT", min=0, max=65535)]
NameOption = Annotated[
    list[str] | None,
    typer.Option("--name", metavar="HOST", help="A host name that it is called by, besides the loopback's."),
]
ProcessesOption = Annotated[
    int, typer.Option("--processes", "-p", metavar="N", min=1, help="Run this many worker processes.")
]
LifelineOption = Annotated[bool, typer.Option("--lifeline", hidden=True)]


def settings_from(kind: type[S], **options: Any) -> S:
    """Build settings from the options that were given and from the environment.

    Raises UsageError that names the variable of each value that is wrong.
    """
    from pydantic import ValidationError
    from pydantic_settings import SettingsError

    prefix = kind.model_config.get("env_prefix", "")
    try:
        return kind(**{name: value for name, value in options.items() if value})
    except SettingsError as error:
        field = re.search(r'field "(\w+)"', str(error))
        raise UsageError(f"{prefix}{field[1].upper() if field else '…'}: it is not JSON") from None
    except ValidationError as error:
        problems = [f"{prefix}{'_'.join(map(str, one['loc'])).upper()}: {one['msg']}" for one in error.errors()]
        raise UsageError("; ".join(problems)) from None


async def prepare(system: "System", name: str) -> None:
    """Check that the tables are of this version. Create them on SQLite; on a server, a person runs `migrate`."""
    embedded = system.mill.url.get_backend_name() == "sqlite"
    if embedded and not has_file(system):
        await system.migrate()  # which decides how the file is made
        return
    current = await system.mill.run(system.revisions.current, write=embedded)
    if current >= system.revisions.heads():
        return
    if not embedded:
        problem = f"the tables of {name} are missing or of another version"
        raise SchemaMismatch(f"{problem}. Run: rowmill systems {name} migrate")
    await system.migrate()


def has_file(system: "System") -> bool:
    """Return whether the SQLite database is there."""
    return Path(system.mill.url.database or "").exists()


def migrate(system: "System", json: bool) -> None:
    """Bring the tables to this version, and print the revisions that they are at."""

    async def change() -> list[str]:
        await system.migrate()
        return sorted(await system.mill.run(system.revisions.current, write=False))

    revisions = asyncio.run(change())
    emit({"revisions": revisions}, json, f"the tables are at {', '.join(revisions)}")


def serve(
    system: "System",
    name: str,
    app: "Callable[[Sequence[str]], ASGIApp]",
    *,
    host: str,
    port: int,
    names: list[str] | None,
    with_worker: bool,
    log_level: str | None,
    log_format: LogFormat,
) -> None:
    """Serve until a signal says stop, with a worker in the same process if wanted.

    `app` builds the application for the host names that it may be called by.
    """
    settings = settings_of(system.mill, None)
    start_log(log_level, log_format)

    async def run() -> None:
        from rowmill.web.guard import LOOPBACK
        from rowmill.web.serve import serve_until_stopped

        await prepare(system, name)
        made = app([*LOOPBACK, *(names or [])])
        if not with_worker:
            await serve_until_stopped(made, host, port, grace=settings.grace, announce=say)
            return
        async with system.opened():
            worker = system.mill.worker(settings=settings)
            await serve_until_stopped(made, host, port, grace=settings.grace, announce=say, worker=worker)

    process.run_loop(run())


def work(
    system: "System",
    name: str,
    *,
    processes: int,
    grace: float | None,
    log_level: str | None,
    log_format: LogFormat,
    lifeline: bool,
    options: Mapping[str, object],
) -> None:
    """Work until a signal says stop: in this process, or in several that are started with `options` too."""
    settings = settings_of(system.mill, None, grace=grace)
    start_log(log_level, log_format)
    if processes > 1:
        given = {**options, "--grace": grace, "--log-level": log_level, "--log-format": log_format.value}
        command = worker_command(["systems", name, "work"], given)
        raise typer.Exit(Supervisor(command, processes).run())
    if lifeline:
        process.stop_with_supervisor(settings.grace)
    signals = process.StopSignals(supervised=lifeline)
    signals.listen()

    async def run() -> None:
        await prepare(system, name)
        async with system.opened():
            await process.work(system.mill, None, settings, signals)

    process.run_loop(signals.run_until_stopped(run))
