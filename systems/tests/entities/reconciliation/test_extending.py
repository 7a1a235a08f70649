"""Properties of things, for new columns."""

import json
from typing import Any

from rowmill_systems.entities.reconciliation.queries import MOST_IDS
from systems.tests.entities.reconciliation.served import served
from systems.tests.entities.reconciliation.shapes import check


async def test_openrefine_s_own_request() -> None:
    asked: dict[str, Any] = {
        "ids": ["t1", "t2", "nobody"],
        "properties": [
            {"id": "birth_date"},
            {"id": "death_date"},
            {"id": "birth_place"},
            {"id": "occupation", "settings": {"limit": "1", "unknown": True}},
            {"id": "population", "settings": {"limit": ""}},
            {"id": "area"},
            {"id": "coordinates"},
            {"id": "wikidata_id"},
            {"id": "type"},
            {"id": "no_such_property"},
        ],
    }
    async with served() as harness:
        answer = await harness.form(extend=asked)
        said = check("data-extension-response", answer.json())
        assert (await harness.get(extend=json.dumps(asked))).json() == said
    names = {each["id"]: each["name"] for each in said["meta"]}
    assert list(names) == [each["id"] for each in asked["properties"]]
    assert (names["birth_date"], names["no_such_property"]) == ("Born on", "no_such_property")
    empty: dict[str, list[Any]] = {key: [] for key in names}
    assert said["rows"] == {
        "t1": {
            **empty,
            "birth_date": [{"date": "1815-12-10T00:00:00Z"}],
            "death_date": [{"str": "1852"}],
            "birth_place": [{"id": "t2", "name": "London"}],
            "occupation": [{"str": "mathematician"}],
            "wikidata_id": [{"str": "Q7259"}],
            "type": [{"str": "Person"}],
        },
        "t2": {
            **empty,
            "population": [{"int": 8_866_180}],
            "area": [{"str": "1572.15 km²"}],
            "coordinates": [{"str": "51.5,-0.12"}],
            "type": [{"str": "Place"}],
        },
        "nobody": empty,
    }


async def test_a_value_is_what_its_property_is_and_fits_where_it_goes() -> None:
    asked = {"ids": ["t7"], "properties": [{"id": "alias"}, {"id": "revenue"}, {"id": "employees"}]}
    async with served() as harness:
        said = check("data-extension-response", (await harness.form(extend=asked)).json())
        old = await harness.form(extend={"ids": ["t6"], "properties": [{"id": "founded"}]})
        there = await harness.form(extend={"ids": ["t1"], "properties": [{"id": "citizenship"}]})
    assert check("data-extension-response", old.json())["rows"]["t6"]["founded"] == [{"date": "-0044-03-15T00:00:00Z"}]
    assert there.json()["rows"]["t1"]["citizenship"] == [{"str": "United Kingdom"}]
    assert said["rows"]["t7"] == {
        "alias": [{"str": "2001-09-11"}],
        "revenue": [{"float": 3e9}],
        "employees": [{"int": 0}],
    }


async def test_all_values_unless_there_is_a_limit() -> None:
    async with served() as harness:
        for limit, count in ((None, 2), (0, 2), ("0", 2), (1, 1), (5.0, 2), (-3, 2)):
            wanted = {"id": "occupation", "settings": {} if limit is None else {"limit": limit}}
            answer = await harness.form(extend={"ids": ["t1"], "properties": [wanted]})
            assert len(answer.json()["rows"]["t1"]["occupation"]) == count, limit


async def test_what_is_no_request_is_refused() -> None:
    async with served() as harness:
        wrong: tuple[Any, ...] = (
            "{",
            "[]",
            {"ids": ["t1"]},
            {"properties": []},
            {"ids": [1], "properties": []},
            {"ids": "t1", "properties": []},
            {"ids": ["t1"], "properties": [{"name": "x"}]},
            {"ids": ["t1"], "properties": [{"id": "alias", "settings": {"limit": "many"}}]},
            {"ids": ["t1"], "properties": [{"id": "alias", "settings": {"limit": {"most": 1}}}]},
            {"ids": ["t1"], "properties": [{"id": "alias", "settings": {"limit": [1]}}]},
        )
        for asked in wrong:
            answer = await harness.form(extend=asked)
            assert (answer.status_code, answer.json()["code"]) == (400, "unreadable"), asked
        for many in (
            {"ids": ["t1"] * (MOST_IDS + 1), "properties": []},
            {"ids": [], "properties": [{"id": "alias"}] * 1000},
        ):
            answer = await harness.form(extend=many)
            assert (answer.status_code, answer.json()["code"]) == (413, "too_many")


async def test_properties_are_proposed_by_type() -> None:
    async with served() as harness:

        async def proposed(**asked: str) -> list[str]:
            answer = await harness.get("/properties", **asked)
            said = check("data-extension-property-proposal", answer.json())
            assert said.get("type") == asked.get("type")
            return [each["id"] for each in said["properties"]]

        of_persons, of_all = await proposed(type="person"), await proposed()
        assert "birth_date" in of_persons
        assert "population" not in of_persons
        assert {"birth_date", "population", "alias"} <= set(of_all)
        assert await proposed(type="whatever") == of_all
        assert await proposed(type="person", limit="3") == of_persons[:3]
