"""Group the lines of a page into headings, tables, lists and running text."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from rowmill_systems.parts.documents.document import Line
from rowmill_systems.parts.passages.headings import heading_of, usual_height

_ITEM = re.compile(r"\s*(?:[-*•‣▪◦●·–—]|\(?(?:\d{1,3}|[a-zA-Z]|[ivx]{1,4})[.)]|[①-⑳])\s+\S")


class BlockKind(StrEnum):
    HEADING = "heading"
    TABLE = "table"
    LIST = "list"
    TEXT = "text"


@dataclass(slots=True)
class TextBlock:
    """Neighbouring lines that belong together."""

    kind: BlockKind
    lines: list[str] = field(default_factory=list)
    level: int = 0
    """Of a heading."""
    words: str = ""
    """Of a heading, without its marks."""


def blocks_of(lines: tuple[Line, ...]) -> Iterator[TextBlock]:
    """Yield the blocks of a page in their order. Every line is in one of them."""
    usual = usual_height(lines)
    block: TextBlock | None = None
    for place, line in enumerate(lines):
        before = lines[place - 1].text if place else ""
        after = lines[place + 1].text if place + 1 < len(lines) else ""
        if heading := heading_of(line, before, after, usual):
            if block:
                yield block
            yield TextBlock(BlockKind.HEADING, [line.text], *heading)
            block = None
            continue
        kind = _kind_of(line.text, block)
        if block and block.kind is not kind:
            intro = kind is BlockKind.LIST and block.kind is BlockKind.TEXT and block.lines[-1].rstrip().endswith(":")
            introduced = [block.lines.pop()] if intro else []
            if block.lines:
                yield block
            block = TextBlock(kind, introduced)
        block = block or TextBlock(kind)
        block.lines.append(line.text)
    if block:
        yield block


def _kind_of(text: str, block: TextBlock | None) -> BlockKind:
    if "\t" in text.strip():
        return BlockKind.TABLE
    if _ITEM.match(text):
        return BlockKind.LIST
    wrapped = block is not None and block.kind is BlockKind.LIST and text[:1].isspace()
    return BlockKind.LIST if wrapped else BlockKind.TEXT
