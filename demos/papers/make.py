"""A set of papers of all types, languages, layouts and kinds of file.

The rules were tuned on seed 1. Seed 2 is the held-out part: most of its PDFs have layouts, its HTML and text files
forms, and some of its labels words that seed 1 does not have.
"""

import random
from collections.abc import Callable, Iterator
from itertools import cycle, islice
from pathlib import Path

from demos.papers import layouts, office
from demos.papers.paper import Paper, Sheet
from demos.papers.scans import as_file, scanned
from demos.papers.sheets import SHEETS
from demos.papers.writer import Writer

CLEAN, SCANS = 72, 24
PLACES = [
    ("en", "GB"),
    ("de", "DE"),
    ("fr", "FR"),
    ("en", "US"),
    ("es", "ES"),
    ("it", "IT"),
    ("de", "CH"),
    ("zh", "CN"),
]
TYPES = (
    "invoice", "purchase_order", "invoice", "contract", "invoice", "receipt", "letter", "invoice", "delivery_note",
    "purchase_order", "letter", "contract", "receipt",
)  # fmt: skip
KINDS = (
    "pdf",
    "pdf",
    "docx",
    "pdf",
    "html",
    "pdf",
    "xlsx",
    "pdf",
    "txt",
    "pdf",
    "eml",
    "pdf",
    "pdf",
    "csv",
    "pdf",
    "pdf",
)
SCAN_KINDS = ("scan-pdf", "scan-png", "scan-tiff")
FILES: dict[str, Callable[[Sheet, random.Random], bytes]] = {
    "docx": office.as_docx,
    "xlsx": office.as_xlsx,
    "csv": office.as_csv,
    "html": office.as_html,
    "txt": office.as_txt,
    "eml": office.as_eml,
}


def make_papers(
    folder: Path,
    seed: int,
    *,
    held_out: bool | None = None,
    clean: int = CLEAN,
    scans: int = SCANS,
    kinds: tuple[str, ...] = KINDS,
) -> list[Paper]:
    """Write the papers of a seed to a folder. `held_out` is the default for seed 2."""
    held_out = seed == 2 if held_out is None else held_out
    folder.mkdir(parents=True, exist_ok=True)
    return [*_clean(folder, seed, held_out, clean, kinds), *_scans(folder, seed, held_out, scans)]


def _clean(folder: Path, seed: int, held_out: bool, count: int, kinds: tuple[str, ...]) -> Iterator[Paper]:
    plan = zip(cycle(PLACES), cycle(TYPES), cycle(kinds), strict=False)
    for number, (place, doc_type, kind) in enumerate(islice(plan, count)):
        chance = random.Random(f"{seed}-clean-{number}")
        sheet = SHEETS[doc_type](Writer(chance, doc_type, *place, held_out=held_out))
        layout, content = _written(sheet, kind, chance, held_out)
        yield _paper(folder, f"{number:03d}-{doc_type}-{place[1].lower()}.{kind}", kind, layout, sheet, content)


def _scans(folder: Path, seed: int, held_out: bool, count: int) -> Iterator[Paper]:
    printable = [place for place in PLACES if place[1] != "CN"]
    plan = zip(cycle(printable), cycle(TYPES), cycle(SCAN_KINDS), strict=False)
    for number, (place, doc_type, kind) in enumerate(islice(plan, count)):
        chance = random.Random(f"{seed}-scan-{number}")
        sheet = SHEETS[doc_type](Writer(chance, doc_type, *place, held_out=held_out))
        layout, content = _written(sheet, "pdf", chance, held_out)
        image = as_file(scanned(content, chance), kind)
        name = f"scan-{number:03d}-{doc_type}-{place[1].lower()}.{kind.removeprefix('scan-')}"
        yield _paper(folder, name, kind, layout, sheet, image)


def _written(sheet: Sheet, kind: str, chance: random.Random, held_out: bool) -> tuple[str, bytes]:
    """Return the name of the layout, and the file."""
    if kind == "html" and held_out:
        return "definitions", office.as_html(sheet, chance, definitions=True)
    if kind == "txt" and held_out:
        return "leaders", office.as_txt(sheet, chance, leaders=True)
    if kind != "pdf":
        return kind, FILES[kind](sheet, chance)
    choice = layouts.HELD_OUT if held_out and chance.random() < 0.75 else layouts.TUNED
    names = [name for name in choice if name != "till"]
    if sheet.doc_type == "receipt":
        names = (
            [name for name in names if name not in ("classic", "grid")]
            if choice is layouts.HELD_OUT
            else ["till", "modern"]
        )
    elif sheet.doc_type == "letter" and choice is layouts.TUNED:
        names = ["classic", "modern"]
    name = chance.choice(names)
    return name, choice[name](sheet)


def _paper(folder: Path, name: str, kind: str, layout: str, sheet: Sheet, content: bytes) -> Paper:
    path = folder / name
    path.write_bytes(content)
    return Paper(path, sheet.doc_type, sheet.language, layout, kind, sheet.expected, tuple(sheet.unseen))
