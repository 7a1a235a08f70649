"""Claims as plain values: ranks, precisions, calendars, units, and what is no value."""

from typing import Any

import pytest

from demos.entities.wikidata_api import dated, snak, statement
from rowmill_systems.entities.properties.catalogue import catalogue
from rowmill_systems.entities.sources.dates import gregorian, read_date
from rowmill_systems.entities.sources.wikidata_items import MISSING, item_of
from rowmill_systems.entities.sources.wikidata_values import StatementReader

ENTITY = "http://www.wikidata.org/entity/"
LABELS = {"Q64": "Berlin", "Q712226": "square kilometre", "Q1": "universe"}


def read(key: str, *statements: dict[str, Any]) -> tuple[Any, ...]:
    property = catalogue()[key]
    assert property.wikidata
    item = item_of({"id": "Q1", "claims": {property.wikidata: list(statements)}}, ["en"])
    return StatementReader(LABELS).values(property, item["claims"].get(property.wikidata, ()))


def said(type: str, value: Any, datatype: str | None = None, **more: Any) -> dict[str, Any]:
    main = {"snaktype": "value", "datatype": datatype or type, "datavalue": {"type": type, "value": value}}
    return {"rank": "normal", "mainsnak": main, **more}


def time(text: str, precision: int, calendar: str = "Q1985727") -> dict[str, Any]:
    return said("time", {"time": text, "precision": precision, "calendarmodel": ENTITY + calendar})


@pytest.mark.parametrize(
    ("claim", "date"),
    [
        (time("+1815-12-10T00:00:00Z", 11), "1815-12-10"),
        (time("+1815-12-00T00:00:00Z", 10), "1815-12"),
        (time("+1815-00-00T00:00:00Z", 9), "1815"),
        (time("+1815-12-10T00:00:00Z", 9), "1815"),
        (time("+00000001815-12-10T00:00:00Z", 11), "1815-12-10"),
        (time("-0427-05-21T00:00:00Z", 11), "-0427-05-21"),
        (time("+1810-00-00T00:00:00Z", 8), None),
        (time("+1642-12-25T00:00:00Z", 11, "Q1985786"), "1643-01-04"),
        (time("+1506-05-20T00:00:00Z", 11, "Q1985786"), "1506-05-20"),
        (time("+1642-12-00T00:00:00Z", 10, "Q1985786"), "1642-12"),
        (said("time", {"time": "soon", "precision": 11}), None),
        (said("time", "soon"), None),
        (said("string", "1815"), None),
    ],
)
def test_dates(claim: dict[str, Any], date: str | None) -> None:
    assert read("birth_date", claim) == (() if date is None else (date,))


@pytest.mark.parametrize(
    ("julian", "day"),
    [((1917, 10, 25), (1917, 11, 7)), ((1700, 2, 28), (1700, 3, 10)), ((1700, 2, 29), (1700, 3, 11)),
     ((1700, 3, 1), (1700, 3, 12)), ((1582, 10, 4), (1582, 10, 4)), ((1582, 10, 5), (1582, 10, 15)),
     ((1704, 2, 29), (1704, 3, 11))],
)  # fmt: skip
def test_days_of_the_julian_calendar(julian: tuple[int, int, int], day: tuple[int, int, int]) -> None:
    assert gregorian(*julian) == day


@pytest.mark.parametrize(
    ("key", "claim", "value"),
    [
        ("population", said("quantity", {"amount": "+3677472", "unit": "1"}), 3677472),
        ("population", said("quantity", {"amount": "+1.5", "unit": "1"}), 1.5),
        ("population", said("quantity", {"amount": "many", "unit": "1"}), None),
        ("area", said("quantity", {"amount": "+891.7", "unit": f"{ENTITY}Q712226"}),
         {"amount": 891.7, "unit": "square kilometre"}),
        ("area", said("quantity", {"amount": "+5", "unit": f"{ENTITY}Q999"}), {"amount": 5, "unit": "Q999"}),
        ("coordinates", said("globecoordinate", {"latitude": 52.5, "longitude": 13.4, "globe": f"{ENTITY}Q2"},
                             "globe-coordinate"), {"lat": 52.5, "lon": 13.4}),
        ("coordinates", said("globecoordinate", {"latitude": 1, "longitude": 2, "globe": f"{ENTITY}Q405"},
                             "globe-coordinate"), None),
        ("birth_place", said("wikibase-entityid", {"entity-type": "item", "id": "Q64"}, "wikibase-item"),
         {"id": "Q64", "label": "Berlin"}),
        ("birth_place", said("string", "Berlin"), None),
        ("lei", said("string", "529900T8BM49AURSDO55", "external-id"), "529900T8BM49AURSDO55"),
        ("website", said("string", "https://x.example/", "url"), "https://x.example/"),
        ("image", said("string", "Ada & co?.jpg", "commonsMedia"),
         "https://commons.wikimedia.org/wiki/Special:FilePath/Ada_%26_co%3F.jpg"),
    ],
)  # fmt: skip
def test_values_of_each_kind(key: str, claim: dict[str, Any], value: Any) -> None:
    assert read(key, claim) == (() if value is None else (value,))


