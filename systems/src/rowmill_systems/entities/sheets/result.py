"""What is known of the entity of a row, as cells and as JSON."""

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from rowmill_systems.entities.properties.catalogue import catalogue
from rowmill_systems.entities.properties.shown import shown
from rowmill_systems.entities.words import FAILED
from rowmill_systems.parts.values import harmless

COLUMNS = ("wikidata_id", "dbpedia_uri", "other_ids", "linking_label", "linking_confidence", "linking_source",
           "enrichment_status", "enrichment_note")  # fmt: skip
READ = ("id", "external_id", *COLUMNS, "enrichment_error", "enriched_properties")
PREFIX = "entity_"
SEPARATOR = "; "


def names(header: Sequence[str], keys: Sequence[str]) -> list[str]:
    """Return the names of the added columns. None of them repeats another name of the file."""
    found, taken = [], {name.strip() for name in header}
    for wanted in (*COLUMNS, *(f"{PREFIX}{key}" for key in keys)):
        name, number = wanted, 1
        while name in taken:
            number += 1
            name = f"{wanted}_{number}"
        taken.add(name)
        found.append(name)
    return found


def in_order(keys: set[str]) -> list[str]:
    """Properties as in the catalogue, and then others."""
    known = list(catalogue())
    return sorted(keys, key=lambda key: (known.index(key) if key in known else len(known), key))


def cells(entity: sa.RowMapping | None, note: str | None, keys: Sequence[str]) -> list[str]:
    """Return the added cells of a row: those of its entity, or the note that says why there is none."""
    found = known(entity, note)
    confidence = found["linking_confidence"]
    other_ids = SEPARATOR.join(f"{source}: {id}" for source, id in (found["other_ids"] or {}).items())
    plain = found | {
        "other_ids": other_ids,
        "linking_confidence": "" if confidence is None else f"{confidence:.4f}",
    }
    properties = found["properties"] or {}
    values = (SEPARATOR.join(shown(one["value"]) for one in properties.get(key, ())) for key in keys)
    return [harmless(text) for text in (*(plain[name] or "" for name in COLUMNS), *values)]


def known(entity: sa.RowMapping | None, note: str | None) -> dict[str, Any]:
    """Return what `cells` shows with its types, for JSON."""
    if entity is None:
        return dict.fromkeys(("id", *COLUMNS, "properties")) | {"enrichment_note": note}
    why = entity["enrichment_error"] if entity["enrichment_status"] == FAILED else entity["enrichment_note"]
    return {
        "id": str(entity["id"]),
        **{name: entity[name] for name in COLUMNS},
        "enrichment_note": why,
        "properties": entity["enriched_properties"],
    }
