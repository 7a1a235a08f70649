"""Find postal addresses: a line with postcode and town, the street above it, a country below it."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from rowmill_systems.intake.fields.folding import plain
from rowmill_systems.intake.fields.layout import Cell, Layout, Span, span_of
from rowmill_systems.intake.fields.parties import find_parties, tidy
from rowmill_systems.intake.fields.words import words

TOWN = r"[^\W\d_][\w'’.\-/ ]{1,40}"
# Each country's shape: Berlin, Paris, Milano (MI); Amsterdam; Warszawa; Austin, TX; London SW1A 1AA; Sydney NSW 2000.
CITY = re.compile(
    "|".join(
        (
            rf"(?:[A-Z]{{1,3}}[-–])?(?<![\w.,])\d{{4,5}}\s+{TOWN}(?:\([A-Z]{{2}}\))?(?:\s(?:CEDEX|Cedex)(?:\s\d+)?)?",
            rf"\d{{4}}\s?[A-Z]{{2}}\s+{TOWN}",
            rf"\d{{2}}-\d{{3}}\s+{TOWN}",
            rf"{TOWN},?\s+[A-Z]{{2}},?\s+\d{{5}}(?:-\d{{4}})?",
            rf"(?:{TOWN},?\s+)?[A-Z]{{1,2}}\d[A-Z\d]?\s+\d[A-Z]{{2}}",
            rf"{TOWN},?\s+[A-Z]{{2,3}}\s+\d{{4}}",
        )
    )
)
CODE_ALONE = re.compile(r"[A-Z]{2}\s+\d{5}(?:-\d{4})?|[A-Z]{1,2}\d[A-Z\d]?\s+\d[A-Z]{2}")
CHINESE = re.compile(r"[\u3400-\u9fff]{2,}[省市区县][\u3400-\u9fff\w]*[路街道巷弄号][\u3400-\u9fff\w\-]*")
COUNTRY_NAMES = frozenset(map(plain, words("countries")))
STREET_WORD = re.compile(
    r"stra(?:ß|ss)e|str\.|weg|platz|allee|gasse|ufer|ring|damm|street|road|avenue|lane|drive|court|square|boulevard|rue"
    r"|chemin|place|quai|calle|plaza|paseo|avenida|via|viale|piazza|corso|straat|gracht|laan|postfach|p\.?o\.? ?box"
    r"|house|suite|floor|st\.|rd\.|ave\.?|blvd",
    re.IGNORECASE,
)
SEPARATED = re.compile(r"\s*(?:[·•|]|,|\s[-–]\s|;)\s*")
CARE_OF = re.compile(
    r"attn|attention|z\. ?hd|zu h[äa]nden|c/o|à l'attention|att\.|a la atenci[óo]n|c\.a\.|abt\.|abteilung|dept",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Block:
    """An address, with the name above it."""

    name: str
    name_span: Span | None
    spans: tuple[Span, ...]
    value: str
    top: Cell
    """The cell that it begins with, name or street."""
    inline: bool
    """It stands in one line."""


def find_blocks(layout: Layout, limit: int = 60) -> list[Block]:
    """Return all addresses of a document in its order."""
    found: list[Block] = []
    taken: set[tuple[int, int, int]] = set()
    for cell in layout.cells():
        place = (cell.page, cell.line, cell.start)
        if place in taken or len(cell.text) > 300:
            continue
        block = _inline(cell) or _stacked(layout, cell) or _chinese(layout, cell)
        if block:
            taken |= {(span.page, span.line, span.start) for span in block.spans}
            found.append(block)
        if len(found) >= limit:
            break
    return found


def is_city(text: str) -> bool:
    return CITY.fullmatch(text.strip(" .,;")) is not None and not STREET_WORD.search(text.split(" ")[-1])


def is_street(text: str) -> bool:
    """Tell whether a text is a street: a word with a house number, or a word for a street."""
    bare = text.strip(" .,;")
    if not 3 < len(bare) < 70 or "@" in bare or ":" in bare or is_city(bare):
        return False
    numbered = re.match(r"(?:\d+\s?[a-zA-Z]?,?\s+[^\W\d_]|[^\W\d_].*\s\d+\s?[a-zA-Z]?(?:[-/]\d+\s?[a-z]?)?$)", bare)
    return bool(numbered) or (bool(STREET_WORD.search(bare)) and any(sign.isdigit() for sign in bare))


def is_country(text: str) -> bool:
    return plain(text.strip(" .,;()")) in COUNTRY_NAMES


def _stacked(layout: Layout, city: Cell) -> Block | None:
    if not is_city(city.text):
        return None
    above = list(layout.column_above(city, 6))
    street_at = next((place for place, cell in enumerate(above[:3]) if is_street(cell.text)), None)
    if street_at is None:
        return None
    lines = [*reversed(above[: street_at + 1]), city]
    below = next(iter(layout.column_below(city, 1)), None)
    if below and is_country(below.text) and abs(below.left - city.left) < (0.02 if city.placed else 3):
        lines.append(below)
    name = _name_above(above[street_at + 1 :])
    value = ", ".join(tidy(cell.text) for cell in lines)
    spans = tuple(map(span_of, lines))
    if name is None:
        return Block("", None, spans, value, lines[0], False)
    return Block(tidy(name.text), span_of(name), spans, value, name, False)


def _name_above(above: Sequence[Cell]) -> Cell | None:
    """Return the line above the street that is a name; a company if there is one."""
    near = [cell for cell in above[:3] if not CARE_OF.match(cell.text) and ":" not in cell.text and len(cell.text) < 80]
    company = next((cell for cell in near if find_parties(cell.text)), None)
    return company or (near[0] if near and not any(sign.isdigit() for sign in near[0].text) else None)


def _inline(cell: Cell) -> Block | None:
    """Find an address in one line, with or without a name: `Muster GmbH · Hauptstr. 5 · 10115 Berlin`."""
    parts, start = [], 0
    for gap in [*SEPARATED.finditer(cell.text), None]:
        end = gap.start() if gap else len(cell.text)
        if end > start:
            parts.append((start, end, cell.text[start:end]))
        start = gap.end() if gap else end
    for place in range(1, len(parts)):
        city = parts[place][2]
        # `Austin, TX 78701` and `London, SW1A 1AA` have a comma of their own.
        apart = place >= 2 and CODE_ALONE.fullmatch(city)
        if not apart and not is_city(city):
            continue
        first = place - 2 if apart else place - 1
        street = parts[first][2].split(":")[-1].strip()
        if not is_street(street):
            continue
        begin = parts[first][0] + parts[first][2].rfind(street)
        end = parts[place][1]
        if place + 1 < len(parts) and is_country(parts[place + 1][2]):
            end = parts[place + 1][1]
        name = parts[first - 1] if first and not is_country(parts[first - 1][2]) else None
        return _inline_block(cell, begin, end, name)
    return None


def _inline_block(cell: Cell, begin: int, end: int, name: tuple[int, int, str] | None) -> Block:
    pieces = [tidy(part) for part in SEPARATED.split(cell.text[begin:end]) if part.strip()]
    span = Span(cell.page, cell.line, cell.start + begin, cell.start + end)
    label = name[2].rsplit(":", 1)[-1] if name else ""
    companies = find_parties(label)
    text = companies[-1].name if companies else tidy(label)
    name_span = None
    if name and text and (at := cell.text.find(text, name[0])) >= 0:
        name_span = Span(cell.page, cell.line, cell.start + at, cell.start + at + len(text))
    return Block(text if name_span else "", name_span, (span,), ", ".join(pieces), cell, True)


def _chinese(layout: Layout, cell: Cell) -> Block | None:
    match = CHINESE.search(cell.text)
    if not match:
        return None
    span = Span(cell.page, cell.line, cell.start + match.start(), cell.start + match.end())
    above = next(iter(layout.column_above(cell, 1)), None)
    name = find_parties(above.text) if above else []
    name_span = (
        Span(above.page, above.line, above.start + name[0].start, above.start + name[0].end) if above and name else None
    )
    return Block(
        name[0].name if name else "", name_span, (span,), match.group(), above if above and name else cell, False
    )
