"""`rowmill doctor`: what is wrong with a mill, and what to do about it."""

import asyncio
from collections import Counter
from typing import Annotated

import typer

from rowmill.cli.app import load_mill
from rowmill.cli.exits import Exit
from rowmill.cli.help import SET_UP
from rowmill.cli.options import AppOption, JsonOption, UrlOption
from rowmill.cli.output import emit
from rowmill.mill import Mill
from rowmill.store.doctor import Finding, Severity, audit


def register(app: typer.Typer) -> None:
    app.command(rich_help_panel=SET_UP)(doctor)


def doctor(
    queues: Annotated[
        list[str] | None, typer.Argument(metavar="[QUEUE]...", help="Only these; all by default.")
    ] = None,
    app: AppOption = None,
    database_url: UrlOption = None,
    json: JsonOption = False,
) -> None:
    """Audit the database and its queues; each finding comes with its fix.

    Looks at Rowmill's own tables, columns, indexes and whether the planner uses them, stuck rows, rows that can never
    be claimed, unknown states, old transactions, poolers, connections. Changes nothing. Exits with 5 when there are
    warnings or errors.

    \b
    Example:
      rowmill doctor
      rowmill doctor files --json
    """
    mill = load_mill(app, database_url)
    found = asyncio.run(examined(mill, queues))
    counts = Counter(finding.severity for finding in found)
    data = {"findings": found, **{f"{severity}s": counts[severity] for severity in (Severity.ERROR, Severity.WARNING)}}
    emit(data, json, lambda: show(found, counts))
    if counts[Severity.ERROR] or counts[Severity.WARNING]:
        raise typer.Exit(Exit.FINDINGS)


async def examined(mill: Mill, names: list[str] | None) -> list[Finding]:
    chosen = [mill[name] for name in names] if names else list(mill.queues.values())
    async with mill.opened() as store:
        return await audit(store, chosen)


def show(found: list[Finding], counts: Counter[Severity]) -> None:
    """For people: what, then how to mend it."""
    for finding in found:
        where = f"{finding.queue}: " if finding.queue else ""
        print(f"{finding.severity:<8} {finding.code}")
        print(f"         {where}{finding.what}")
        print(f"         fix: {finding.fix}")
    if not found:
        print("Nothing found.")
    elif not counts[Severity.ERROR] and not counts[Severity.WARNING]:
        print("Nothing to worry about.")
    else:
        print(f"{counts[Severity.ERROR]} errors, {counts[Severity.WARNING]} warnings")
