"""`python -m demos.intake`: see document intake at work. Exits with 0 only if everything came out right."""

import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from demos.intake.run import Result, run


def main(
    clean: Annotated[int, typer.Option(min=4, max=1000, help="Papers with text of their own.")] = 16,
    scans: Annotated[int, typer.Option(min=0, max=100, help="Papers that need OCR.")] = 4,
    database_url: Annotated[
        str | None, typer.Option(metavar="URL", help="An empty PostgreSQL database; SQLite by default.")
    ] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the files and the log, and say where.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")] = False,
) -> None:
    """Put papers, scans and broken files through upload, analysis and review, and kill a worker meanwhile."""
    console = Console(stderr=as_json)
    if not console.is_terminal:
        console = Console(stderr=as_json, width=120)
    folder = Path(tempfile.mkdtemp(prefix="rowmill-intake-"))
    try:
        with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
            task = bar.add_task("")

            def told(what: str, done: int, of: int) -> None:
                bar.update(task, description=what, completed=done, total=of)

            result = run(folder, clean=clean, scans=scans, database_url=database_url, told=told)
    finally:
        if keep:
            console.print(f"kept in {folder}", soft_wrap=True)
        else:
            shutil.rmtree(folder, ignore_errors=True)
    show(console, result)
    if as_json:
        print(json.dumps(result.as_dict()))
    sys.exit(0 if result.holds else 1)


def show(console: Console, result: Result) -> None:
    table = Table("file", "kind", "state", "suggested", "known fields right", box=None, pad_edge=False)
    for one in result.files:
        state = (one.error or one.state).split(":")[0] if one.state == "failed" else one.state
        rights = f"{one.right} of {one.known}" if one.known else "same bytes: shared" if one.reused else ""
        kind = f"{one.kind or ''}{', read by OCR' if one.scanned else ''}"
        table.add_row(one.filename, kind, state, str(one.suggested or ""), rights)
    console.print(table)
    for what, scanned in (("clean papers", False), ("scans", True)):
        judged = [one for one in result.files if one.known and one.scanned == scanned]
        if judged:
            right, known = sum(one.right for one in judged), sum(one.known for one in judged)
            console.print(f"{what}: {right} of {known} known fields right ({right / known:.0%})")
    console.print(
        f"{result.killed} worker killed with -9, {result.taken_over} of its files read by another; "
        f"{result.twice} suggestions twice; the second of two who decide hears {result.second_answer}"
    )
    for problem in result.problems:
        console.print(f"[bold]wrong:[/bold] {problem}")
    console.print(f"{'It holds.' if result.holds else 'It does not hold.'} ({result.seconds} s)")


if __name__ == "__main__":
    typer.run(main)
