"""Read the entries of a file line by line: JSON Lines or CSV."""

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

from rowmill_systems.entities.kb.checking import KNOWN, Wrong
from rowmill_systems.entities.kb.errors import BadKnowledgeBase
from rowmill_systems.entities.kb.values import from_cell
from rowmill_systems.entities.properties.catalogue import catalogue

LONGEST_LINE = 1_000_000
_NOT_UTF8 = Wrong(("it is not UTF-8; save the file as UTF-8",))

Entry = tuple[int, dict[str, Any] | Wrong]
"""With the number of its line."""


def entries(source: Path) -> Iterator[Entry]:
    """Yield entries. A file named .csv is CSV, any other is JSON Lines."""
    return _of_csv(source) if source.suffix.lower() == ".csv" else _of_json_lines(source)


def _of_json_lines(source: Path) -> Iterator[Entry]:
    with source.open("rb") as file:
        number = 0
        while line := file.readline(LONGEST_LINE + 1):
            number += 1
            if len(line) > LONGEST_LINE:
                yield number, Wrong((f"it is longer than {LONGEST_LINE} bytes; write one thing per line",))
                return
            if line.strip():
                yield number, _object(line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line)


def _object(line: bytes) -> dict[str, Any] | Wrong:
    try:
        found = json.loads(line.decode("utf-8"), parse_constant=_no_number)
    except UnicodeDecodeError:
        return _NOT_UTF8
    except (ValueError, RecursionError):
        return Wrong(("it is not JSON; write one thing per line, as an object",))
    return found if isinstance(found, dict) else Wrong(("it is not an object; write one thing per line",))


def _of_csv(source: Path) -> Iterator[Entry]:
    # What is not UTF-8 shows up as half characters in its own line, and stops no other.
    with source.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
        reader = csv.reader(file, strict=True)
        number = 1
        try:
            columns = [column.strip() for column in next(reader, [])]
            _check_columns(columns, source)
            number = reader.line_num + 1
            for cells in reader:
                if any(cells):
                    yield number, _row(columns, cells)
                number = reader.line_num + 1
        except csv.Error:
            yield number, Wrong(("it is not CSV; look for a quote that is not closed, or a cell without an end",))


def _check_columns(columns: list[str], source: Path) -> None:
    allowed = [key for key in KNOWN if key != "properties"] + list(catalogue())
    wrong = [f"column {at}" for at, column in enumerate(columns, 1) if column not in allowed]
    wrong += [f"a second {column}" for column in dict.fromkeys(columns) if columns.count(column) > 1]
    wrong += [f"no column {key}" for key in ("id", "name") if key not in columns]
    if wrong:
        raise BadKnowledgeBase(
            f"{source}, line 1: {', '.join(wrong[:20])}. The first line names the columns: {', '.join(allowed)}."
        )


def _row(columns: list[str], cells: list[str]) -> dict[str, Any] | Wrong:
    if len(cells) != len(columns):
        return Wrong((f"it has {len(cells)} cells, and the first line {len(columns)}",))
    if any("\udc80" <= sign <= "\udcff" for cell in cells for sign in cell):
        return _NOT_UTF8
    row: dict[str, Any] = {}
    properties: dict[str, Any] = {}
    for column, cell in zip(columns, cells, strict=True):
        if not cell.strip():
            continue
        if column in catalogue():
            properties[column] = from_cell(cell, catalogue()[column])
        elif column in ("aliases", "types"):
            row[column] = [part.strip() for part in cell.split("|") if part.strip()]
        elif column == "prominence":
            row[column] = _number_or_text(cell)
        else:
            row[column] = cell.strip()
    return row | {"properties": properties}


def _number_or_text(cell: str) -> float | str:
    try:
        return float(cell)
    except ValueError:
        return cell


def _no_number(name: str) -> NoReturn:
    raise ValueError(name)
