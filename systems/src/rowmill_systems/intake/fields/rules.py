"""Map a document to fields of a catalogue by rules: offline, deterministic, with evidence for every value."""

from collections.abc import Iterator

from rowmill_systems.intake.analysis import Mapped, Suggestion
from rowmill_systems.intake.fields.candidates import FieldCandidate, bounded, choose
from rowmill_systems.intake.fields.catalogue import Catalogue, FieldType
from rowmill_systems.intake.fields.confidence import confidence
from rowmill_systems.intake.fields.crosschecks import cross_check
from rowmill_systems.intake.fields.labelled import labelled
from rowmill_systems.intake.fields.people import people
from rowmill_systems.intake.fields.sums import sums
from rowmill_systems.intake.fields.unlabelled import unlabelled
from rowmill_systems.intake.fields.unmapped import unmapped
from rowmill_systems.intake.fields.view import View
from rowmill_systems.parts.documents.document import Document


def map_by_rules(document: Document, *, doc_type: str | None, catalogue: Catalogue) -> Mapped:
    """Return the values of the fields of this type, one per field unless the field has many, and labelled values that
    no field took. Never raises. Takes time in proportion to the length of the text."""
    view = View.of(document, doc_type, catalogue)
    found = cross_check(bounded([*labelled(view), *unlabelled(view), *people(view), *sums(view), *_tables(view)]))
    chosen = choose(found)
    order = {field.key: place for place, field in enumerate(catalogue.fields)}
    chosen.sort(key=lambda each: (order[each.field.key], -each.score))
    suggestions = tuple(_suggestion(view, each) for each in chosen)
    return Mapped(suggestions, tuple(unmapped(view, chosen)))


def _suggestion(view: View, chosen: FieldCandidate) -> Suggestion:
    scanned = view.layout.document.pages[chosen.spans[0].page].scanned
    sure = confidence(chosen.score, scanned=scanned)
    return Suggestion(chosen.field.key, chosen.value, sure, view.layout.evidence(chosen.spans))


def _tables(view: View) -> Iterator[FieldCandidate]:
    for field in view.fields:
        if field.type is FieldType.TABLE and view.table:
            columns = [column.strip() for column in field.scheme.split(",")]
            spans = view.table.spans()
            page = spans[0].page
            yield FieldCandidate(
                field, view.table.value(columns), 0.85, tuple(span for span in spans if span.page == page)
            )