def thing(id: str, **more: Any) -> dict[str, Any]:
    return said("wikibase-entityid", {"entity-type": "item", "id": id}, "wikibase-item", **more)


def ids(values: tuple[Any, ...]) -> list[str]:
    return [value["id"] for value in values]


def test_the_preferred_value_is_taken_and_the_deprecated_never() -> None:
    assert ids(read("occupation", thing("Q1"), thing("Q64", rank="preferred"), thing("Q2"))) == ["Q64"]
    assert ids(read("occupation", thing("Q1", rank="deprecated"), thing("Q2"), thing("Q2"))) == ["Q2"]
    assert read("occupation", thing("Q1", rank="deprecated")) == ()


@pytest.mark.parametrize("kind", ["somevalue", "novalue"])
def test_what_nobody_knows_is_no_value(kind: str) -> None:
    assert read("spouse", {"rank": "preferred", "mainsnak": {"snaktype": kind, "property": "P26"}}) == ()


def test_what_has_ended_holds_no_longer() -> None:
    old, new = dated(thing("Q1"), "P582", "1999"), dated(thing("Q2"), "P580", "1999")
    assert ids(read("chief_executive", old, new)) == ["Q2"]
    assert read("chief_executive", old) == ()
    assert ids(read("educated_at", old, new)) == ["Q1", "Q2"], "to have studied there stays true"
    assert ids(read("employer", old)) == ["Q1"], "the dead have worked somewhere"


def test_of_several_numbers_the_latest_is_taken() -> None:
    def people(amount: int, when: str) -> dict[str, Any]:
        return dated(statement("P1082", snak("P1082", "number", amount)), "P585", when)

    assert read("population", people(1, "1950"), people(3, "2021-05"), people(2, "2011"), people(9, "2020")) == (3,)


def test_the_more_precise_of_two_dates_is_taken() -> None:
    assert read("birth_date", time("+1815-00-00T00:00:00Z", 9), time("+1815-12-10T00:00:00Z", 11)) == ("1815-12-10",)


@pytest.mark.parametrize("entity", [{"id": "Q1", "missing": ""}, {"id": "Q1", "missing": True}, {}])
def test_an_item_that_is_gone(entity: dict[str, Any]) -> None:
    assert item_of(entity, ["en"]) == MISSING


def test_empty_parts_may_come_as_lists() -> None:
    item = item_of({"id": "Q1", "labels": [], "claims": [], "aliases": [], "sitelinks": []}, ["en"])
    assert (item["labels"], item["claims"], item["sites"], item["page"]) == ({}, {}, 0, None)


@pytest.mark.parametrize(
    ("text", "date"),
    [("1815-12-10", "1815-12-10"), ("1815-12-10Z", "1815-12-10"), ("1815-12-10+02:00", "1815-12-10"),
     ("1815-12-10T00:00:00+00:00", "1815-12-10"), ("1815", "1815"), ("-0427", "-0427"), ("1815-12", "1815-12"),
     ("--12-10", None), ("1815-13-01", None), ("in May", None), ("", None)],
)  # fmt: skip
def test_dates_as_others_write_them(text: str, date: str | None) -> None:
    assert read_date(text) == date


@pytest.mark.parametrize("amount", ["NaN", "Infinity", "1E+400", "-1E+400"])
def test_amounts_that_no_database_keeps(amount: str) -> None:
    assert read("population", said("quantity", {"amount": amount, "unit": "1"})) == ()


def test_odd_times_and_places_are_no_values() -> None:
    assert read("birth_date", time("+" + "9" * 5000 + "-01-01T00:00:00Z", 9)) == ()
    assert read("birth_date", said("time", {"time": "+1815-12-10T00:00:00Z", "precision": [11]})) == ()
    far = {"latitude": 10**400, "longitude": 0, "globe": ENTITY + "Q2"}
    assert read("coordinates", said("globecoordinate", far, "globe-coordinate")) == ()
