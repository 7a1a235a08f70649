"""Tables in text files: a line per thing, with cells between bars, and several values of a cell between semicolons."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).parent
_IN_BRACKETS = re.compile(r" \([^)]*\)$")


@dataclass
class Entry:
    title: str
    """In the English Wikipedia; others refer to it by this."""
    types: tuple[str, ...]
    description: str
    aliases: list[str]
    prominence: float
    properties: dict[str, list[str]] = field(default_factory=dict)
    """Other things by their titles."""
    wikidata: str = ""
    in_dbpedia: bool = True
    is_city: bool = False

    @property
    def name(self) -> str:
        """Brackets tell titles apart; nobody says them."""
        return _IN_BRACKETS.sub("", self.title)


def rows(file: str) -> Iterator[list[str]]:
    """Cells of each line; the first line says what they are."""
    head, *lines = (HERE / file).read_text("utf-8").splitlines()
    width = head.count("|") + 1
    for number, line in enumerate(lines, start=2):
        cells = line.split("|")
        assert len(cells) == width, f"{file}, line {number}: {len(cells)} cells, not {width}"
        yield [cell.strip() for cell in cells]


def several(cell: str) -> list[str]:
    return [part.strip() for part in cell.split(";") if part.strip()]


def titled(cell: str) -> tuple[str, bool]:
    """A title, and whether DBpedia is sure to have it under this one."""
    return cell.removeprefix("~"), not cell.startswith("~")
