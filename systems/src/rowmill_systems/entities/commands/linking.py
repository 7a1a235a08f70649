"""`rowmill systems entities link`: link and enrich the names of a file, with progress."""

import asyncio
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, BinaryIO

import sqlalchemy as sa

from rowmill.systems import commands
from rowmill.systems.commands import (
    Exit,
    LogFormat,
    StopSignals,
    UsageError,
    close_stdout,
    progress,
    run_loop,
    say,
    settings_of,
    start_log,
)
from rowmill.worker import WorkerSettings
from rowmill_systems.entities.commands.kb import known_type
from rowmill_systems.entities.commands.waiting import waits
from rowmill_systems.entities.entities import Entities
from rowmill_systems.entities.settings import EntitiesSettings
from rowmill_systems.entities.sheets.columns import SheetColumns
from rowmill_systems.entities.sheets.writing import batched, write
from rowmill_systems.entities.submitting import submit
from rowmill_systems.entities.words import COMPLETE, FAILED, PENDING
from rowmill_systems.parts.sheets.errors import BadSheet
from rowmill_systems.parts.sheets.opening import delimiter_of, opened
from rowmill_systems.parts.sheets.sheet import Sheet
from rowmill_systems.parts.sheets.target import check_target

LOOK_SECONDS = 0.3
TO_LINK = (PENDING, "LINKING", "LINK_FAILED")


@dataclass(frozen=True, slots=True)
class LinkFileOptions:
    """The options of the command."""

    file: Path | None
    """None: standard input."""
    column: str
    type_column: str | None
    type: str | None
    context_columns: tuple[str, ...]
    id_column: str | None
    output: Path | None
    as_json: bool
    enrich: bool
    retry_failed: bool
    run: str
    delimiter: str | None


@dataclass(frozen=True, slots=True)
class LinkedSheet:
    """The file, and the dataset of its rows."""

    sheet: Sheet
    columns: SheetColumns
    dataset: str
    rows: int
    asked: int
    """Rows with a name that can be asked about."""


def link_file(entities: Entities, wanted: LinkFileOptions) -> int:
    """Link a file. Return the exit code."""
    settings = settings_of(entities.mill, None)
    start_log(None, LogFormat.TEXT, "error")
    try:
        with opened(wanted.file) as file:
            batch = understood(file, wanted, entities.settings)
            return run(entities, batch, wanted, settings)
    except BadSheet as error:
        raise UsageError(f"{wanted.file or 'standard input'}: {error}") from None


def understood(file: BinaryIO, wanted: LinkFileOptions, settings: EntitiesSettings) -> LinkedSheet:
    """Read the whole file before anything is put in. Raises BadSheet if something is wrong with it."""
    if wanted.type is not None and wanted.type_column is not None:
        raise UsageError("say what the names are once: --type for all of them, or --type-column")
    known_type(wanted.type)
    delimiter = delimiter_of(wanted.delimiter)
    if wanted.output is not None:
        check_target(wanted.output, wanted.file)
    sheet = Sheet(file, delimiter)
    columns = SheetColumns.named(
        sheet.header,
        name=wanted.column,
        type=wanted.type_column,
        context=wanted.context_columns,
        id=wanted.id_column,
        fixed_type=wanted.type,
    )
    rows, asked = columns.count(sheet)
    if sheet.encoding == "cp1252":
        say("it is not UTF-8: read as Windows-1252")
    return LinkedSheet(sheet, columns, dataset_of(sheet, wanted, settings), rows, asked)


def dataset_of(sheet: Sheet, wanted: LinkFileOptions, settings: EntitiesSettings) -> str:
    """Return the name of the dataset: the same for the same bytes and the same options."""
    kb = settings.knowledge_base
    made = [kb.stat().st_mtime_ns, kb.stat().st_size] if kb is not None and kb.is_file() else None
    question = [
        sheet.digest, sheet.delimiter, wanted.column, wanted.type_column, wanted.type, wanted.context_columns,
        wanted.id_column, wanted.run, settings.sources, settings.reconciliation, settings.language,
        settings.link_threshold, settings.link_gap, str(kb), made,
    ]  # fmt: skip
    return f"csv-{sha256(json.dumps(question).encode()).hexdigest()[:32]}"


