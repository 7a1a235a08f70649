"""Run a demo in a temporary folder, show its progress, and print the result."""

import json
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, NoReturn, Protocol, TypeVar

import typer
from rich.console import Console
from rich.progress import Progress

UrlOption = Annotated[str | None, typer.Option(metavar="URL", help="An empty PostgreSQL database; SQLite by default.")]
KeepOption = Annotated[bool, typer.Option("--keep", help="Keep the files, the database and the log, and say where.")]
JsonOption = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]
OnProgress = Callable[[str, int, int], None]
"""Called with the current step, the amount done, and the total."""


class Outcome(Protocol):
    @property
    def holds(self) -> bool: ...

    @property
    def problems(self) -> list[str]: ...

    @property
    def seconds(self) -> float: ...

    def as_dict(self) -> dict[str, Any]: ...


R = TypeVar("R", bound=Outcome)


def perform(
    name: str, run: Callable[[Path, OnProgress], R], show: Callable[[Console, R], None], *, keep: bool, as_json: bool
) -> NoReturn:
    """Run a demo. Exits with 0 only if everything came out right."""
    console = Console(stderr=as_json)
    if not console.is_terminal:
        console = Console(stderr=as_json, width=120)
    folder = Path(tempfile.mkdtemp(prefix=f"rowmill-{name}-"))
    try:
        with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
            task = bar.add_task("")

            def on_progress(what: str, done: int, of: int) -> None:
                bar.update(task, description=what, completed=done, total=of)

            result = run(folder, on_progress)
    finally:
        if keep:
            console.print(f"kept in {folder}", soft_wrap=True)
        else:
            shutil.rmtree(folder, ignore_errors=True)
    show(console, result)
    for problem in result.problems:
        console.print(f"[bold]wrong:[/bold] {problem}")
    console.print(f"{'It holds.' if result.holds else 'It does not hold.'} ({result.seconds} s)")
    if as_json:
        print(json.dumps(result.as_dict()))
    sys.exit(0 if result.holds else 1)
