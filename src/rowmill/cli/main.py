"""The command `rowmill`."""

import logging
import sys
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from io import TextIOWrapper
from typing import Annotated, Any

import typer

from rowmill import __version__
from rowmill.cli.app import GIVEN, GlobalOptions
from rowmill.cli.commands import MODULES, RootCommands
from rowmill.cli.errors import print_error
from rowmill.cli.exits import Exit
from rowmill.cli.help import for_rich
from rowmill.cli.options import AppOption, UrlOption
from rowmill.cli.output import close_stdout, say
from rowmill.cli.plain_arguments import parse

app = typer.Typer(
    name="rowmill",
    cls=RootCommands,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich" if sys.stdout.isatty() else None,
    pretty_exceptions_enable=False,
)


def show_version(wanted: bool) -> None:
    if wanted:
        print(f"rowmill {__version__}")
        raise typer.Exit


@app.callback()
def common(
    app: AppOption = None,
    database_url: UrlOption = None,
    debug: Annotated[bool, typer.Option("--debug", help="Print where an error was raised.")] = False,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=show_version, is_eager=True)
    ] = False,
) -> None:
    """Your table is the queue: process its rows, inspect them, requeue them.

    Exit codes: 0 ok, 1 failed, 2 usage, 3 database unreachable, 4 schema or rights, 5 findings, 130 interrupted.
    """
    GIVEN.set(GlobalOptions(app, database_url, debug))


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command. Return its exit code."""
    before = GIVEN.set(GlobalOptions())
    try:
        if (plain := plain_call(sys.argv[1:] if arguments is None else arguments)) is not None:
            plain()
            return Exit.OK
        command: Any = typer.main.get_command(app)
        if app.rich_markup_mode is not None:
            for_rich(command)
        code = command(args=arguments, prog_name="rowmill", standalone_mode=False)
        return int(code or 0)
    except typer.Exit as ended:
        return int(ended.exit_code)
    except typer.TyperException as error:
        return usage(error)
    except (typer.Abort, KeyboardInterrupt):
        return Exit.INTERRUPTED
    except Exception as error:
        return print_error(error)
    finally:
        GIVEN.reset(before)


def plain_call(arguments: Sequence[str]) -> Callable[[], object] | None:
    """Return the call of a worker's command if its arguments are plain; None: Typer has to parse them."""
    if not arguments or arguments[0] not in MODULES["work"]:
        return None
    command = getattr(import_module("rowmill.cli.work"), arguments[0])
    given = parse(command, arguments[1:])
    return None if given is None else partial(command, **given)


def usage(error: typer.TyperException) -> int:
    show = getattr(error, "show", None)
    if show is not None:
        show()
    else:
        say(f"rowmill: {error}")
    return int(getattr(error, "exit_code", Exit.USAGE))


def main() -> None:
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal without UTF-8 gets ? for what it can't show
    # What drivers leave behind when a command is interrupted is no news. A command that starts a log has it there.
    logging.getLogger("asyncio").addHandler(logging.NullHandler())
    code = run()
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        close_stdout()
    sys.exit(code)
