"""Help texts: group commands, show flags without a type, and keep square brackets."""

from typing import Any

import typer
from typer.core import TyperGroup

RUN = "Run"
LOOK = "Look"
CHANGE = "Change"
SET_UP = "Set up and check"
MORE = "More"


class GroupedCommands(TyperGroup):
    """Lists commands by group when stdout is not a terminal. On a terminal, Rich draws panels."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        groups: dict[str, list[tuple[str, Any]]] = {}
        for name in self.list_commands(ctx):
            command: Any = self.get_command(ctx, name)
            if command is not None and not command.hidden:
                groups.setdefault(getattr(command, "rich_help_panel", None) or "Commands", []).append((name, command))
        widest = max((len(name) for commands in groups.values() for name, _ in commands), default=0)
        for title, commands in groups.items():
            with formatter.section(title):
                limit = formatter.width - 6 - widest
                formatter.write_dl([(name.ljust(widest), each.get_short_help_str(limit)) for name, each in commands])


def subcommands(command: Any) -> dict[str, Any]:
    """Return the commands of a group by name, including those that are loaded on use; {} for a plain command."""
    if not hasattr(command, "commands"):
        return {}
    context = typer.Context(command)
    return {name: command.get_command(context, name) for name in command.list_commands(context)}


def for_rich(command: Any) -> Any:
    """Prepare a command's help for Rich. Rich would drop [tool.rowmill] as markup, and show each flag with a type as if
    it took a value."""
    command.help = escaped(command.help)
    command.short_help = escaped(command.short_help)
    for option in (*command.params, command.get_help_option(typer.Context(command))):
        option.help = escaped(getattr(option, "help", None))
        if getattr(option, "is_flag", False):
            option.metavar = ""
    commands = getattr(command, "commands", None)
    if isinstance(commands, dict):  # those of another mapping are prepared when they are loaded
        for below in commands.values():
            for_rich(below)
    return command


def for_plain_text(command: Any) -> Any:
    """Prepare a command's help for output that is not a terminal: no boxes."""
    command.rich_markup_mode = None
    for below in getattr(command, "commands", {}).values():
        for_plain_text(below)
    return command


def escaped(text: str | None) -> str | None:
    from rich.markup import escape  # here, since only help on a terminal needs it

    return None if text is None else escape(text)
