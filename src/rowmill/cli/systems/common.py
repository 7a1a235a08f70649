"""What the commands of every system share: its settings, its tables, its server and its workers."""

import asyncio
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from rowmill.cli import process
from rowmill.cli.app import given_url
from rowmill.cli.exits import UsageError
from rowmill.cli.logs import LogFormat, start_log
from rowmill.cli.output import emit, say
from rowmill.cli.supervisor import Supervisor
from rowmill.cli.work import settings_of
from rowmill.model.errors import SchemaMismatch

if TYPE_CHECKING:
    from fastapi import FastAPI
    from pydantic_settings import BaseSettings

    from rowmill.systems.common.system import System

S = TypeVar("S", bound="BaseSettings")

HostOption = Annotated[str, typer.Option("--host", metavar="ADDRESS", help="Where to listen.")]
PortOption = Annotated[int, typer.Option("--port", metavar="PORT", min=0, max=65535)]
NameOption = Annotated[
    list[str] | None,
    typer.Option("--name", metavar="HOST", help="A host name that it is called by, besides the loopback's."),
]
ProcessesOption = Annotated[
    int, typer.Option("--processes", "-p", metavar="N", min=1, help="Run so many worker processes.")
]
LifelineOption = Annotated[bool, typer.Option("--lifeline", hidden=True)]


def settings_from(kind: type[S], **given: Any) -> S:
    """The settings that options and environment describe."""
    from pydantic import ValidationError
    from pydantic_settings import SettingsError

    prefix = kind.model_config.get("env_prefix", "")
    try:
        return kind(**{name: value for name, value in given.items() if value})
    except SettingsError as error:
        field = re.search(r'field "(\w+)"', str(error))
        raise UsageError(f"{prefix}{field[1].upper() if field else '…'}: it is not JSON") from None
    except ValidationError as error:
        problems = [f"{prefix}{'_'.join(map(str, one['loc'])).upper()}: {one['msg']}" for one in error.errors()]
        raise UsageError("; ".join(problems)) from None


def url_given(database_url: str | None) -> str | None:
    """By an option of the command, or of `rowmill` itself."""
    return given_url(database_url)


async def prepare(system: "System", name: str) -> None:
    """Tables as this version needs them: made at once on SQLite, which is nobody else's; elsewhere somebody decides."""
    ours = system.mill.url.get_backend_name() == "sqlite"
    found = await system.mill.run(system.revisions.current, write=ours)
    if found >= system.revisions.heads():
        return
    if not ours:
        problem = f"the tables of {name} are missing or of another version"
        raise SchemaMismatch(f"{problem}. Run: rowmill systems {name} migrate")
    await system.migrate()


def migrate(system: "System", json: bool) -> None:
    async def change() -> list[str]:
        await system.migrate()
        return sorted(await system.mill.run(system.revisions.current, write=False))

    revisions = asyncio.run(change())
    emit({"revisions": revisions}, json, f"the tables are at {', '.join(revisions)}")


def serve(
    system: "System",
    name: str,
    app: "Callable[[Sequence[str]], FastAPI]",
    *,
    host: str,
    port: int,
    names: list[str] | None,
    with_worker: bool,
    log_level: str | None,
    log_format: LogFormat,
) -> None:
    """Until told to stop. `app` is given the host names that it answers to."""
    settings = settings_of(system.mill, None)
    start_log(log_level, log_format)

    async def run() -> None:
        from rowmill.systems.common.web.guard import LOOPBACK
        from rowmill.systems.common.web.serve import serve_until_told

        await prepare(system, name)
        made = app([*LOOPBACK, *(names or [])])
        await serve_until_told(system, made, host, port, settings, with_worker, said=say)

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
    """Until told to stop; in one process, or in several that are given `options` too."""
    settings = settings_of(system.mill, None, grace=grace)
    start_log(log_level, log_format)
    if processes > 1:
        given = {**options, "--grace": grace, "--log-level": log_level, "--log-format": log_format.value}
        texts = [text for option, value in given.items() if value is not None for text in (option, str(value))]
        command = [sys.executable, "-m", "rowmill", "systems", name, "work", "--lifeline", *texts]
        raise typer.Exit(Supervisor(command, processes).run())
    if lifeline:
        process.follow_lifeline(settings.grace)
    told = process.StopSignals(supervised=lifeline)
    told.listen()

    async def run() -> None:
        await prepare(system, name)
        async with system.opened():
            await process.work(system.mill, None, settings, told)

    process.run_loop(told.unless_before(run))
