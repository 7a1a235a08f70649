"""Find seller and buyer, and their addresses.

A label is the best evidence. Without one, the letterhead or the footer names the author, and the address block of the
first page the recipient. Orders are written by the buyer, all other documents by the seller.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from rowmill_systems.intake.fields.addresses import Block
from rowmill_systems.intake.fields.candidates import FieldCandidate
from rowmill_systems.intake.fields.catalogue import Field, FieldType
from rowmill_systems.intake.fields.labelled import strength
from rowmill_systems.intake.fields.labels import Hit
from rowmill_systems.intake.fields.layout import Cell, Span, span_of
from rowmill_systems.intake.fields.parties import bare_name, find_parties, same_party, tidy
from rowmill_systems.intake.fields.readings import EMAIL
from rowmill_systems.intake.fields.view import View

HEAD_LINES = 8
BODY_LINES = 40
MOST_NAMES = 20
LONGEST_NAME = 70


@dataclass(frozen=True, slots=True)
class Named:
    """A name, its place, and how sure it is."""

    name: str
    span: Span
    sure: float


def people(view: View) -> Iterator[FieldCandidate]:
    roles = {field.scheme for field in view.fields if field.type in (FieldType.PARTY, FieldType.ADDRESS)}
    named = {role: list(_named(view, role)) for role in sorted(roles)}
    _guess(view, named)
    for field in view.fields:
        if field.type is FieldType.PARTY:
            for one in named[field.scheme]:
                yield FieldCandidate(field, one.name, one.sure, (one.span,))
        elif field.type is FieldType.ADDRESS:
            yield from _addresses(view, field, named)


def _named(view: View, role: str) -> Iterator[Named]:
    """Yield the names beside labels of this role."""
    for hit, field in _hits(view, FieldType.PARTY, role):
        anchor = next(_anchors(view, hit), None)
        if anchor and (found := _name_in(view, *anchor)):
            yield Named(found.name, found.span, found.sure * strength(hit, field))


def _hits(view: View, kind: FieldType, role: str) -> Iterator[tuple[Hit, Field]]:
    for hits in view.hits.values():
        for hit in hits:
            for field in hit.fields:
                if field.type is kind and field.scheme == role:
                    yield hit, field


def _anchors(view: View, hit: Hit) -> Iterator[tuple[Cell, int]]:
    """Yield where the value of a label begins: the cell, and the place in its line."""
    cell = hit.cell
    rest = view.layout.line_text(cell)[hit.end : cell.end]
    if any(sign.isalnum() for sign in rest):
        if hit.colon or find_parties(rest):
            yield cell, hit.end + len(rest) - len(rest.lstrip(" :：-–=,"))
        return
    right = view.layout.right_of(cell)
    below = view.layout.below(cell)
    if right and not view.is_label(right[0]) and not (below and _heads(view, below)):
        yield right[0], right[0].start
    if below and not view.is_label(below):
        yield below, below.start


def _heads(view: View, cell: Cell) -> bool:
    """Return whether an address block begins with this cell: then the label above it means the block, not the cell to
    its right."""
    return any(block.top is cell for block in view.blocks)


def _name_in(view: View, cell: Cell, start: int) -> Named | None:
    text = view.layout.line_text(cell)[start : cell.end]
    if companies := find_parties(text):
        first = companies[0]
        if first.start < 30:
            return Named(first.name, Span(cell.page, cell.line, start + first.start, start + first.end), 0.97)
    mail = EMAIL.search(text)
    name = tidy((text[: mail.start()] if mail else text).split(",")[0].strip(" <(\"'"))
    if (
        not 2 < len(name) < LONGEST_NAME
        or any(sign.isdigit() for sign in name)
        or not (name[0].isupper() or ord(name[0]) > 0x3000)
    ):
        return None
    at = start + text.find(name)
    return Named(name, Span(cell.page, cell.line, at, at + len(name)), 0.8) if name in text else None


def _guess(view: View, named: dict[str, list[Named]]) -> None:
    """Fill in what no label says, by the places of names."""
    writer, reader = ("buyer", "seller") if view.doc_type == "purchase_order" else ("seller", "buyer")
    if "any" in named:
        named["any"] += _in_prose(view)
    known = [one.name for role in (reader, "delivery") for one in named.get(role, ())]
    if writer in named:
        named[writer] += [one for one in _letterhead(view) if not any(same_party(one.name, other) for other in known)]
    best = max(named.get(writer, ()), key=lambda one: one.sure, default=None)
    if reader in named:
        named[reader] += list(_address_window(view, best))


def _letterhead(view: View) -> Iterator[Named]:
    """Yield the companies of the first and last lines; the more often named, the surer."""
    if not view.layout.rows:
        return
    page = view.layout.rows[0]
    head = [cell for row in page[:HEAD_LINES] for cell in row]
    foot = [cell for row in page[-HEAD_LINES:] for cell in row]
    often = Counter(bare_name(company.name) for row in page for cell in row for company in find_parties(cell.text))
    for cells, sure in ((head, 0.8), (foot, 0.62)):
        companies = [(cell, company) for cell in cells for company in find_parties(cell.text)]
        for rank, (cell, company) in enumerate(companies[:MOST_NAMES]):
            span = Span(cell.page, cell.line, cell.start + company.start, cell.start + company.end)
            again = often[bare_name(company.name)] > 1
            yield Named(company.name, span, sure * 0.85 ** min(rank, 4) + 0.08 * again)
    first = next((cell for cell in head if not view.is_label(cell)), None)
    if (
        first
        and not find_parties(first.text)
        and len(first.text) < 40
        and not any(sign.isdigit() or sign in ":：" for sign in first.text)
    ):
        yield Named(tidy(first.text), span_of(first), 0.5)


def _address_window(view: View, writer: Named | None) -> Iterator[Named]:
    """Yield the first address of the first page that has lines of its own and is not the author's."""
    rank = 0
    for block in view.blocks:
        if block.inline or block.top.page or block.top.row > BODY_LINES or not block.name or not block.name_span:
            continue
        if (writer and same_party(block.name, writer.name)) or _claimed(view, block):
            continue
        yield Named(_company(block.name), block.name_span, 0.78 * 0.8**rank)
        rank += 1


