"""`python -m demos.entities`: link entities through outages. Exits with 0 only if everything came out right."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from demos.entities.run import Result, run
from demos.performing import JsonOption, KeepOption, OnProgress, UrlOption, perform


def main(
    entities: Annotated[int, typer.Option(min=50, max=100_000, help="Entities to link.")] = 2000,
    outage: Annotated[float, typer.Option(min=0, max=3600, help="Seconds for which Wikidata is away.")] = 60.0,
    database_url: UrlOption = None,
    keep: KeepOption = False,
    as_json: JsonOption = False,
) -> None:
    """Link and enrich entities by services that misbehave, with workers that are told to stop meanwhile."""

    def all_of_it(folder: Path, on_progress: OnProgress) -> Result:
        return run(folder, entities=entities, outage=outage, database_url=database_url, on_progress=on_progress)

    perform("entities", all_of_it, show, keep=keep, as_json=as_json)


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


if __name__ == "__main__":
    typer.run(main)
