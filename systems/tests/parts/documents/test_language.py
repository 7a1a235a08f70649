"""The language of a text."""

import pytest

from rowmill_systems.parts.documents.language import language_of
from systems.tests.parts.documents.files import read

TEXTS = {
    "en": "Please pay the amount of this invoice within fourteen days to the account below.",
    "de": "Bitte zahlen Sie den Betrag dieser Rechnung innerhalb von vierzehn Tagen auf unser Konto.",
    "fr": "Veuillez régler le montant de cette facture dans un délai de quatorze jours sur notre compte.",
}


@pytest.mark.parametrize("language", TEXTS)
def test_the_language_of_a_sentence_is_told(language: str) -> None:
    assert language_of(TEXTS[language]) == language
    assert read(TEXTS[language].encode(), "a.txt").language == language


@pytest.mark.parametrize("text", ["", "Invoice 4711", "1190,50 12.03.2026 " * 50, "\n\t\0" * 100, "x" * 100_000])
def test_too_little_text_has_no_language(text: str) -> None:
    assert language_of(text) is None or len(text) > 10_000
