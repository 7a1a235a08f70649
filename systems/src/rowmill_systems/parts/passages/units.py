"""Cut a block into units that a passage takes whole: sentences, items, rows."""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from semchunk.semchunk import chunk

from rowmill_systems.parts.models.tokens import estimate_tokens
from rowmill_systems.parts.passages.blocks import BlockKind, TextBlock

WINDOW = 50_000
"""Characters of a unit that are split at once: bounds memory."""
SHORT_LINE = 0.6
"""As a share of the longest line of its block: a shorter one ends a paragraph."""
_SENTENCE_END = re.compile(r"""(?<=[.!?…])["'»”’)\]]*\s+(?=\S)|(?<=[。！？।؟])["”’」』）]*\s*""")
_ABBREVIATED = re.compile(
    r"(?:\b(?:[^\W\d_]|e\.g|i\.e|etc|cf|Dr|Mr|Mrs|Ms|St|No|Nr|Fig|Eq|vs|approx|bzw|ca|vgl)\.)\s+$"
)


def units_of(block: TextBlock, most: int) -> Iterator[str]:
    """Yield the texts of a block in their order; joined, they are the block. None is longer than `most` tokens."""
    for unit in _whole_units(block, most):
        yield from fitting(unit, most)


def _whole_units(block: TextBlock, most: int) -> Iterator[str]:
    text = "".join(f"{line}\n" for line in block.lines)
    if block.kind is not BlockKind.TEXT and estimate_tokens(text) <= most:
        yield text
    elif block.kind is BlockKind.LIST:
        yield from _items(block.lines)
    elif block.kind is BlockKind.TEXT:
        longest = max(map(len, block.lines))
        for paragraph in _paragraphs(block.lines, longest):
            yield from sentences(paragraph)
    else:
        yield from (f"{line}\n" for line in block.lines)


def fitting(text: str, most: int) -> Iterator[str]:
    """Yield the text in pieces of at most `most` tokens, cut where it hurts least. Joined, they are the text."""
    for start in range(0, len(text), WINDOW):
        part = text[start : start + WINDOW]
        if estimate_tokens(part) <= most:
            yield part
            continue
        # Without memoize=False it would keep every text for as long as the process lives.
        found: Any = chunk(part, most, estimate_tokens, memoize=False, offsets=True)
        starts = [0, *(begin for begin, _ in found[1][1:]), len(part)]
        yield from (part[begin:end] for begin, end in pairwise(starts))


def sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a text, each with the spaces that follow it."""
    start = 0
    for end in _SENTENCE_END.finditer(text):
        if end.end() <= start or _ABBREVIATED.search(text, start, end.end()):
            continue
        yield text[start : end.end()]
        start = end.end()
    if start < len(text):
        yield text[start:]


def _items(lines: Sequence[str]) -> Iterator[str]:
    """Yield items with the lines that go on from them."""
    item = ""
    for line in lines:
        if item and not line[:1].isspace():
            yield item
            item = ""
        item += f"{line}\n"
    yield item


def _paragraphs(lines: Sequence[str], longest: int) -> Iterator[str]:
    """Yield lines together until one is so short that a paragraph ends there: lines of PDFs break within sentences."""
    paragraph = ""
    for line in lines:
        paragraph += f"{line}\n"
        if len(line) < SHORT_LINE * longest or len(paragraph) > WINDOW:
            yield paragraph
            paragraph = ""
    if paragraph:
        yield paragraph
