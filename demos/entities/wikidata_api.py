"""The Action API of Wikidata, over the world: wbsearchentities, list=search, wbgetentities, with formatversion=2."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from demos.entities.index import Index
from rowmill_systems.entities.kb.thing import Thing
from rowmill_systems.entities.properties.catalogue import catalogue

MOST_IDS = 50
ID = re.compile(r"[QP][1-9]\d{0,9}")
UNITS = {"square kilometre": "Q712226"}


class WikidataApi:
    def __init__(self, index: Index) -> None:
        self.index, self.world = index, index.world
        self.redirects: dict[str, str] = {}
        self.deleted: set[str] = set()
        self.most_entities = MOST_IDS
        """Entities that fit in a reply. More are left out with a warning, like MediaWiki above 8 MB."""

    def answer(self, given: Mapping[str, str]) -> Any:
        match given.get("action"):
            case "wbsearchentities":
                return self._search_entities(given)
            case "query" if given.get("list") == "search":
                return self._search(given)
            case "wbgetentities":
                return self._entities(given)
        return error("badvalue", 'Unrecognized value for parameter "action".')

    def _search_entities(self, given: Mapping[str, str]) -> Any:
        if not given.get("search"):
            return error("missingparam", 'The "search" parameter must be set.')
        if not given.get("language"):
            return error("missingparam", 'The "language" parameter must be set.')
        found = self.index.beginning(given["search"], int(given.get("limit", "7")))
        hits = [
            {
                "id": each.id, "title": each.id, "pageid": int(each.id[1:]),
                "concepturi": f"http://www.wikidata.org/entity/{each.id}", "repository": "wikidata",
                "url": f"//www.wikidata.org/wiki/{each.id}", "label": each.name, "description": each.description,
                "display": {"label": {"value": each.name, "language": "en"}},
                "match": {"type": "label", "language": "en", "text": each.name},
            }
            for each in found
        ]  # fmt: skip
        return {"searchinfo": {"search": given["search"]}, "search": hits, "success": 1}

    def _search(self, given: Mapping[str, str]) -> Any:
        if not given.get("srsearch", "").strip():
            return error("missingparam", 'The "srsearch" parameter must be set.')
        if len(given["srsearch"]) > 300:
            return error("cirrussearch-query-too-long", "Search request is longer than the maximum allowed length.")
        found = self.index.with_words(given["srsearch"], int(given.get("srlimit", "10")))
        hits = [{"ns": 0, "title": each.id, "pageid": int(each.id[1:])} for each in found]
        return {"batchcomplete": True, "query": {"searchinfo": {"totalhits": len(hits)}, "search": hits}}

    def _entities(self, given: Mapping[str, str]) -> Any:
        ids = given.get("ids", "").split("|")
        if len(ids) > MOST_IDS:
            return error("toomanyvalues", 'Too many values supplied for parameter "ids". The limit is 50.')
        for id in ids:
            if not ID.fullmatch(id) or int(id[1:]) > 2**31 - 1:
                return error("no-such-entity", f'Could not find an entity with the ID "{id}".', id=id)
        props = given.get("props", "info|sitelinks|aliases|labels|descriptions|claims").split("|")
        languages = given.get("languages", "").split("|")
        entities = {id: self._entity(id, props, languages) for id in ids[: self.most_entities]}
        answer: dict[str, Any] = {"entities": entities, "success": 1}
        if len(ids) > len(entities):
            answer["warnings"] = {"result": {"warnings": "This result was truncated."}}
        return answer

    def _entity(self, id: str, props: list[str], languages: list[str]) -> Any:
        target = self.redirects.get(id, id)
        thing = self.world.things.get(target)
        if thing is None or target in self.deleted:
            return {"id": id, "missing": ""}
        found: dict[str, Any] = {"type": "item", "id": thing.id}
        if target != id:
            found["redirects"] = {"from": id, "to": target}
        # Names that are the same in all languages are kept under `mul`: every third item has no other.
        language = "mul" if int(thing.id[1:]) % 3 == 0 else "en"
        parts: dict[str, dict[str, Any]] = {
            "labels": {language: {"language": language, "value": thing.name}},
            "descriptions": {"en": {"language": "en", "value": thing.description}} if thing.description else {},
            "aliases": {language: [{"language": language, "value": name} for name in thing.aliases]},
        }
        for part, values in parts.items():
            if part in props:
                found[part] = {code: value for code, value in values.items() if code in languages}
        if "claims" in props:
            found["claims"] = claims_of(thing)
        if "sitelinks" in props:
            found["sitelinks"] = sitelinks_of(thing)
        return found


def error(code: str, info: str, **more: Any) -> Any:
    return {"error": {"code": code, "info": info, "docref": "See /w/api.php for API usage.", **more}}


def sitelinks_of(thing: Thing) -> dict[str, Any]:
    if thing.dbpedia_uri is None:
        return {}
    title = thing.dbpedia_uri.removeprefix("http://dbpedia.org/resource/").replace("_", " ")
    others = [f"{code}wiki" for code in ("de", "fr", "es", "it", "pt", "nl", "sv", "pl", "ru", "ja")]
    sites = ["enwiki", *others[: round(thing.prominence * 10)]]
    return {site: {"site": site, "title": title, "badges": []} for site in sites}


def claims_of(thing: Thing) -> dict[str, Any]:
    """Return claims, including difficult ones: deprecated values, unknown values, former values."""
    claims: dict[str, Any] = {}
    for key, values in thing.properties.items():
        known = catalogue()[key]
        if known.wikidata is None:
            continue
        made = [statement(known.wikidata, snak(known.wikidata, known.kind, value)) for value in values]
        claims[known.wikidata] = made
    number = int(thing.id[1:])
    if "P569" in claims and number % 4 == 0:
        wrong = statement("P569", snak("P569", "date", "1700"))
        claims["P569"].insert(0, wrong | {"rank": "deprecated"})
    if "P108" in claims and number % 5 == 0:
        claims["P108"].append(statement("P108", {"snaktype": "somevalue", "property": "P108"}))
    if "P1082" in claims:
        claims["P1082"].insert(0, dated(statement("P1082", snak("P1082", "number", 7)), "P585", "1950"))
        claims["P1082"][-1] = dated(claims["P1082"][-1], "P585", "2021")
    if "P159" in claims and number % 2 == 0:
        claims["P159"].insert(0, dated(statement("P159", snak("P159", "thing", {"id": "Q515"})), "P582", "1999"))
    return claims


def statement(property: str, mainsnak: Any) -> dict[str, Any]:
    return {"type": "statement", "id": f"{property}$0", "rank": "normal", "mainsnak": mainsnak}


def dated(claim: dict[str, Any], qualifier: str, when: str) -> dict[str, Any]:
    return claim | {"qualifiers": {qualifier: [snak(qualifier, "date", when)]}, "qualifiers-order": [qualifier]}


def snak(property: str, kind: str, value: Any) -> dict[str, Any]:
    datatype, type, given = DATATYPES[kind](value)
    return {
        "snaktype": "value", "property": property, "datatype": datatype, "datavalue": {"type": type, "value": given}
    }  # fmt: skip


def entity_value(id: str) -> Any:
    return {"entity-type": "item", "numeric-id": int(id[1:]), "id": id}


def amount_value(value: Any) -> Any:
    return {"amount": f"+{value['amount']}", "unit": f"http://www.wikidata.org/entity/{UNITS[value['unit']]}"}


def place_value(value: Any) -> Any:
    globe = "http://www.wikidata.org/entity/Q2"
    return {"latitude": value["lat"], "longitude": value["lon"], "altitude": None, "precision": 0.0001, "globe": globe}


def time_value(when: str) -> Any:
    """Return a time value. Unknown parts are zeros, and the precision says which."""
    parts = when.split("-")
    whole = "-".join([*parts, *["00"] * (3 - len(parts))])
    calendar = "http://www.wikidata.org/entity/Q1985727"
    return {
        "time": f"+{whole}T00:00:00Z", "timezone": 0, "before": 0, "after": 0, "precision": 8 + len(parts),
        "calendarmodel": calendar,
    }  # fmt: skip


DATATYPES: dict[str, Callable[[Any], tuple[str, str, Any]]] = {
    "date": lambda value: ("time", "time", time_value(value)),
    "thing": lambda value: ("wikibase-item", "wikibase-entityid", entity_value(value["id"])),
    "number": lambda value: ("quantity", "quantity", {"amount": f"+{value}", "unit": "1"}),
    "amount": lambda value: ("quantity", "quantity", amount_value(value)),
    "place": lambda value: ("globe-coordinate", "globecoordinate", place_value(value)),
    "url": lambda value: ("url", "string", value),
    "id": lambda value: ("external-id", "string", value),
    "text": lambda value: ("string", "string", value),
}
