"""Write the rows of a file with what was found for them."""

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

import sqlalchemy as sa

from rowmill_systems.entities import reads
from rowmill_systems.entities.sheets import result
from rowmill_systems.entities.sheets.columns import SheetColumns
from rowmill_systems.entities.submitting import ROWS_AT_ONCE
from rowmill_systems.parts.sheets.sheet import Row, Sheet
from rowmill_systems.parts.sheets.target import written

if TYPE_CHECKING:
    from rowmill_systems.entities.entities import Entities

T = TypeVar("T")


def batched(items: Iterable[T], most: int = ROWS_AT_ONCE) -> Iterator[list[T]]:
    rest = iter(items)
    while some := list(islice(rest, most)):
        yield some


async def write(
    entities: "Entities",
    sheet: Sheet,
    columns: SheetColumns,
    dataset: str,
    *,
    target: Path | None,
    as_json: bool,
    told: Callable[[int], None],
) -> None:
    """Write all rows in the order of the file, some hundred at a time."""
    keys = [] if as_json else result.in_order(await properties_of(entities, dataset))
    with written(target, mark=sheet.from_spreadsheet and not as_json) as out:
        put = _json_lines(sheet, out) if as_json else _csv(sheet, out, keys)
        done = 0
        for some in batched(sheet.rows()):
            found = await _entities(entities, dataset, [columns.key(row) for row in some])
            for row in some:
                note = columns.problem(row)
                put(row, None if note else found.get(columns.key(row)), note)
            done += len(some)
            told(done)
        sheet.check_unchanged()


async def properties_of(entities: "Entities", dataset: str) -> set[str]:
    """Return the properties that any entity of the dataset has."""
    entity, keys, last = entities.tables.entity, set[str](), ""
    while True:
        wanted = (
            sa.select(*reads.columns(entities.tables, ["external_id", "enriched_properties"]))
            .where(entity.dataset == dataset, entity.external_id > last)
            .order_by(entity.external_id)
            .limit(ROWS_AT_ONCE)
        )
        rows = await _read(entities, wanted)
        if not rows:
            return keys
        keys.update(*(row["enriched_properties"] or () for row in rows))
        last = rows[-1]["external_id"]


async def _entities(entities: "Entities", dataset: str, ids: Sequence[str]) -> dict[str, sa.RowMapping]:
    entity, read = entities.tables.entity, reads.columns(entities.tables, result.READ)
    wanted = sa.select(*read).where(entity.dataset == dataset, entity.external_id.in_(ids))
    return {row["external_id"]: row for row in await _read(entities, wanted)}


async def _read(entities: "Entities", wanted: "sa.Select[*tuple[Any, ...]]") -> Sequence[sa.RowMapping]:
    return await entities.mill.run(lambda connection: connection.execute(wanted).mappings().all(), write=False)


Put = Callable[[Row, sa.RowMapping | None, str | None], None]


def _csv(sheet: Sheet, out: TextIO, keys: Sequence[str]) -> Put:
    """Write CSV with the delimiter and line ends of the file."""
    writer = csv.writer(out, delimiter=sheet.delimiter, lineterminator=sheet.line_end)
    writer.writerow([*sheet.header, *result.names(sheet.header, keys)])

    def put(row: Row, entity: sa.RowMapping | None, note: str | None) -> None:
        writer.writerow([*row.cells, *result.cells(entity, note, keys)])

    return put


def _json_lines(sheet: Sheet, out: TextIO) -> Put:
    header = _distinct(sheet.header)

    def put(row: Row, entity: sa.RowMapping | None, note: str | None) -> None:
        own = dict(zip(header, row.cells, strict=True))
        line = {"line": row.line, "row": own, "entity": result.known(entity, note)}
        out.write(json.dumps(line, ensure_ascii=False, default=str) + "\n")

    return put


def _distinct(header: Sequence[str]) -> list[str]:
    """Make names unique: an object has each name once."""
    found: list[str] = []
    for name in header:
        number = header[: len(found)].count(name) + 1
        found.append(name if number == 1 else f"{name}_{number}")
    return found
