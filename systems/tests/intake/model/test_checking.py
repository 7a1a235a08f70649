"""Nothing that a model says is believed."""

from collections.abc import Sequence
from typing import Any

import pytest

from rowmill_systems.intake.fields.catalogue import Field, FieldType
from rowmill_systems.intake.fields.model.checking import Checked, Checker, Proof
from rowmill_systems.intake.fields.model.evidence import Places
from rowmill_systems.intake.fields.model.values import is_proved
from systems.tests.intake.model.paper import CATALOGUE, PAPER, RIGHT, document, found, page


def checked(items: Sequence[Any], notes: Any = (), proof: Proof = is_proved) -> Checked:
    kept = Checked()
    Checker(PAPER, CATALOGUE.fields, proof).check({"suggestions": items, "unmapped": notes}, [1, 2], kept)
    return kept


WRONG: list[tuple[str, Any]] = [
    ("unknown field", found("iban", "DE89", 1, "IBAN DE89")),
    ("field of another shape", {**found("x", "1", 1, "Date"), "field": ["total"]}),
    ("quote that is nowhere", found("total", "1190.00 EUR", 2, "Grand total 1.190,00 EUR")),
    ("quote of another page", found("total", "1190.00 EUR", 1, "Total due 1.190,00 EUR")),
    ("page that is not there", found("total", "1190.00 EUR", 3, "Total due 1.190,00 EUR")),
    ("page that is a text", {**found("total", "1190.00 EUR", 2, "Total due 1.190,00 EUR"), "page": "2"}),
    ("page that is true", {**found("number", "RE-2026-0815", 1, "RE-2026-0815"), "page": [1]}),
    ("part of a number", found("total", "190.00 EUR", 2, "190,00 EUR")),
    ("part of a word", found("seller", "Hero", 1, "Hero")),
    ("empty quote", found("total", "1190.00 EUR", 2, " ")),
    ("date that is none", found("issued", "2026-02-31", 1, "Date: 31 March 2026")),
    ("date in words", found("issued", "31 March 2026", 1, "Date: 31 March 2026")),
    ("amount in words", found("total", "a lot", 2, "Total due 1.190,00 EUR")),
    ("amount as a number", {**found("total", "", 2, "Total due 1.190,00 EUR"), "value": 1190}),
    ("number that is none", found("rate", "NaN", 2, "Total due 1.190,00 EUR")),
    ("endless number", found("rate", "9" * 900, 2, "Total due 1.190,00 EUR")),
    ("address that is none", found("mail", "heron.example", 2, "mail@heron.example")),
    ("address that is not in the quote", found("mail", "thief@evil.example", 2, "mail@heron.example")),
    ("id that is not in the quote", found("number", "RE-2026-9999", 1, "Invoice\tRE-2026-0815")),
    ("empty value", found("seller", "  ", 1, "Heron Maritime  Ltd.")),
    ("endless value", found("seller", "x" * 5000, 1, "Heron Maritime  Ltd.")),
    ("row of another width", found("items", "", 2, "Item\tQty\tTotal", rows=[["Rope", "2"]])),
    ("cell that is nowhere", found("items", "", 2, "Item\tQty\tTotal", rows=[["Anchor", "2", "190.00"]])),
    ("rows that are none", found("items", "", 2, "Item\tQty\tTotal", rows="Rope")),
    ("no rows", found("items", "Rope", 2, "Item\tQty\tTotal")),
    ("nothing", {}),
    ("a text", "total"),
    ("null", None),
]


@pytest.mark.parametrize("item", [pytest.param(item, id=name) for name, item in WRONG])
def test_what_the_page_does_not_say_is_dropped(item: Any) -> None:
    found = checked([item, RIGHT[1]], [item])
    assert [(one.field, one.value) for one in found.suggestions] == [("issued", "2026-03-31")], "and the rest is kept"
    assert (found.unmapped, found.dropped.total()) == ([], 2)


@pytest.mark.parametrize(
    ("item", "value", "quote"),
    [
        (found("items", "", 2, "item qty total", rows=[["Rope", "2", "190.00"], ["Sail", "", "1.000,00"]]),
         [{"item": "Rope", "quantity": "2", "total": "190.00"}, {"item": "Sail", "total": "1.000,00"}],
         "Item\tQty\tTotal"),
        (found("rate", "2.50", 2, "Rope 2"), "2.5", "Rope\t2"),
        (found("total", "-3", 2, "TOTAL DUE"), {"amount": "-3.00", "currency": None}, "Total due"),
        (found("seller", "Heron\n Maritime\u00ad Ltd.", 1, "heron maritime ltd."),
         "Heron Maritime Ltd.", "Heron Maritime  Ltd."),
        (found("number", "RE-2026-0815", 1, "Ltd. Invoice RE-2026-0815 Date:"),
         "RE-2026-0815", "Ltd.\nInvoice\tRE-2026-0815\nDate:"),
    ],
)  # fmt: skip
def test_the_quote_is_kept_as_it_stands_on_the_page(item: Any, value: Any, quote: str) -> None:
    [one] = checked([item]).suggestions
    assert (one.value, one.evidence.quote) == (value, quote)
    assert len(one.evidence.boxes) == len(quote.split())


