"""`rowmill demo`: run a queue through failures, and verify the result."""

import asyncio
import signal
from typing import Annotated

import typer

from rowmill.cli.app import given_url
from rowmill.cli.exits import Exit
from rowmill.cli.help import MORE
from rowmill.cli.output import emit, say


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command(name="demo", rich_help_panel=MORE)(demo)


def demo(
    rows: Annotated[int, typer.Option(min=200, max=1_000_000, help="Number of rows to process.")] = 20_000,
    workers: Annotated[int, typer.Option(min=2, max=32, help="Number of worker processes.")] = 3,
    database_url: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="The database to use. Tables rowmill_demo_* are created there, and dropped at the end. "
            "Default: a SQLite file in a temporary folder.",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Determines which rows fail, and how.")] = 1,
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep tables, ledgers and logs, and print where they are.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one line of JSON at the end.")] = False,
) -> None:
    """Process a table with workers that fail, die and freeze, and verify that every row came out right.

    Exits with 0 only if the verification succeeds.

    \b
    Example:
      rowmill demo
      rowmill demo --rows 200000 --workers 4 --database-url postgresql://localhost/scratch
    """
    from rich.console import Console

    from rowmill.demo.proof import Result
    from rowmill.demo.run import Options, run
    from rowmill.demo.view import summary, view_for

    console = Console(stderr=json)
    options = Options(rows=rows, workers=workers, seed=seed, url=given_url(database_url), keep=keep)

    async def to_the_end() -> Result:
        # A polite kill cleans up as Ctrl-C does.
        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        return await run(options, lambda: view_for(console, rows))

    try:
        result = asyncio.run(to_the_end())
    except (KeyboardInterrupt, asyncio.CancelledError):
        say("Interrupted. The workers have ended.")
        raise typer.Exit(Exit.INTERRUPTED) from None
    console.print(summary(result), soft_wrap=True)
    emit(result.as_dict(), json)
    raise typer.Exit(Exit.OK if result.holds else Exit.FAILED)
