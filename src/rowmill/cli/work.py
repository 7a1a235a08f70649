"""`rowmill work` and `rowmill drain`."""

import shlex
from dataclasses import replace
from functools import partial
from typing import Annotated, Any

import typer

from rowmill.cli import process
from rowmill.cli.app import GIVEN, GlobalOptions, load_mill
from rowmill.cli.exits import UsageError
from rowmill.cli.help import RUN
from rowmill.cli.logs import LogFormat, start_log
from rowmill.cli.options import AppOption, JsonOption, UrlOption
from rowmill.cli.output import emit, say
from rowmill.cli.supervisor import Supervisor, worker_command
from rowmill.mill import Mill
from rowmill.worker.report import Report
from rowmill.worker.settings import WorkerSettings, from_environment, number


def bytes_of(text: str) -> int:
    """Parse --claimed-bytes."""
    try:
        return int(number("claimed_bytes", text))
    except ValueError as error:
        raise typer.BadParameter(f"{text!r}: {error}") from None


MillArgument = Annotated[
    str | None,
    typer.Argument(metavar="MODULE:MILL", help="The mill to run, like --app.", show_default=False),
]
QueueOption = Annotated[
    list[str] | None,
    typer.Option("--queue", "-q", metavar="NAME", help="Only this queue; may be given several times."),
]
GraceOption = Annotated[
    float | None,
    typer.Option(
        "--grace", metavar="SECONDS", min=0.0, help="How long handlers may take to finish after a signal to stop."
    ),
]
PollOption = Annotated[
    float | None,
    typer.Option("--poll-max", metavar="SECONDS", min=0.001, help="The longest wait between two polls for rows."),
]
BytesOption = Annotated[
    int | None,
    typer.Option(
        "--claimed-bytes", metavar="SIZE", parser=bytes_of,
        help="Memory that all claimed rows together may use: 268435456, 512M, 1G.",
    ),
]  # fmt: skip
TracebacksOption = Annotated[
    bool | None,
    typer.Option(
        "--tracebacks", help="Store the traceback of each failed attempt. Default: ROWMILL_TRACEBACKS.",
        show_default=False,
    ),
]  # fmt: skip
LevelOption = Annotated[
    str | None,
    typer.Option("--log-level", metavar="LEVEL", help="debug, info, warning or error. Default: ROWMILL_LOG."),
]
FormatOption = Annotated[LogFormat, typer.Option("--log-format", help="Log one line of text or JSON per event.")]


def register(app: typer.Typer) -> None:
    app.command(rich_help_panel=RUN)(work)
    app.command(rich_help_panel=RUN)(drain)


def work(
    where: MillArgument = None,
    app: AppOption = None,
    queue: QueueOption = None,
    processes: Annotated[
        int, typer.Option("--processes", "-p", metavar="N", min=1, help="Number of worker processes.")
    ] = 1,
    grace: GraceOption = None,
    poll_max: PollOption = None,
    claimed_bytes: BytesOption = None,
    tracebacks: TracebacksOption = None,
    database_url: UrlOption = None,
    log_level: LevelOption = None,
    log_format: FormatOption = LogFormat.TEXT,
    lifeline: Annotated[bool, typer.Option("--lifeline", hidden=True)] = False,
) -> None:
    """Run handlers until a signal stops them. Running rows get the grace period to finish; the rest are released. A
    second signal exits at once.

    \b
    Example:
      rowmill work app:mill
      rowmill work app:mill --queue files --processes 4
    """
    name = one_of(where, app)
    mill = load_mill(name, database_url)
    given_settings = {"grace": grace, "poll_max": poll_max, "claimed_bytes": claimed_bytes, "tracebacks": tracebacks}
    settings = settings_of(mill, queue, **given_settings)
    start_log(log_level, log_format)
    if processes > 1:
        given = GIVEN.get(GlobalOptions())
        options = {
            "--app": name or given.app, "--database-url": database_url or given.database_url, "--queue": queue,
            "--log-level": log_level, "--log-format": log_format.value,
            **{f"--{option.replace('_', '-')}": value for option, value in given_settings.items()},
        }  # fmt: skip
        command = worker_command([*(["--debug"] if given.debug else []), "work"], options)
        raise typer.Exit(Supervisor(command, processes).run())
    if lifeline:
        process.stop_with_supervisor(settings.grace)
    signals = process.StopSignals(supervised=lifeline)
    signals.listen()
    process.run_loop(signals.run_until_stopped(partial(process.work, mill, queue, settings, signals)))


def drain(
    where: MillArgument = None,
    app: AppOption = None,
    queue: QueueOption = None,
    grace: GraceOption = None,
    claimed_bytes: BytesOption = None,
    tracebacks: TracebacksOption = None,
    database_url: UrlOption = None,
    log_level: LevelOption = None,
    log_format: FormatOption = LogFormat.TEXT,
    json: JsonOption = False,
) -> None:
    """Run handlers until no row is ready, and print what was done. Rows that wait for a later time stay.

    \b
    Example:
      rowmill drain app:mill
      rowmill drain app:mill --queue files --json
    """
    mill = load_mill(one_of(where, app), database_url)
    settings = settings_of(mill, queue, grace=grace, claimed_bytes=claimed_bytes, tracebacks=tracebacks)
    start_log(log_level, log_format, "warning")
    signals = process.StopSignals()
    signals.listen()

    async def drained() -> None:
        report = await signals.run_until_stopped(partial(mill.drain, queue, settings=settings, begun=signals.stops))
        if report is None:
            say("stopped before the work began")
            return
        emit(report.as_dict(), json, in_words(report))
        for name, stage in signals.worker.paused if signals.worker is not None else ():
            say(f"stage {stage} of {name} is paused. Go on with: rowmill resume {shlex.quote(name)}")
        process.exit_if_handlers_run(signals.worker, lambda: signals.code)

    process.run_loop(drained())
    raise typer.Exit(signals.code)


def one_of(where: str | None, app: str | None) -> str | None:
    if where and app and where != app:
        raise UsageError(f"two mills are named, {where} and {app}. Name one")
    return where if app is None else app


def settings_of(mill: Mill, queues: list[str] | None, **given: float | None) -> WorkerSettings:
    """Merge the worker's settings: options override the environment, which overrides the mill. Raises UsageError if
    there is no handler to run."""
    for name in queues or ():
        if not mill[name].handlers:
            raise UsageError(
                f"queue {name} has no handler. Register one with @{name}.handler() in the module of the mill"
            )
    if not any(queue.handlers for queue in mill.queues.values()):
        known = ", ".join(mill.queues) or "none"
        raise UsageError(
            f"this mill has no handlers to run; its queues: {known}. Register them in the module that is named, "
            "or in one that it imports"
        )
    options: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    return replace(from_environment(mill.settings), **options)


def in_words(report: Report) -> str:
    counts = [
        (report.done, "done"),
        (report.settled.get("advance", 0), "moved on"),
        (report.again, "to be tried again"),
        (report.held, "put back to wait for a limit"),
        (report.dead, "dead"),
        (report.cancelled, "cancelled"),
        (report.settled.get("release", 0), "released"),
        (report.rescued, "rescued"),
        (report.lost, "lost"),
    ]
    said = ", ".join(f"{rows} {what}" for rows, what in counts if rows)
    return f"{said or 'nothing was ready'} ({report.seconds:.1f} s)"
