"""Numbers in a text: found over separators, mended where the check digits then hold, and never otherwise."""

import pytest

from rowmill_systems.intake.fields.ids import find_ids


@pytest.mark.parametrize(
    ("scheme", "text", "value"),
    [
        ("iban", "IBAN: DE89 3704 0044 0532 0130 00, BIC", "DE89370400440532013000"),
        ("iban", "GB29 NWBK 6016 1331 9268 19.", "GB29NWBK60161331926819"),
        ("vat", "USt-IdNr. DE 136 695 976", "DE136695976"),
        ("vat", "TVA FR 40 303 265 045 RCS", "FR40303265045"),
        ("vat", "CHE-107.787.577 MWST", "CHE107787577MWST"),
        ("creditor", "Ref RF18 5390 0754 7034", "RF18539007547034"),
        ("register", "Amtsgericht Köln HRB 12345", "HRB 12345"),
    ],
)
def test_a_number_is_found_over_its_separators(scheme: str, text: str, value: str) -> None:
    (found,) = find_ids(scheme, text)
    assert (found.value, found.mended) == (value, False)


@pytest.mark.parametrize(
    ("scheme", "text", "value"),
    [
        ("iban", "DE89 37O4 0O44 0532 013O 00", "DE89370400440532013000"),
        ("iban", "DEB9 3704 0044 0532 0l30 00", "DE89370400440532013000"),
        ("vat", "P.IVA 1T00743110157", "IT00743110157"),
        ("vat", "DE l36 695 976", "DE136695976"),
        ("ean", "EAN 40O6381333931", "4006381333931"),
    ],
)
def test_what_ocr_confused_is_mended(scheme: str, text: str, value: str) -> None:
    (found,) = find_ids(scheme, text)
    assert (found.value, found.mended) == (value, True)


@pytest.mark.parametrize(
    ("scheme", "text"),
    [
        ("iban", "DE89 37O4 0O44 0532 013O 01"),
        ("iban", "DE89 3704 0044 0532 0130 0"),
        ("vat", "DE 136 695 977"),
        ("vat", "DE l36 695 977"),
        ("lei", "5493001KJTIIGC8Y1R13"),
        ("nothing of the kind", "4711"),
    ],
)
def test_a_number_that_is_not_right_is_none(scheme: str, text: str) -> None:
    assert find_ids(scheme, text) == []
