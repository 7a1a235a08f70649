"""Import mappings from CSV files, and export them.

    with path.open("rb") as file, engine.begin() as connection:
        report = import_mappings(CompanyMappingRepository(connection, settings), file)
    for bad in report.bad_lines:
        print(bad.line, bad.message)

The first line names the columns: match_type, alias, company_id, and if you like source and confidence. A line that
can't be used is reported by its number, and the others go on. A second id for an alias is kept as a conflict for a
person.
"""

import csv
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, BinaryIO, TextIO, get_args

import sqlalchemy as sa

import rowmill as rm
from rowmill_systems.companies.company_ids import LONGEST_COMPANY_ID, is_company_id
from rowmill_systems.companies.mappings import (
    LONGEST_ALIAS,
    CompanyMappingRepository,
    alias_of,
    batched,
)
from rowmill_systems.companies.models import INTERNAL, PERSON, MatchType
from rowmill_systems.parts.clock import now
from rowmill_systems.parts.database import upsert_into
from rowmill_systems.parts.sheets import BadLine, BadSheet, read_lines
from rowmill_systems.parts.sheets.lines import LOST
from rowmill_systems.parts.values import FORMULA, harmless

REQUIRED = ("match_type", "alias", "company_id")
OPTIONAL = ("source", "confidence")
MATCH_TYPES: frozenset[str] = frozenset(get_args(MatchType))
LINES_AT_ONCE = 500
MOST_BAD_LINES = 1000


class MappingFileRefused(rm.PermanentError):
    """The file can't be read as mappings. The message says what to do, and names lines and columns, not contents."""

    code = "bad_mapping_file"


@dataclass(slots=True)
class MappingImport:
    """What became of a file."""

    lines: int = 0
    """Lines with mappings, good or bad."""
    added: int = 0
    changed: int = 0
    """The same id with another confidence, or cached answers that were replaced."""
    unchanged: int = 0
    conflicts: int = 0
    """Lines with another id than the one that is there. `CompanyMappingRepository.conflicts` lists them."""
    bad: int = 0
    bad_lines: list[BadLine] = field(default_factory=list)
    """The first thousand. `on_bad_line` gets all of them."""


@dataclass(frozen=True, slots=True)
class _Line:
    line: int
    match_type: MatchType
    alias: str
    company_id: str
    source: str
    confidence: float

    @property
    def key(self) -> tuple[str, str]:
        return self.alias, self.match_type


def import_mappings(
    mappings: CompanyMappingRepository,
    file: BinaryIO,
    *,
    on_progress: Callable[[int], None] | None = None,
    on_bad_line: Callable[[BadLine], None] | None = None,
) -> MappingImport:
    """Import a CSV file in any encoding and with any delimiter, in the caller's transaction.

    The memory that it takes does not depend on the size of the file. `on_progress` gets the bytes that were read so
    far, `on_bad_line` each line that was not imported. Raises MappingFileRefused if nothing of the file can be used.
    """
    report = MappingImport()

    def refuse(bad: BadLine) -> None:
        report.bad += 1
        if len(report.bad_lines) < MOST_BAD_LINES:
            report.bad_lines.append(bad)
        if on_bad_line is not None:
            on_bad_line(bad)

    for some in batched(_lines(file, refuse), LINES_AT_ONCE):
        _store(mappings, [line for line in some if line.source == INTERNAL], report)
        _store_cached(mappings, [line for line in some if line.source != INTERNAL], report)
        report.lines += len(some)
        if on_progress is not None:
            on_progress(file.tell())
    report.lines += report.bad
    return report


