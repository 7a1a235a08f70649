"""`python -m demos.entities`: see entities linked through outages. Exits with 0 only if everything came out right."""

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

from demos.entities.run import Result, run


def main(
    entities: Annotated[int, typer.Option(min=50, max=100_000, help="Entities to link.")] = 2000,
    outage: Annotated[float, typer.Option(min=0, max=3600, help="Seconds for which Wikidata is away.")] = 60.0,
    database_url: Annotated[
        str | None, typer.Option(metavar="URL", help="An empty PostgreSQL database; SQLite by default.")
    ] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the database and the log, and say where.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")] = False,
) -> None:
    """Link and enrich entities by services that misbehave, with workers that are told to stop meanwhile."""
    console = Console(stderr=as_json)
    if not console.is_terminal:
        console = Console(stderr=as_json, width=120)
    folder = Path(tempfile.mkdtemp(prefix="rowmill-entities-"))
    try:
        with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
            task = bar.add_task("")

            def told(what: str, done: int, of: int) -> None:
                bar.update(task, description=what, completed=done, total=of)

            result = run(folder, entities=entities, outage=outage, database_url=database_url, told=told)
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
    heads = ("service", "calls", "answered", "asked again", "ids again", "most in a second", "misbehaved")
    table = Table(*heads, box=None, pad_edge=False)
    for name, saw in sorted(result.services.items()):
        faults = ", ".join(f"{number} {fault}" for fault, number in sorted(saw["faults"].items()))
        keys = ("requests", "answered", "answered_twice", "items_twice", "most_in_a_second")
        table.add_row(name, *(str(saw[key]) for key in keys), faults)
    console.print(table)
    states = ", ".join(f"{number} {word}" for word, number in sorted(result.by_status.items()))
    console.print(
        f"{result.entities} entities: {states}; {result.otherwise} otherwise than with services that are well"
    )
    console.print(f"{result.linked} linked, {result.without_link} without a link")
    known = result.right + result.missed
    console.print(f"links: {result.right} right, {result.wrong} wrong, {known - result.right} of {known} not found")
    console.print(
        f"entities waited for: {', '.join(result.waited_for) or 'nobody'}; workers told to stop: {result.stopped}"
    )
    for problem in result.problems:
        console.print(f"[bold]wrong:[/bold] {problem}")
    console.print(f"{'It holds.' if result.holds else 'It does not hold.'} ({result.seconds} s)")


if __name__ == "__main__":
    typer.run(main)
