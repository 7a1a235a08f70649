"""Makes the slice of general knowledge that ships, of the files beside this one.

python -m tools.knowledge_slice.make
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from rowmill_systems.entities.properties.catalogue import catalogue
from rowmill_systems.parts.names.folding import folded
from tools.knowledge_slice import places, rest
from tools.knowledge_slice.table import Entry

SLICE = Path(__file__).parents[2] / "systems/src/rowmill_systems/entities/kb/slice.jsonl"
SOURCES: tuple[Callable[[], Iterator[Entry]], ...] = (
    places.countries, places.states, places.cities, rest.people, rest.organisations, rest.works, rest.events,
    rest.others,
)  # fmt: skip
DBPEDIA = "http://dbpedia.org/resource/"


def made() -> str:
    """Return the file, best known things first."""
    entries = [entry for source in SOURCES for entry in source()]
    ids = {entry.title: id_of(entry.title) for entry in entries}
    assert len(ids) == len(entries), _twice([entry.title for entry in entries])
    assert len(set(ids.values())) == len(entries), _twice(list(ids.values()))
    _add_capitals(entries)
    entries.sort(key=lambda entry: (-entry.prominence, ids[entry.title]))
    return "".join(json.dumps(_line(entry, ids), ensure_ascii=False, separators=(",", ":")) + "\n" for entry in entries)


def id_of(title: str) -> str:
    return folded(title).replace(" ", "-")


def _add_capitals(entries: list[Entry]) -> None:
    by_title = {entry.title: entry for entry in entries}
    for entry in entries:
        for capital in entry.properties.get("capital", []):
            if capital in by_title and by_title[capital].is_city:
                by_title[capital].properties.setdefault("capital_of", []).append(entry.title)


def _line(entry: Entry, ids: dict[str, str]) -> dict[str, Any]:
    properties = {}
    for key, values in entry.properties.items():
        refers = catalogue()[key].kind == "thing"
        kept = [ids.get(value, value) if refers else value for value in values if value]
        if kept:
            properties[key] = kept
    line = {
        "id": ids[entry.title],
        "name": entry.name,
        "types": list(entry.types),
        "aliases": _aliases(entry),
        "description": entry.description,
        "prominence": entry.prominence,
        "properties": properties,
        "wikidata_id": entry.wikidata,
        "dbpedia_uri": DBPEDIA + entry.title.replace(" ", "_") if entry.in_dbpedia else "",
    }
    return {key: value for key, value in line.items() if value}


def _aliases(entry: Entry) -> list[str]:
    """Return aliases that are really different names."""
    seen = {entry.name}
    return [name for name in entry.aliases if name and not (name in seen or seen.add(name))]  # type: ignore[func-returns-value]


def _twice(texts: list[str]) -> list[str]:
    return sorted({text for text in texts if texts.count(text) > 1})


if __name__ == "__main__":
    SLICE.write_text(made(), "utf-8")
