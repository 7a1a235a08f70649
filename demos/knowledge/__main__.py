"""`python -m demos.knowledge`: 300 documents, killed workers, damaged stores. Exits with 0 only if all is right."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from demos.knowledge.run import Result, run
from demos.performing import JsonOption, KeepOption, OnProgress, UrlOption, perform


def main(
    documents: Annotated[int, typer.Option(min=60, max=2000, help="Papers with text of their own.")] = 268,
    scans: Annotated[int, typer.Option(min=0, max=100, help="Papers that need OCR.")] = 1,
    database_url: UrlOption = None,
    keep: KeepOption = False,
    as_json: JsonOption = False,
) -> None:
    """Upload documents of all kinds, kill workers, delete a knowledge base, damage the stores, compare them, search."""

    def all_of_it(folder: Path, on_progress: OnProgress) -> Result:
        return run(folder, clean=documents, scans=scans, database_url=database_url, on_progress=on_progress)

    perform("knowledge", all_of_it, show, keep=keep, as_json=as_json)


def show(console: Console, result: Result) -> None:
    failed = ", ".join(f"{name} ({code})" for name, code in sorted(result.failed.items()))
    console.print(
        f"{result.documents} documents uploaded and processed in {result.processing_seconds} s: {result.ready} ready "
        f"with {result.passages:,} passages; failed, as they must: {failed}"
    )
    console.print(
        f"{result.killed} workers killed with -9 meanwhile, {result.taken_over} documents ready after a failed try; a "
        "knowledge base was deleted"
    )
    table = Table("damaged behind its back", "places", box=None, pad_edge=False)
    for what, number in result.damaged.items():
        table.add_row(what, str(number))
    console.print(table)
    first = ", ".join(f"{kind} {number}" for kind, number in result.found_first.items())
    console.print(f"the first comparison found: {first}", highlight=False)
    second = ", ".join(f"{kind} {number}" for kind, number in result.found_second.items()) or "nothing"
    console.print(f"{result.orphans_removed} orphans removed on request; the second comparison found: {second}")
    console.print(f"search: {result.answered} of {result.asked} questions find their document")
    for question, filename in list(result.answers.items())[:6]:
        console.print(f"  {question}  →  {filename}", highlight=False)


if __name__ == "__main__":
    typer.run(main)
