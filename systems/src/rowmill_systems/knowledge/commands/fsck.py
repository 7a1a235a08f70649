"""`rowmill systems knowledge fsck`: do the stores agree?"""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from rowmill.errors import ReconciliationBusy
from rowmill.systems.commands import (
    JsonOption,
    LogFormat,
    UrlOption,
    UsageError,
    YesOption,
    ask_to_change,
    emit,
    progress,
    say,
    start_log,
    table,
)
from rowmill_systems.knowledge.commands.loading import StorageOption, VectorsOption, load_with_stores, run

if TYPE_CHECKING:
    from rowmill_systems.knowledge.consistency import ConsistencyReport, OrphanReport
    from rowmill_systems.knowledge.knowledge import Knowledge

SHOWN = 20
"""Findings that are printed; --json has more."""


def fsck(
    execute: Annotated[
        bool, typer.Option("--execute", help="Record findings, and have events mend what can be mended.")
    ] = False,
    remove_orphans: Annotated[
        bool, typer.Option("--remove-orphans", help="Remove what the stores have and no row knows, after a preview.")
    ] = False,
    cap: Annotated[int, typer.Option("--cap", metavar="N", min=1, max=1000, help="Remove at most N orphans.")] = 100,
    believe_empty: Annotated[
        bool,
        typer.Option("--believe-empty", help="A store that lists nothing has lost everything. Otherwise: unreadable."),
    ] = False,
    yes: YesOption = False,
    database_url: UrlOption = None,
    storage: StorageOption = None,
    vectors: VectorsOption = None,
    json: JsonOption = False,
) -> None:
    """Compare database, objects and vectors. Without options, nothing is written.

    Exits with 0 if they agree, 5 if they do not, 3 if a store could not be read. Workers do this every hour by
    themselves, with --execute.

    \b
    Example:
      rowmill systems knowledge fsck
      rowmill systems knowledge fsck --execute --json
      rowmill systems knowledge fsck --remove-orphans
    """
    start_log(None, LogFormat.TEXT, "error")
    if remove_orphans:
        if execute:
            raise UsageError("--execute mends and --remove-orphans removes: call them one after the other")
        remove(database_url, storage, vectors, cap=cap, yes=yes, json=json)
        return

    async def compare(knowledge: "Knowledge") -> "ConsistencyReport":
        from rowmill_systems.knowledge.consistency import check

        with progress("Comparing") as told:
            return await check(knowledge, execute=execute, believe_empty=believe_empty, progress=told)

    try:
        report = run(load_with_stores(database_url, storage, vectors), compare)
    except ReconciliationBusy as error:
        raise UsageError(f"{error}. Without --execute it can be compared meanwhile") from error
    emit(report.as_dict(), json, lambda: show(report))
    raise typer.Exit(report.exit_code)


def show(report: "ConsistencyReport") -> None:
    from rowmill_systems.knowledge.consistency.kinds import KINDS_BY_NAME

    compared = ", ".join(f"{number:,} in the {name}" for name, number in report.run.observed.items())
    print(f"compared {compared}" if compared else "nothing was compared")
    for one in report.run.unreadable:
        print(
            f"the {one.inventory} could not be read to the end ({one.code}): nothing is concluded from what is missing"
        )
    if report.run.in_flight:
        print(f"{report.run.in_flight:,} changed a moment ago: they are looked at later")
    if not report.findings:
        print("no disagreement was found" if report.unreachable else "they agree")
        return
    print()
    kinds = sorted(report.run.counts.items(), key=lambda kind: -kind[1])
    table(("finding", "number", "what is done about it"), [(name, n, KINDS_BY_NAME[name].how) for name, n in kinds])
    print()
    found = report.run.findings
    table(("finding", "key"), [(finding.kind, finding.key) for finding in found[:SHOWN]])
    if report.findings > SHOWN:
        print(f"and {report.findings - min(SHOWN, len(found)):,} more: --json lists the first thousand")
    if report.run.executed:
        print(f"{report.run.corrected:,} will be mended by events, {report.run.remaining:,} wait for the next run")
    elif report.run.planned:
        print(f"{report.run.planned:,} can be mended: add --execute")


def remove(
    database_url: str | None, storage: str | None, vectors: str | None, *, cap: int, yes: bool, json: bool
) -> None:
    """Remove orphans after a preview. Exits with 3 if a store could not be read."""

    async def look(knowledge: "Knowledge") -> "OrphanReport":
        from rowmill_systems.knowledge.consistency import preview_orphans

        with progress("Comparing") as told:
            return await preview_orphans(knowledge, cap, told)

    async def clear(knowledge: "Knowledge") -> "OrphanReport":
        from rowmill_systems.knowledge.consistency import remove_orphans

        with progress("Removing") as told:
            return await remove_orphans(knowledge, cap, told)

    if yes:
        report = run(load_with_stores(database_url, storage, vectors), clear)
    else:
        report = run(load_with_stores(database_url, storage, vectors), look)
        if report.listed:
            say_orphans(report)
            ask_to_change(f"the stores: {len(report.listed):,} orphans will be removed for good")
            report = run(load_with_stores(database_url, storage, vectors), clear)
    done: dict[str, Any] = report.as_dict()
    left = report.found - report.removed
    emit(
        done,
        json,
        f"{report.removed:,} of {report.found:,} orphans were removed{f', {left:,} are left' if left else ''}",
    )
    raise typer.Exit(3 if report.unreachable else 5 if left else 0)


def say_orphans(report: "OrphanReport") -> None:
    for kind, number in report.counts.items():
        say(f"{number:,} {kind}")
    for kind, key in report.listed[:SHOWN]:
        say(f"  {kind} {key}")
    if report.found > SHOWN:
        say(f"  and {report.found - SHOWN:,} more")