def run(entities: Entities, batch: LinkedSheet, wanted: LinkFileOptions, settings: WorkerSettings) -> int:
    told = StopSignals()
    told.listen()

    async def all_of_it() -> int:
        await commands.prepare(entities, "entities")
        async with entities.opened():
            await put_in(entities, batch)
            if wanted.retry_failed:
                await retry_failed(entities, batch)
            left = await work(entities, batch, wanted, settings, told)
            if left:
                done = batch.asked - left
                say(f"stopped: {done:,} of {batch.asked:,} are final. The same command goes on from there")
                return told.code or Exit.FAILED
            with progress("Writing", batch.rows) as seen, suppressed_end():
                await write(
                    entities, batch.sheet, batch.columns, batch.dataset,
                    target=wanted.output, as_json=wanted.as_json, told=seen,
                )  # fmt: skip
            return await sum_up(entities, batch)

    code = run_loop(told.run_until_stopped(all_of_it))
    if code is None:
        say("stopped before the work began. The same command goes on from there")
        return told.code
    return code


@contextmanager
def suppressed_end() -> Iterator[None]:
    """Ignore that the reader of our output has closed it: `… | head`."""
    try:
        yield
    except BrokenPipeError:
        close_stdout()


async def count(entities: Entities, batch: LinkedSheet, *conditions: "sa.ColumnElement[bool]") -> int:
    wanted = sa.select(sa.func.count()).where(entities.tables.entity.dataset == batch.dataset, *conditions)
    return await entities.mill.run(lambda connection: connection.scalar(wanted), write=False) or 0


async def put_in(entities: Entities, batch: LinkedSheet) -> None:
    if await count(entities, batch) == batch.asked:
        return  # they are there, from an earlier run
    columns, done = batch.columns, 0
    asked = (row for row in batch.sheet.rows() if columns.problem(row) is None)
    with progress("Putting in", batch.asked) as seen:
        for some in batched(asked):
            rows = [columns.entity(row, batch.dataset) for row in some]
            await entities.mill.run(partial(_submit, entities, rows))
            done += len(rows)
            seen(done)


def _submit(entities: Entities, rows: list[dict[str, Any]], connection: sa.Connection) -> None:
    submit(entities, connection, rows)


async def retry_failed(entities: Entities, batch: LinkedSheet) -> None:
    """Requeue failed rows at the stage that failed, with no retries counted."""
    entity = entities.tables.entity
    wanted = sa.select(entity.id).where(entity.dataset == batch.dataset, entity.enrichment_status == FAILED)
    ids = await entities.mill.run(lambda connection: connection.scalars(wanted).all(), write=False)
    for some in batched(ids):
        await entities.queue.requeue(*some)


async def work(
    entities: Entities, batch: LinkedSheet, wanted: LinkFileOptions, settings: WorkerSettings, told: StopSignals
) -> int:
    """Work until every row of the file is final, or until a signal says stop. Return how many are left."""
    status = sa.func.coalesce(entities.tables.entity.enrichment_status, PENDING)
    is_open = status.not_in((COMPLETE, FAILED)) if wanted.enrich else status.in_(TO_LINK)
    left = await count(entities, batch, is_open)
    if not left:
        return 0
    async with entities.mill.worker(settings=settings) as worker:
        told.stops(worker)
        running = asyncio.create_task(worker.run())
        with progress("Linking", batch.asked) as seen:
            while not running.done():
                began = time.monotonic()
                left = await count(entities, batch, is_open)
                seen(batch.asked - left, "" if not left else await waits(entities, worker))
                if not left:
                    worker.stop()
                    break
                # To count a million rows takes its time, too.
                await asyncio.wait([running], timeout=max(LOOK_SECONDS, 10 * (time.monotonic() - began)))
        await running
    return await count(entities, batch, is_open)


async def sum_up(entities: Entities, batch: LinkedSheet) -> int:
    entity = entities.tables.entity
    failed = await count(entities, batch, entity.enrichment_status == FAILED)
    linked = await count(entities, batch, entity.linking_label.is_not(None), entity.enrichment_status != FAILED)
    counts = [
        (linked, "linked"),
        (batch.asked - linked - failed, "without a link"),
        (failed, "failed"),
        (batch.rows - batch.asked, "without a name"),
    ]
    say(f"{batch.rows:,} rows: {', '.join(f'{number:,} {what}' for number, what in counts if number) or 'none'}")
    if failed:
        say("those that failed say why in enrichment_note. Try them again with: --retry-failed")
    return Exit.FINDINGS if failed else Exit.OK
