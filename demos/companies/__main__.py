"""`python -m demos.companies`: resolve names by a service that misbehaves. Exits with 0 only if all came out right."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from demos.companies.run import Result, run
from demos.performing import JsonOption, KeepOption, OnProgress, UrlOption, perform


def main(
    rows: Annotated[int, typer.Option(min=1000, max=1_000_000, help="Rows of the pipeline.")] = 20_000,
    names: Annotated[int, typer.Option(min=200, max=8000, help="Distinct names in them.")] = 6000,
    database_url: UrlOption = None,
    keep: KeepOption = False,
    as_json: JsonOption = False,
) -> None:
    """Give the rows of a pipeline company ids: some are known, the others are looked up in the background."""

    def all_of_it(folder: Path, on_progress: OnProgress) -> Result:
        return run(folder, rows=rows, names=names, database_url=database_url, on_progress=on_progress)

    perform("companies", all_of_it, show, keep=keep, as_json=as_json)


def show(console: Console, result: Result) -> None:
    rungs = ", ".join(f"{number:,} by {rung}" for rung, number in sorted(result.by_rung.items()))
    console.print(f"pipeline: {result.rows:,} rows, {result.names:,} names, {result.pipeline_seconds} s: {rungs}")
    faults = ", ".join(f"{number} {fault}" for fault, number in sorted(result.service["faults"].items()))
    console.print(f"service: {result.service['requests']:,} requests; misbehaved: {faults}")
    runs = ", ".join(f"{number} by {what}" for what, number in sorted(result.runs.items()))
    console.print(f"Dagster started runs: {runs or 'none'}; workers killed: {result.killed}")
    kept = ", ".join(f"{number:,} {why}" for why, number in sorted(result.temporary.items())) or "none"
    console.print(
        f"at the end: {result.real:,} rows have the right id, {result.wrong:,} a wrong one, temporary: {kept}, "
        f"{result.without_name} without a name"
    )
    console.print(
        f"names looked up twice: {result.service['answered_twice']} (at most {result.most_asked_again}: "
        "those that a killed worker had not stored)"
    )


if __name__ == "__main__":
    typer.run(main)