def _company(name: str) -> str:
    companies = find_parties(name)
    return companies[0].name if companies else name


def _claimed(view: View, block: Block) -> bool:
    """Whether a label of an address stands over it: a delivery address is not the buyer's."""
    above = next(iter(view.layout.column_above(block.top, 1)), None)
    return above is not None and any(
        not hit.fields or any(field.type is FieldType.ADDRESS for field in hit.fields) for hit in view.hits_in(above)
    )


def _in_prose(view: View) -> Iterator[Named]:
    """Yield the companies that the first lines name."""
    seen: list[str] = []
    for row in view.layout.rows[0][:BODY_LINES] if view.layout.rows else ():
        for cell in row:
            for company in find_parties(cell.text):
                if len(seen) < MOST_NAMES and not any(same_party(company.name, other) for other in seen):
                    seen.append(company.name)
                    span = Span(cell.page, cell.line, cell.start + company.start, cell.start + company.end)
                    yield Named(company.name, span, 0.8 if len(seen) <= 2 else 0.4)


def _addresses(view: View, field: Field, named: dict[str, list[Named]]) -> Iterator[FieldCandidate]:
    for hit, _ in _hits(view, FieldType.ADDRESS, field.scheme):
        for cell, _start in _anchors(view, hit):
            for block in _blocks_at(view, cell):
                yield FieldCandidate(field, block.value, 0.93 * strength(hit, field), block.spans)
    owners = sorted(named.get(field.scheme, ()), key=lambda one: -one.sure)[:3]
    for owner in owners:
        for block in view.blocks:
            near = block.name_span is not None and _meets(block.name_span, owner.span)
            if near or (block.name and same_party(block.name, owner.name)):
                yield FieldCandidate(field, block.value, owner.sure * (0.97 if near else 0.85), block.spans)
    if owners and not any(block.name and same_party(block.name, owners[0].name) for block in view.blocks):
        yield from _under(view, field, owners[0])


def _blocks_at(view: View, cell: Cell) -> Iterator[Block]:
    """The address that begins with this cell or soon below it."""
    for block in view.blocks:
        top = block.top
        if top.page == cell.page and 0 <= top.row - cell.row <= 2 and (top.over(cell) or top is cell):
            yield block
            return


def _under(view: View, field: Field, owner: Named) -> Iterator[FieldCandidate]:
    """An address that stands below the name, with lines between them."""
    for block in view.blocks:
        first = block.spans[0]
        if first.page == owner.span.page and not block.name and 0 < first.line - owner.span.line <= 4:
            yield FieldCandidate(field, block.value, owner.sure * 0.8, block.spans)
            return


def _meets(one: Span, other: Span) -> bool:
    return one.page == other.page and one.line == other.line and one.start < other.end and other.start < one.end
