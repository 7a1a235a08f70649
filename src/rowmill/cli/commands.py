"""The commands of `rowmill`, each imported when it is used: a worker starts without the code of `adopt` or `doctor`."""

from collections.abc import Iterator, MutableMapping
from functools import cache
from importlib import import_module
from typing import Any

import typer

from rowmill.cli.help import GroupedCommands, for_rich

MODULES = {
    "work": ("work", "drain"),
    "watch": ("watch",),
    "stats": ("stats",),
    "rows": ("list", "show", "why"),
    "sql": ("sql",),
    "outbox": ("outbox",),
    "change": ("requeue", "cancel", "prune"),
    "control": ("pause", "resume", "rescue", "migrate"),
    "limits": ("limits",),
    "schedule": ("schedule",),
    "reconcile": ("reconcile",),
    "adopt": ("adopt",),
    "doctor": ("doctor",),
    "grants": ("grants",),
    "demo": ("demo",),
    "systems": ("systems",),
}
"""Modules of this package with the commands that their `register` adds, in the order of the help."""
MODULE_OF = {command: module for module, commands in MODULES.items() for command in commands}


@cache
def load(module: str, rich: bool) -> dict[str, Any]:
    """Import a module and return its commands by name."""
    app = typer.Typer(cls=GroupedCommands, rich_markup_mode="rich" if rich else None)
    import_module(f"rowmill.cli.{module}").register(app)
    commands = typer.main.get_group(app).commands
    return {name: for_rich(command) if rich else command for name, command in commands.items()}


class CommandsByName(MutableMapping[str, Any]):
    """Every command by name. Reading one imports its module."""

    def __init__(self, rich: bool) -> None:
        self._rich = rich

    def __getitem__(self, name: str) -> Any:
        return load(MODULE_OF[name], self._rich)[name]

    def __iter__(self) -> Iterator[str]:
        return iter(MODULE_OF)

    def __len__(self) -> int:
        return len(MODULE_OF)

    def __setitem__(self, name: str, command: Any) -> None:
        raise TypeError("name the command in MODULES")

    def __delitem__(self, name: str) -> None:
        raise TypeError("remove the command from MODULES")


class RootCommands(GroupedCommands):
    """The group `rowmill`."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.commands = CommandsByName(self.rich_markup_mode is not None)
