"""Read DBpedia's RDF/JSON of a resource."""

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, Self
from urllib.parse import unquote

from rowmill_systems.entities.properties.catalogue import Property
from rowmill_systems.entities.sources.dates import read_date

RESOURCE, ONTOLOGY = "http://dbpedia.org/resource/", "http://dbpedia.org/ontology/"
SAME_AS = "http://www.w3.org/2002/07/owl#sameAs"
LAT, LON = (f"http://www.w3.org/2003/01/geo/wgs84_pos#{part}" for part in ("lat", "long"))
UNIT = re.compile(r"http://dbpedia\.org/datatype/(\w+)")
"""Of money: usDollar, euro, poundSterling."""
CURRENCIES = {"usDollar": "United States dollar", "japaneseYen": "Japanese yen", "swissFranc": "Swiss franc"}
"""Names of Wikidata, where they differ."""
SQUARE_METRES = 1_000_000
"""DBpedia has square metres, all others square kilometres."""


class Resource:
    """One subject of a document, without the others that it mentions."""

    def __init__(self, uri: str, said: Mapping[str, Any]) -> None:
        self.uri, self._said = uri, said

    @classmethod
    def of(cls, document: Mapping[str, Any], uri: str) -> Self | None:
        """Return the resource; None if the document does not describe it."""
        for subject, said in document.items():
            if unquote(subject) == unquote(uri) and said:
                return cls(subject, said)
        return None

    @property
    def moved_to(self) -> str | None:
        return next((str(each["value"]) for each in self._objects(f"{ONTOLOGY}wikiPageRedirects")), None)

    @property
    def wikidata_id(self) -> str | None:
        for each in self._objects(SAME_AS):
            if found := re.fullmatch(r"https?://(?:www\.)?wikidata\.org/(?:entity|wiki)/(Q\d+)", str(each["value"])):
                return found[1]
        return None

    def values(self, property: Property) -> tuple[Any, ...]:
        if property.kind == "place":
            return self._place()
        found: list[Any] = []
        for name in property.dbpedia:
            for each in self._objects(ONTOLOGY + name):
                value = _value(property, each)
                if value is not None and value not in found:
                    found.append(value)
            if found and not property.many:
                break
        return tuple(found) if property.many else tuple(_best(property, found))

    def _place(self) -> tuple[Any, ...]:
        lat, lon = (next((_number(each["value"]) for each in self._objects(part)), None) for part in (LAT, LON))
        return () if lat is None or lon is None else ({"lat": lat, "lon": lon},)

    def _objects(self, predicate: str) -> Iterator[Mapping[str, Any]]:
        """Yield the objects of a predicate that are in English or have no language."""
        given = self._said.get(predicate)
        for each in given if isinstance(given, list) else ():
            if isinstance(each, dict) and "value" in each and each.get("lang", "en") == "en":
                yield each


def _best(property: Property, found: list[Any]) -> list[Any]:
    """Return the one value of a property: the most precise date, otherwise the first."""
    return sorted(found, key=len, reverse=True)[:1] if property.kind == "date" else found[:1]


def _value(property: Property, given: Mapping[str, Any]) -> Any:
    """Return the value; None if it is of another kind."""
    value, is_uri = given["value"], given.get("type") == "uri"
    match property.kind:
        case "thing":
            return _thing(str(value)) if is_uri else str(value)
        case "date":
            return read_date(str(value))
        case "number":
            return _number(value)
        case "amount":
            return _amount(property, given)
        case "url" if not str(value).startswith(("http://", "https://")):
            return None
    return str(value)


def _thing(uri: str) -> dict[str, str] | None:
    """Return a thing. Names with two underscores are DBpedia's, for things without a page: careers, tenures."""
    name = uri.removeprefix(RESOURCE)
    return None if name == uri or "__" in name else {"id": uri, "label": unquote(name).replace("_", " ")}


def _amount(property: Property, given: Mapping[str, Any]) -> dict[str, Any] | None:
    amount, unit = _number(given["value"]), UNIT.fullmatch(str(given.get("datatype", "")))
    if amount is None:
        return None
    if property.key == "area":
        amount = amount / SQUARE_METRES
        return {"amount": int(amount) if amount == int(amount) else amount, "unit": "square kilometre"}
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", unit[1]).lower() if unit else ""
    return {"amount": amount, "unit": CURRENCIES.get(unit[1], words) if unit else ""}


def _number(value: Any) -> int | float | None:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    if not math.isfinite(number):
        return None
    return int(number) if number == int(number) else number
