"""`rowmill doctor`: audit a mill, or a table that is not a queue yet."""

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from typing import Annotated, Any

import typer

from rowmill.adopt import AdoptOptions
from rowmill.cli.adopt import find_target, pair, words_by_kind
from rowmill.cli.app import load_mill
from rowmill.cli.exits import Exit, UsageError
from rowmill.cli.help import SET_UP
from rowmill.cli.options import (
    AppOption,
    CancelledOption,
    ColumnOption,
    DeadOption,
    DoneOption,
    JsonOption,
    OtherOption,
    ReadyOption,
    RunningOption,
    StateColumnOption,
    UrlOption,
    WaitingOption,
)
from rowmill.cli.output import emit
from rowmill.doctor import DoctorFinding, FindingSeverity, TableGuess, audit, audit_table
from rowmill.mill import Mill


def register(app: typer.Typer) -> None:
    app.command(rich_help_panel=SET_UP)(doctor)


def doctor(
    queues: Annotated[
        list[str] | None, typer.Argument(metavar="QUEUE", help="The queues to audit. Default: all.")
    ] = None,
    table: Annotated[
        str | None, typer.Option("--table", metavar="TABLE", help="Audit a table that no application declares yet.")
    ] = None,
    state_column: StateColumnOption = None,
    ready: ReadyOption = None,
    running: RunningOption = None,
    done: DoneOption = None,
    dead: DeadOption = None,
    waiting: WaitingOption = None,
    cancelled: CancelledOption = None,
    other: OtherOption = None,
    column: ColumnOption = None,
    unique: Annotated[
        list[str] | None,
        typer.Option(
            "--unique",
            metavar="COLUMN[,COLUMN]",
            help="With --table: columns in which unfinished rows should be unique.",
        ),
    ] = None,
    app: AppOption = None,
    database_url: UrlOption = None,
    json: JsonOption = False,
) -> None:
    """Audit the database and its queues. Each finding comes with its fix.

    Checks Rowmill's own tables, columns, indexes and whether the planner uses them, stuck rows, rows that can never be
    claimed, unknown states, old transactions, poolers and connections. Changes nothing. Exits with 5 if there are
    warnings or errors.

    With --table, it checks a table before `rowmill adopt`, and needs no application. Rowmill guesses the meaning of
    columns and words; options override the guess.

    \b
    Example:
      rowmill doctor
      rowmill doctor files --json
      rowmill doctor --table enrichment_requests --database-url postgresql://localhost/crm
      rowmill doctor --table jobs --ready 0 --running 1 --done 2 --dead 9 --other 7 --unique external_id
    """
    choices = AdoptOptions(
        state=state_column,
        words=words_by_kind(ready, running, done, dead, waiting, cancelled),
        columns=dict(pair(text) for text in column or ()),
    )
    options = TableOptions(choices, tuple(other or ()), tuple(tuple(names.split(",")) for names in unique or ()))
    about: dict[str, Any] = {}
    if table is None:
        if options != TableOptions():
            raise UsageError("these options are about a table that no application declares: name it with --table")
        found = asyncio.run(audited(load_mill(app, database_url), queues))
    else:
        if queues:
            raise UsageError("name queues, or a table with --table, not both")
        guess, found = asyncio.run(audited_table(table, app, database_url, options))
        if guess is not None:
            about = {"table": guess.table, "rows": guess.facts.rows, "columns": guess.columns, "states": guess.words}
    counts = Counter(finding.severity for finding in found)
    severities = {f"{severity}s": counts[severity] for severity in (FindingSeverity.ERROR, FindingSeverity.WARNING)}
    emit({**about, "findings": found, **severities}, json, lambda: show(found, counts, about))
    if counts[FindingSeverity.ERROR] or counts[FindingSeverity.WARNING]:
        raise typer.Exit(Exit.FINDINGS)


@dataclass(frozen=True, slots=True)
class TableOptions:
    """What the options say about a table that no application declares."""

    choices: AdoptOptions = field(default_factory=AdoptOptions)
    others: tuple[str, ...] = ()
    unique: tuple[tuple[str, ...], ...] = ()


async def audited(mill: Mill, names: list[str] | None) -> list[DoctorFinding]:
    chosen = [mill[name] for name in names] if names else list(mill.queues.values())
    async with mill.opened() as store:
        return await audit(store, chosen)


async def audited_table(
    name: str, app: str | None, database_url: str | None, options: TableOptions
) -> tuple[TableGuess | None, list[DoctorFinding]]:
    """Return the guess about a table, and the findings. For a declared queue there is no guess."""
    target = find_target(name, app, database_url)
    if target.mill is not None and target.queue is not None:
        if options != TableOptions():
            raise UsageError(f"queue {target.queue.name} is declared: what its table means is in your code")
        return None, await audited(target.mill, [target.queue.name])
    async with target.opened() as store:
        return await audit_table(store, name, options.choices, options.others, options.unique)


def show(found: list[DoctorFinding], counts: Counter[FindingSeverity], about: dict[str, Any]) -> None:
    """Print findings for people, each with its fix."""
    if about:
        columns = ", ".join(f"{role} {name}" for role, name in about["columns"].items())
        states = "; ".join(f"{kind}: {', '.join(words)}" for kind, words in about["states"].items())
        print(f"{about['table']}, {about['rows']:,} rows. Guessed columns: {columns or 'no column of a queue'}")
        print(f"States: {states}")
    for finding in found:
        where = f"{finding.queue}: " if finding.queue else ""
        print(f"{finding.severity:<8} {finding.code}")
        print(f"         {where}{finding.what}")
        print(f"         fix: {finding.fix}")
    if not found:
        print("Nothing found.")
    elif not counts[FindingSeverity.ERROR] and not counts[FindingSeverity.WARNING]:
        print("No errors or warnings.")
    else:
        print(f"{counts[FindingSeverity.ERROR]} errors, {counts[FindingSeverity.WARNING]} warnings")
