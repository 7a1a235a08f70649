"""`rowmill systems`: the commands of all installed systems.

A system registers with an entry point of the group `rowmill.systems` that names a `typer.Typer`. Entry points are read
only by this command, so that other commands start fast.
"""

from importlib.metadata import EntryPoint, entry_points
from typing import Any

import typer
from typer.core import TyperCommand

from rowmill.cli.exits import UsageError
from rowmill.cli.help import MORE, GroupedCommands, for_plain_text, for_rich

GROUP = "rowmill.systems"
INSTALL = "pip install 'rowmill-systems[intake,entities]'"


class InstalledSystems(GroupedCommands):
    """The systems that entry points name, loaded on use."""

    def list_commands(self, ctx: Any) -> list[str]:
        return sorted({entry.name for entry in entry_points(group=GROUP)})

    def get_command(self, ctx: Any, name: str) -> Any:
        entry = next(iter(entry_points(group=GROUP, name=name)), None)
        if entry is None:
            installed = ", ".join(self.list_commands(ctx))
            problem = f"there is no system {name}. Installed: {installed}" if installed else "no system is installed"
            raise UsageError(f"{problem}. Those that ship: {INSTALL}")
        command = load(entry)
        return for_plain_text(command) if self.rich_markup_mode is None else for_rich(command)


def load(entry: EntryPoint) -> Any:
    """Return the system's command. If it can't be loaded, return one that fails with the reason, so that the others
    still work."""
    try:
        command = typer.main.get_group(entry.load())
    except Exception as error:
        return unloadable(entry, f"{type(error).__name__}: {error}")
    command.name = entry.name
    return command


def unloadable(entry: EntryPoint, reason: str) -> TyperCommand:
    """Return a command that fails with the reason, whatever its arguments."""
    problem = f"system {entry.name} can't be loaded from {entry.value}: {reason}"

    def fail() -> None:
        raise UsageError(problem)

    ignoring = {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []}
    return TyperCommand(entry.name, callback=fail, help=problem, context_settings=ignoring, rich_markup_mode=None)


def register(app: typer.Typer) -> None:
    systems = typer.Typer(
        cls=InstalledSystems, no_args_is_help=True, help=f"Applications on Rowmill, ready to run: {INSTALL}"
    )

    @systems.callback()
    def installed() -> None:
        pass

    app.add_typer(systems, name="systems", rich_help_panel=MORE)