def export_mappings(
    mappings: CompanyMappingRepository,
    file: TextIO,
    *,
    match_types: Sequence[MatchType] = (),
    cached: bool = False,
    on_progress: Callable[[int], None] | None = None,
) -> int:
    """Write mappings as CSV that can be imported again. Return how many.

    `match_types` restricts them; `cached` adds what providers answered. `on_progress` gets the number written so far.
    """
    table = mappings.tables.mappings
    columns = [table.c[name] for name in (*REQUIRED, *OPTIONAL)]
    wanted = sa.select(table.c.id, *columns).where(table.c.company_id.is_not(None)).order_by(table.c.id)
    if match_types:
        wanted = wanted.where(table.c.match_type.in_(match_types))
    if not cached:
        wanted = wanted.where(table.c.source == INTERNAL)
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow((*REQUIRED, *OPTIONAL))
    written = last = 0
    while rows := mappings.connection.execute(wanted.where(table.c.id > last).limit(LINES_AT_ONCE)).all():
        for _, match_type, alias, company_id, source, confidence in rows:
            writer.writerow((match_type, harmless(alias), harmless(company_id), source, confidence))
        last = rows[-1].id
        written += len(rows)
        if on_progress is not None:
            on_progress(written)
    return written


def _store(mappings: CompanyMappingRepository, lines: Sequence[_Line], report: MappingImport) -> None:
    """Add mappings whose alias has none. The first id of an alias stays; another one is a conflict."""
    if not lines:
        return
    connection, table = mappings.connection, mappings.tables.mappings
    first: dict[tuple[str, str], _Line] = {}
    for line in lines:
        first.setdefault(line.key, line)
    insert = upsert_into(connection, table).values([_values(first[key]) for key in sorted(first)])
    placed = insert.on_conflict_do_nothing(index_elements=["alias", "match_type", "source"]).returning(
        table.c.alias, table.c.match_type
    )
    added = {(alias, match_type) for alias, match_type in connection.execute(placed)}
    report.added += len(added)
    there = {key: (first[key].company_id, first[key].confidence) for key in added}
    rest = sorted(set(first) - added)
    if rest:
        read = sa.select(table.c.alias, table.c.match_type, table.c.company_id, table.c.confidence).where(
            table.c.source == INTERNAL, sa.tuple_(table.c.alias, table.c.match_type).in_(rest)
        )
        for alias, match_type, company_id, confidence in connection.execute(read):
            there[alias, match_type] = company_id, confidence
    conflicts: dict[tuple[str, str, str], dict[str, Any]] = {}
    changed: dict[tuple[str, str], float] = {}
    for line in lines:
        if line.key not in there:  # somebody deleted it after our insert had found it
            mappings.store_mapping(line.match_type, line.alias, line.company_id, confidence=line.confidence)
            there[line.key] = line.company_id, line.confidence
        company_id, confidence = there[line.key]
        if line.company_id != company_id:
            report.conflicts += 1
            conflicts[*line.key, line.company_id] = {
                "match_type": line.match_type,
                "alias": line.alias,
                "company_id": company_id,
                "other_company_id": line.company_id,
                "source": INTERNAL,
            }
        elif line.confidence != confidence:
            report.changed += 1
            changed[line.key] = line.confidence
            there[line.key] = company_id, line.confidence
        elif first[line.key] is not line or line.key not in added:
            report.unchanged += 1
    if conflicts:
        kept = upsert_into(connection, mappings.tables.conflicts).values([conflicts[key] for key in sorted(conflicts)])
        connection.execute(kept.on_conflict_do_nothing())
    for (alias, match_type), confidence in sorted(changed.items()):
        mappings.store_mapping(match_type, alias, there[alias, match_type][0], confidence=confidence)  # type: ignore[arg-type]


def _store_cached(mappings: CompanyMappingRepository, lines: Sequence[_Line], report: MappingImport) -> None:
    """Add answers of providers, with the lifetime of an answer. The last line of a name and provider wins."""
    if not lines:
        return
    connection, table = mappings.connection, mappings.tables.mappings
    last = {(line.alias, line.source): line for line in lines}
    expires_at = now(connection.dialect.name, days=mappings.settings.cache_days)
    rows = [_values(last[key]) | {"expires_at": expires_at} for key in sorted(last)]
    insert = upsert_into(connection, table).values(rows)
    index = ["alias", "match_type", "source"]
    new = insert.on_conflict_do_nothing(index_elements=index).returning(table.c.alias, table.c.source)
    added = {(alias, source) for alias, source in connection.execute(new)}
    report.added += len(added)
    report.changed += len(lines) - len(added)
    if len(added) < len(rows):
        columns = ("company_id", "confidence", "expires_at")
        set_ = {name: insert.excluded[name] for name in columns} | {"updated_at": sa.func.now()}
        connection.execute(insert.on_conflict_do_update(index_elements=index, set_=set_))


