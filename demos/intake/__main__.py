"""`python -m demos.intake`: run document intake. Exits with 0 only if everything came out right."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from demos.intake.run import Result, run
from demos.performing import JsonOption, KeepOption, OnProgress, UrlOption, perform


def main(
    clean: Annotated[int, typer.Option(min=4, max=1000, help="Papers with text of their own.")] = 16,
    scans: Annotated[int, typer.Option(min=0, max=100, help="Papers that need OCR.")] = 4,
    database_url: UrlOption = None,
    keep: KeepOption = False,
    as_json: JsonOption = False,
) -> None:
    """Put papers, scans and broken files through upload, analysis and review, and kill a worker meanwhile."""

    def all_of_it(folder: Path, on_progress: OnProgress) -> Result:
        return run(folder, clean=clean, scans=scans, database_url=database_url, on_progress=on_progress)

    perform("intake", all_of_it, show, keep=keep, as_json=as_json)


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


if __name__ == "__main__":
    typer.run(main)