@pytest.mark.parametrize(
    ("item", "least", "most"),
    [
        (found("issued", "2026-03-31", 1, "Date: 31 March 2026", 1.0), 0.9, 0.9),
        (found("issued", "2026-03-31", 1, "Date: 31 March 2026", 0.4), 0.4, 0.4),
        (found("issued", "2026-03-31", 1, "DATE:  31 march 2026", 1.0), 0.5, 0.8),
        (found("issued", "2026-04-30", 1, "Date: 31 March 2026", 1.0), 0.3, 0.5),
        (found("total", "1191.00 EUR", 2, "Total due 1.190,00 EUR", 1.0), 0.3, 0.5),
        (found("seller", "Another Ltd.", 1, "Heron Maritime  Ltd.", 1.0), 0.3, 0.5),
        (found("issued", "2026-03-31", 1, "Date: 31 March 2026", 99), 0.9, 0.9),
        (found("issued", "2026-03-31", 1, "Date: 31 March 2026", -1), 0.0, 0.0),
        (found("issued", "2026-03-31", 1, "Date: 31 March 2026", float("nan")), 0.0, 0.5),
        (found("issued", "2026-03-31", 1, "Date: 31 March 2026", "certain"), 0.0, 0.5),
    ],
)
def test_a_model_is_never_as_sure_as_it_says(item: Any, least: float, most: float) -> None:
    [one] = checked([item]).suggestions
    assert least <= one.confidence <= most


@pytest.mark.parametrize(("right", "sure"), [(True, 0.9), (False, 0.6)])
def test_an_id_is_as_sure_as_its_proof(right: bool, sure: float) -> None:
    proofs: list[tuple[str, str]] = []

    def proof(field: Field, value: str) -> bool:
        proofs.append((field.scheme, value))
        return right

    item = found("account", "DE89 3704 0044 0532 0130 00", 1, "IBAN DE89 3704 0044 0532 0130 00", 1.0)
    assert [one.confidence for one in checked([item], proof=proof).suggestions] == [sure]
    assert proofs == [("iban", "DE89370400440532013000")]


@pytest.mark.parametrize(
    ("scheme", "text", "value", "sure"),
    [
        ("iban", "DE89 3704 0044 0532 0130 00", "DE89370400440532013000", 0.9),
        ("iban", "DE88 3704 0044 0532 0130 00", None, 0.0),
        ("bic", "COBADEFFXXX", "COBADEFFXXX", 0.6),
        ("vat", "DE 136 695 976", "DE136695976", 0.9),
        ("vat", "nothing", None, 0.0),
        ("", "A/17", "A/17", 0.9),
    ],
)
def test_ids_have_the_form_that_rules_give_them(scheme: str, text: str, value: str | None, sure: float) -> None:
    paper, field = document([f"No. {text}"]), Field("id", "Id", FieldType.ID, scheme=scheme)
    kept = Checked()
    answer = {"suggestions": [found("id", text, 1, text, 1.0)]}
    Checker(paper, [field], is_proved).check(answer, [1], kept)
    assert [(one.value, one.confidence) for one in kept.suggestions] == ([(value, sure)] if value else [])


def test_a_page_that_was_not_shown_is_not_known() -> None:
    kept = Checked()
    Checker(PAPER, CATALOGUE.fields, is_proved).check({"suggestions": RIGHT, "unmapped": None}, [1], kept)
    assert [one.field for one in kept.suggestions] == ["number", "issued", "seller"]


@pytest.mark.parametrize(
    ("text", "quote", "kept"),
    [
        ("Straße 1", "STRASSE 1", "Straße 1"),
        ("ﬁnal   bill", "Final bill", "ﬁnal   bill"),
        ("10 100 1000", "100", "100"),
        ("1,190.00", "190.00", None),
        ("1.190,00", "1.190", None),
        ("1190.", "1190", "1190"),
        ("RE-2026", "2026", "2026"),
        ("合計金額1,190円", "合計金額", "合計金額"),
        ("a\u00a0b", "a b", "a\u00a0b"),
        ("ab", "a b", None),
        ("x" * 2000, "x" * 1500, None),
    ],
)
def test_a_quote_stands_alone_and_may_differ_in_spaces_and_capitals(text: str, quote: str, kept: str | None) -> None:
    found = Places(page(1, [text])).find(quote)
    assert (found.evidence.quote if found else None) == kept
