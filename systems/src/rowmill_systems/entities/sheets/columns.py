"""Which columns of a file say what of an entity."""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from rowmill_systems.parts.sheets.errors import BadSheet
from rowmill_systems.parts.sheets.sheet import Row, Sheet, place_of
from rowmill_systems.parts.values import storable

LONGEST_NAME = 1000
LONGEST_TYPE = 100
LONGEST_CONTEXT = 20_000
LONGEST_ID = 500
NO_NAME = "No name"
LONG_NAME = f"The name is longer than {LONGEST_NAME:,} characters"


@dataclass(frozen=True, slots=True)
class SheetColumns:
    """By their places in the file."""

    name: int
    type: int | None = None
    context: tuple[int, ...] = ()
    id: int | None = None
    fixed_type: str | None = None
    """Of all rows, where no column says it."""

    @staticmethod
    def named(
        header: Sequence[str],
        *,
        name: str,
        type: str | None = None,
        context: Iterable[str] = (),
        id: str | None = None,
        fixed_type: str | None = None,
    ) -> "SheetColumns":
        return SheetColumns(
            name=place_of(header, name),
            type=None if type is None else place_of(header, type),
            context=tuple(place_of(header, column) for column in context),
            id=None if id is None else place_of(header, id),
            fixed_type=fixed_type,
        )

    def problem(self, row: Row) -> str | None:
        """Return why a row can't be looked up; None if it can."""
        name = self._text(row, self.name)
        if not name:
            return NO_NAME
        return LONG_NAME if len(name) > LONGEST_NAME else None

    def key(self, row: Row) -> str:
        """Return the external id of a row: its id column, or its line number."""
        return str(row.line) if self.id is None else self._text(row, self.id)

    def entity(self, row: Row, dataset: str) -> dict[str, Any]:
        """Return a row as an entity to insert."""
        type = self.fixed_type if self.type is None else self._text(row, self.type)[:LONGEST_TYPE]
        context = "\n".join(filter(None, (self._text(row, place) for place in self.context)))[:LONGEST_CONTEXT]
        return {
            "name": self._text(row, self.name),
            "entity_type": type or None,
            "context": context or None,
            "dataset": dataset,
            "external_id": self.key(row),
        }

    def count(self, sheet: Sheet) -> tuple[int, int]:
        """Count the rows, and those that can be looked up. Raises BadSheet for an id that is empty, too long or there
        twice."""
        rows, asked = 0, 0
        seen = set[bytes]()
        for row in sheet.rows():
            rows += 1
            if self.problem(row) is None:
                asked += 1
                if self.id is not None:
                    self._check_id(row, seen)
        return rows, asked

    def _check_id(self, row: Row, seen: set[bytes]) -> None:
        key = self.key(row)
        if not key or len(key) > LONGEST_ID:
            raise BadSheet(
                f"line {row.line} has no id, or one of more than {LONGEST_ID} characters. Fill it in, or leave "
                "--id-column out: rows are known by their lines then"
            )
        short = hashlib.blake2b(key.encode(), digest_size=12).digest()
        if short in seen:
            raise BadSheet(
                f"line {row.line} has the id of a row before it. Leave --id-column out: rows are known by their lines "
                "then"
            )
        seen.add(short)

    def _text(self, row: Row, place: int) -> str:
        return str(storable(row.cells[place])).strip()
