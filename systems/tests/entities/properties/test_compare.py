"""When two values say the same."""

from typing import Any

import pytest

from rowmill_systems.entities.properties.catalogue import catalogue
from rowmill_systems.entities.properties.compare import agree, finer

LONDON = {"id": "Q84", "label": "London"}


@pytest.mark.parametrize(
    ("key", "one", "other", "same"),
    [
        ("birth_date", "1815-12-10", "1815-12-10", True),
        ("birth_date", "1815", "1815-12-10", True),
        ("birth_date", "1815-12", "1815-12-10", True),
        ("birth_date", "1815-12-10T00:00:00Z", "1815-12-10", True),
        ("birth_date", 1815, "1815-12-10", True),
        ("birth_date", "1815-12-10", "1815-12-11", False),
        ("birth_date", "1815", "1816", False),
        ("birth_date", "-0044", "0044", False),
        ("birth_date", "0044-03-15", "44-3-15", True),
        ("birth_date", {"odd": 1}, "1815", False),
        ("birth_place", "London", LONDON, True),
        ("birth_place", "LONDON", LONDON, True),
        ("birth_place", "Q84", LONDON, True),
        ("birth_place", {"id": "Q84", "label": "Londres"}, LONDON, True),
        ("birth_place", "Paris", LONDON, False),
        ("birth_place", 7, LONDON, False),
        ("population", 8_900_000, 8_961_989, True),
        ("population", "8,900,000", 8_961_989, True),
        ("population", 5_000_000, 8_961_989, False),
        ("population", True, 1, True),
        ("area", {"amount": 1572, "unit": "square kilometre"}, 1570, True),
        ("area", {"amount": 1572, "unit": "km²"}, {"amount": 1572, "unit": "mile"}, False),
        ("coordinates", {"lat": 51.5, "lon": -0.12}, {"lat": 51.507, "lon": -0.127}, True),
        ("coordinates", {"lat": 0, "lon": 179.98}, {"lat": 0, "lon": -179.99}, True),
        ("coordinates", {"lat": 51.5, "lon": -0.12}, {"lat": 48.8, "lon": 2.3}, False),
        ("coordinates", {"lat": "x", "lon": 1}, {"lat": 1, "lon": 1}, False),
        ("website", "https://www.example.org/", "http://example.org", True),
        ("website", "https://example.org/a", "https://example.org/b", False),
        ("website", "http://[broken", "http://[broken/", False),
        ("lei", "5493-00AB", "549300ab", True),
        ("lei", "549300AB", "549300AC", False),
    ],
)
def test_agreement(key: str, one: Any, other: Any, same: bool) -> None:
    property = catalogue()[key]
    assert agree(property, one, other) is same
    assert agree(property, other, one) is same, "whoever is asked first"


def test_who_says_more() -> None:
    date, place = catalogue()["birth_date"], catalogue()["birth_place"]
    assert finer(date, "1815", "1815-12-10")
    assert not finer(date, "1815-12-10", "1815")
    assert finer(place, "London", LONDON)
    assert not finer(place, LONDON, "London")
