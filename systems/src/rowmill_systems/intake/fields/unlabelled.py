"""Find values without labels: numbers with check digits, mail addresses, the date of a letter."""

import re
from collections.abc import Iterator

from rowmill_systems.intake.fields.candidates import FieldCandidate
from rowmill_systems.intake.fields.catalogue import Field, FieldType
from rowmill_systems.intake.fields.folding import plain
from rowmill_systems.intake.fields.layout import Cell, Span, span_of
from rowmill_systems.intake.fields.readings import UNPROVED, read
from rowmill_systems.intake.fields.view import View

# Of these schemes a number that is right is hardly there by chance.
TELLING = {"iban": 0.9, "vat": 0.72, "lei": 0.85, "isin": 0.8, "creditor": 0.8}
REGISTER = re.compile(r"HR ?[AB] ?\d|RCS |FN \d|REA ")
GREETING = re.compile(
    r"dear |sehr geehrte|guten tag|liebe|madame|monsieur|mesdames|bonjour|estimad|muy señor|gentil|egregi|spettabile"
    r"|尊敬的|hello|to whom",
    re.IGNORECASE,
)
PLACE_AND_DATE = re.compile(r"(?:[^\W\d_][^\W\d]{1,24},?\s+)?(?:den |le |the |lì |li |a |on )?$", re.IGNORECASE)
TOP_LINES = 25


def unlabelled(view: View) -> Iterator[FieldCandidate]:
    seen: set[str] = set()
    for field in view.fields:
        if field.type is FieldType.ID and field.scheme in TELLING:
            # Of two fields with one scheme, only the first takes what has no label.
            if field.scheme in seen:
                continue
            seen.add(field.scheme)
            yield from _everywhere(view, field, TELLING[field.scheme])
        elif field.type is FieldType.ID and field.scheme == "register":
            yield from _registers(view, field)
        elif field.type is FieldType.EMAIL:
            yield from _everywhere(view, field, 0.7)
        elif field.type is FieldType.PHONE:
            yield from (one for one in _everywhere(view, field, 0.5) if str(one.value).startswith("+"))
        elif field.type is FieldType.DATE and field.scheme == "issue":
            yield from _letter_date(view, field)
        elif field.scheme == "subject":
            yield from _subject(view, field)


def _everywhere(view: View, field: Field, sure: float) -> Iterator[FieldCandidate]:
    for cell in view.layout.cells():
        if view.in_mail_head(cell) and not cell.text.casefold().startswith("from:"):
            continue
        for reading in read(field, cell.text, view.context):
            # Of these, only what check digits prove: the shapes of some countries are any digits.
            if field.scheme != "vat" or reading.sure > UNPROVED:
                span = Span(cell.page, cell.line, cell.start + reading.start, cell.start + reading.end)
                yield FieldCandidate(field, reading.value, sure * reading.sure, (span,))


def _registers(view: View, field: Field) -> Iterator[FieldCandidate]:
    """Yield register numbers that name their register."""
    for candidate in _everywhere(view, field, 0.8):
        if REGISTER.match(str(candidate.value)):
            yield candidate


def _letter_date(view: View, field: Field) -> Iterator[FieldCandidate]:
    """A cell that is a date and no more than the town before it: `Berlin, 31. März 2026`."""
    for cell in _top(view):
        if _named(view, cell):
            continue
        readings = read(field, cell.text, view.context)
        if len(readings) == 1:
            before, after = cell.text[: readings[0].start], cell.text[readings[0].end :]
            if PLACE_AND_DATE.fullmatch(before) and not after.strip(" ."):
                span = Span(cell.page, cell.line, cell.start + readings[0].start, cell.start + readings[0].end)
                yield FieldCandidate(field, readings[0].value, 0.66 * readings[0].sure, (span,))


def _named(view: View, cell: Cell) -> bool:
    """Whether a label stands left of it or above it, and so says what it is."""
    before = [other for other in view.layout.rows[cell.page][cell.row] if other.right <= cell.left]
    above = next(iter(view.layout.column_above(cell, 1)), None)
    return any(hit.alone for other in [*before[-1:], *([above] if above else [])] for hit in view.hits_in(other))


def _subject(view: View, field: Field) -> Iterator[FieldCandidate]:
    """Yield the line above the greeting."""
    page = view.layout.rows[0] if view.layout.rows else []
    for place, row in enumerate(page[: 2 * TOP_LINES]):
        if row and GREETING.match(row[0].text) and len(row[0].text) < 80:
            above = next((other for other in reversed(page[max(0, place - 3) : place]) if other), None)
            if above and len(above) == 1 and not view.is_label(above[0]) and not read_as_date(view, above[0]):
                yield FieldCandidate(field, above[0].text, 0.7, (span_of(above[0]),))
            return


def read_as_date(view: View, cell: Cell) -> bool:
    date = Field("date", "date", FieldType.DATE)
    return any(reading.end - reading.start > len(cell.text) / 3 for reading in read(date, cell.text, view.context))


def _top(view: View) -> Iterator[Cell]:
    for row in view.layout.rows[0][:TOP_LINES] if view.layout.rows else ():
        yield from (cell for cell in row if not view.hits_in(cell) and len(cell.text) < 60)


def same_house(mail: str, name: str) -> bool:
    """Return whether the domain of a mail address looks like the name of a company."""
    domain = re.sub(r"\W", "", mail.rpartition("@")[2].rpartition(".")[0]).casefold()
    return any(len(word) > 3 and word in domain for word in re.findall(r"\w+", plain(name)))
