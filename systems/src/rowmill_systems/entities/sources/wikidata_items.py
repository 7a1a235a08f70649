"""Reduce an item of Wikidata, a megabyte or two, to what we use."""

from collections.abc import Mapping, Sequence
from typing import Any

from rowmill_systems.entities.properties.catalogue import catalogue

Item = dict[str, Any]
"""id; labels, descriptions and aliases by language; claims by property; sites: how many write of it; page: its title in
the English Wikipedia."""
MISSING: Item = {"missing": True}
"""An item that was deleted, or never existed."""

END, AT = "P582", "P585"
"""End time, point in time."""


def item_of(entity: Mapping[str, Any], languages: Sequence[str]) -> Item:
    """Return the parts of an item that we use. An item that was merged into another has the id of that one: the service
    resolves redirects."""
    if "missing" in entity or not isinstance(entity.get("id"), str):
        return MISSING
    sites = _objects(entity, "sitelinks")
    page = _objects(sites, "enwiki").get("title")
    return {
        "id": entity["id"],
        "labels": _texts(_objects(entity, "labels"), languages),
        "descriptions": _texts(_objects(entity, "descriptions"), languages),
        "aliases": {
            language: [text for alias in given if (text := _text(alias))]
            for language, given in _objects(entity, "aliases").items()
            if language in languages and isinstance(given, list)
        },
        "claims": _claims(_objects(entity, "claims")),
        "sites": len(sites),
        "page": page if isinstance(page, str) else None,
    }


def label_of(texts: Mapping[str, str], languages: Sequence[str]) -> str:
    return next((texts[language] for language in languages if language in texts), "")


def _claims(given: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Return the claims of our properties, without those that are deprecated or have no value."""
    wanted = {each.wikidata for each in catalogue().values()}
    found: dict[str, list[Any]] = {}
    for property, statements in given.items():
        if property in wanted and isinstance(statements, list):
            kept = [claim for each in statements if isinstance(each, dict) and (claim := _claim(each))]
            if kept:
                found[property] = kept
    return found


def _claim(statement: Mapping[str, Any]) -> dict[str, Any] | None:
    snak = _objects(statement, "mainsnak")
    value = snak.get("datavalue")
    if statement.get("rank") == "deprecated" or snak.get("snaktype") != "value" or not isinstance(value, dict):
        return None
    qualifiers = _objects(statement, "qualifiers")
    return {
        "preferred": statement.get("rank") == "preferred",
        "type": snak.get("datatype") or value.get("type"),
        "value": value.get("value"),
        "ended": bool(qualifiers.get(END)),
        "at": _moment(qualifiers.get(AT)),
    }


def _moment(snaks: Any) -> str:
    """Fit for comparing, for years after Christ. Empty: it does not say."""
    for snak in snaks if isinstance(snaks, list) else ():
        value = _objects(_objects(snak, "datavalue"), "value") if isinstance(snak, dict) else {}
        if str(value.get("time", "")).startswith("+"):
            return str(value["time"])[1:].rjust(25, "0")
    return ""


def _objects(entity: Mapping[str, Any], part: str) -> Mapping[str, Any]:
    """PHP writes an empty object as an empty list."""
    given = entity.get(part)
    return given if isinstance(given, dict) else {}


def _texts(given: Mapping[str, Any], languages: Sequence[str]) -> dict[str, str]:
    return {language: text for language in languages if (text := _text(given.get(language)))}


def _text(given: Any) -> str:
    value = given.get("value") if isinstance(given, dict) else None
    return value if isinstance(value, str) else ""
