"""Who wrote it, whom it is for, and where they live."""

import pytest

from rowmill_systems.intake.fields.addresses import is_city, is_street
from rowmill_systems.intake.fields.parties import find_parties
from systems.tests.intake.fields.sheets import mapped, values

LETTERHEAD = """
Nordlicht Werkzeuge GmbH · Hafenstr. 12 · 20457 Hamburg
Bäckerei Sommer KG
Lindenweg 4a
50667 Köln
Rechnung Nr. 5
Nordlicht Werkzeuge GmbH\tIBAN: DE89 3704 0044 0532 0130 00
"""


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Nordlicht Werkzeuge GmbH", ["Nordlicht Werkzeuge GmbH"]),
        ("between Acme Ltd, a company, and Foo & Bar GmbH & Co. KG, Berlin", ["Acme Ltd", "Foo & Bar GmbH & Co. KG"]),
        ("Zwischen Nord AG und Süd GmbH", ["Nord AG", "Süd GmbH"]),
        ("Société Dupont et Fils S.A.R.L.", ["Société Dupont et Fils S.A.R.L."]),
        ("Great Lakes Supply, Inc.", ["Great Lakes Supply, Inc."]),
        ("entre Talleres Ruiz S.L. y Otra S.A.", ["Talleres Ruiz S.L.", "Otra S.A."]),
        ("Meier S.p.A. · Via Roma 5", ["Meier S.p.A."]),
        ("甲方：上海华美贸易有限公司", ["上海华美贸易有限公司"]),
        ("an ordinary sentence", []),
    ],
)
def test_companies_are_known_by_their_legal_forms(text: str, names: list[str]) -> None:
    assert [found.name for found in find_parties(text)] == names


@pytest.mark.parametrize(
    "text",
    ["10115 Berlin", "D-10115 Berlin", "75008 Paris", "20121 Milano (MI)", "1012 AB Amsterdam", "Austin, TX 78701",
     "London SW1A 1AA", "SW1A 1AA", "1010 Wien", "00-950 Warszawa"],
)  # fmt: skip
def test_towns_with_postcodes_are_known(text: str) -> None:
    assert is_city(text)


@pytest.mark.parametrize("text", ["Hauptstr. 5", "12 High Street", "5 rue de la Paix", "Via Roma, 5", "Am Markt 4a"])
def test_streets_are_known(text: str) -> None:
    assert is_street(text)
    assert not is_city(text)


def test_the_letterhead_is_the_seller_and_the_address_block_the_buyer() -> None:
    found = values(LETTERHEAD, language="de")
    assert (found["seller"], found["seller_address"]) == ("Nordlicht Werkzeuge GmbH", "Hafenstr. 12, 20457 Hamburg")
    assert (found["buyer"], found["buyer_address"]) == ("Bäckerei Sommer KG", "Lindenweg 4a, 50667 Köln")


def test_the_letterhead_of_an_order_is_the_buyer() -> None:
    found = values(LETTERHEAD, "purchase_order", language="de")
    assert (found["buyer"], found["seller"]) == ("Nordlicht Werkzeuge GmbH", "Bäckerei Sommer KG")


def test_labels_say_who_is_who_side_by_side() -> None:
    text = "From\tBill to\tShip to\nAcme Ltd\tFoo Inc.\tFoo Inc.\n1 High Street\t2 Oak Avenue\t9 Dock Road\n"
    text += "London SW1A 1AA\tAustin, TX 78701\tBoston, MA 02110"
    found = values(text)
    assert (found["seller"], found["seller_address"]) == ("Acme Ltd", "1 High Street, London SW1A 1AA")
    assert (found["buyer"], found["buyer_address"]) == ("Foo Inc.", "2 Oak Avenue, Austin, TX 78701")
    assert found["delivery_address"] == "9 Dock Road, Boston, MA 02110"


def test_a_country_below_belongs_to_the_address() -> None:
    assert values("Bill to:\nAnna Schmidt\nHauptstr. 5\n10115 Berlin\nGermany")["buyer_address"] == (
        "Hauptstr. 5, 10115 Berlin, Germany"
    )


def test_a_person_may_be_the_buyer() -> None:
    assert values("Customer: Helen Carter")["buyer"] == "Helen Carter"


def test_the_parties_of_a_contract_are_found_in_its_sentences() -> None:
    text = "This agreement is made between\nAcme Ltd, 1 High Street, London\n(the “Client”)\nand\nFoo GmbH"
    found = [each.value for each in mapped(text, "contract").suggestions if each.field == "parties"]
    assert sorted(found) == ["Acme Ltd", "Foo GmbH"]


def test_a_letter_has_its_date_beside_the_town_and_its_subject_above_the_greeting() -> None:
    text = "Nord AG\nBerlin, 31. März 2026\nKündigung unseres Vertrags\nSehr geehrte Damen und Herren,\nwir kündigen."
    found = values(text, "letter", language="de")
    assert (found["issue_date"], found["subject"]) == ("2026-03-31", "Kündigung unseres Vertrags")
