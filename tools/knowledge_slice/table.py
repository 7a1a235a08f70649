"""Tables in text files: one thing per line, cells separated by bars, values of a cell separated by semicolons."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).parent
_IN_BRACKETS = re.compile(r" \([^)]*\)$")


@dataclass
class Entry:
    title: str
    """Title in the English Wikipedia, by which others refer to it."""
    types: tuple[str, ...]
    description: str
    aliases: list[str]
    prominence: float
    properties: dict[str, list[str]] = field(default_factory=dict)
    """Titles of other things by property."""
    wikidata: str = ""
    in_dbpedia: bool = True
    is_city: bool = False

    @property
    def name(self) -> str:
        """The title without its disambiguation in brackets."""
        return _IN_BRACKETS.sub("", self.title)


def rows(file: str) -> Iterator[list[str]]:
    """Yield the cells of each line by the names in the first line."""
    head, *lines = (HERE / file).read_text("utf-8").splitlines()
    width = head.count("|") + 1
    for number, line in enumerate(lines, start=2):
        cells = line.split("|")
        assert len(cells) == width, f"{file}, line {number}: {len(cells)} cells, not {width}"
        yield [cell.strip() for cell in cells]


def several(cell: str) -> list[str]:
    return [part.strip() for part in cell.split(";") if part.strip()]


def titled(cell: str) -> tuple[str, bool]:
    """Return a title, and whether DBpedia has a page of that title for sure."""
    return cell.removeprefix("~"), not cell.startswith("~")