def _values(line: _Line) -> dict[str, Any]:
    return {
        "match_type": line.match_type,
        "alias": line.alias,
        "company_id": line.company_id,
        "source": line.source,
        "confidence": line.confidence,
    }


def _lines(file: BinaryIO, refuse: Callable[[BadLine], None]) -> Iterator[_Line]:
    """Yield the good lines of a file, and pass the bad ones to `refuse`."""
    try:
        with closing(read_lines(file, refuse)) as rows:
            header = next(rows, None)
            places = _places([] if header is None else header.cells)
            for row in rows:
                found = _parsed(row.line, row.cells, places)
                if isinstance(found, BadLine):
                    refuse(found)
                else:
                    yield found
    except BadSheet as error:
        raise MappingFileRefused(str(error)) from None


def _places(header: Sequence[str]) -> dict[str, int]:
    """Return where each column is. Raises MappingFileRefused if one is missing, or there twice."""
    names = [cell.strip().casefold() for cell in header]
    if not any(names):
        raise MappingFileRefused(f"it is empty. Its first line has to name the columns: {', '.join(REQUIRED)}")
    known = (*REQUIRED, *OPTIONAL)
    if double := [name for name in known if names.count(name) > 1]:
        raise MappingFileRefused(f"its first line has {', '.join(double)} more than once. Rename the other columns")
    if missing := [name for name in REQUIRED if name not in names]:
        there = ", ".join(cell.strip()[:40] for cell in header[:20])
        raise MappingFileRefused(
            f"it lacks the column {', '.join(missing)}. It has: {there}. Rename the columns in its first line"
        )
    return {name: names.index(name) for name in known if name in names}


def _parsed(line: int, cells: Sequence[str], places: dict[str, int]) -> _Line | BadLine:
    def bad(code: str, message: str) -> BadLine:
        return BadLine(line, code, message)

    found = {name: cells[place].strip() if place < len(cells) else "" for name, place in places.items()}
    if len(cells) <= max(places[name] for name in REQUIRED):
        return bad("too_few_cells", f"it has {len(cells)} cells. Look for a missing delimiter")
    if any(LOST in text for text in found.values()):
        return bad("bad_encoding", "it has characters that are not in the file's encoding. Save the file as UTF-8")
    match_type = found["match_type"].casefold()
    if match_type not in MATCH_TYPES:
        return bad("unknown_match_type", f"match_type has to be one of: {', '.join(get_args(MatchType))}")
    company_id, given = _unquoted(found["company_id"]), _unquoted(found["alias"])
    if not is_company_id(company_id):
        return bad(
            "bad_company_id", f"company_id has to have 1 to {LONGEST_COMPANY_ID} characters, and is no temporary id"
        )
    alias = alias_of(match_type, given)  # type: ignore[arg-type]
    if len(given) > 2 * LONGEST_ALIAS or len(alias) > LONGEST_ALIAS:
        return bad("alias_too_long", f"alias is longer than {LONGEST_ALIAS} characters. Is a quote not closed?")
    if not alias:
        return bad("blank_alias", "alias is blank, or says nothing. Fill it in, or delete the line")
    source = found.get("source") or INTERNAL
    if len(source) > 100 or source == PERSON or (source != INTERNAL and match_type != "company_name"):
        return bad("bad_source", f"source has to be {INTERNAL}; for company_name, it may be the name of a provider")
    try:
        confidence = float(found.get("confidence") or 1)
    except ValueError:
        confidence = math.nan
    if not 0 <= confidence <= 1:
        return bad("bad_confidence", "confidence has to be a number from 0 to 1, with a decimal point")
    return _Line(line, match_type, alias, company_id, source, confidence)  # type: ignore[arg-type]


def _unquoted(text: str) -> str:
    """Undo what keeps spreadsheets from running a cell as a formula."""
    return text[1:] if text.startswith("'") and text[1:].startswith(FORMULA) else text
