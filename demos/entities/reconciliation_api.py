"""A service of the Reconciliation API 0.2 over the world."""

import json
from collections.abc import Mapping
from typing import Any

from demos.entities.index import Index, folded
from rowmill_systems.entities.kb.thing import Thing
from rowmill_systems.entities.properties.catalogue import catalogue, properties_of
from rowmill_systems.parts.names.types import EntityType

BATCH_SIZE = 20


class TooMany(Exception):
    """Too many queries in one batch: 413."""


class ReconciliationApi:
    def __init__(self, index: Index) -> None:
        self.index = index
        self.identifier_space = "http://world.example/thing/"
        self.extends = True

    def answer(self, given: Mapping[str, str], base: str) -> Any:
        if "queries" in given:
            queries = json.loads(given["queries"])
            if len(queries) > BATCH_SIZE:
                raise TooMany
            return {key: {"result": self._result(query)} for key, query in queries.items()}
        if "extend" in given:
            return self._extended(json.loads(given["extend"]))
        return self.manifest(base)

    def manifest(self, base: str) -> Any:
        found = {
            "versions": ["0.1", "0.2"], "name": "The world", "identifierSpace": self.identifier_space,
            "schemaSpace": "http://world.example/schema/", "batchSize": BATCH_SIZE,
            "defaultTypes": [{"id": each, "name": each.capitalize()} for each in EntityType],
            "view": {"url": "http://world.example/thing/{{id}}"},
        }  # fmt: skip
        if self.extends:
            proposals = {"service_url": base, "service_path": "/reconcile/propose_properties"}
            found["extend"] = {"propose_properties": proposals, "property_settings": []}
        return found

    def _result(self, query: Mapping[str, Any]) -> list[Any]:
        found = self.index.scored(str(query.get("query", "")), int(query.get("limit", 10)))
        exact = [each.id for _, each in found if folded(each.name) == folded(str(query.get("query", "")))]
        return [
            {
                "id": each.id, "name": each.name, "description": each.description, "score": score,
                "match": exact == [each.id], "type": [{"id": type, "name": type.capitalize()} for type in each.types],
                "features": [{"id": "prominence", "value": each.prominence}],
            }
            for score, each in found
        ]  # fmt: skip

    def propose(self, given: Mapping[str, str]) -> Any:
        type = EntityType(given["type"]) if given.get("type") in set(EntityType) else None
        found = [{"id": each.key, "name": each.label} for each in properties_of(type)]
        return {"type": given.get("type", ""), "properties": found}

    def _extended(self, query: Mapping[str, Any]) -> Any:
        keys = [each["id"] for each in query["properties"]]
        meta = [{"id": key, "name": catalogue()[key].label} for key in keys if key in catalogue()]
        rows = {
            id: {key: self._cells(self.index.world.things.get(id), key) for key in keys} for id in query["ids"]
        }  # fmt: skip
        return {"meta": meta, "rows": rows}

    def _cells(self, thing: Thing | None, key: str) -> list[Any]:
        values = thing.properties.get(key, ()) if thing else ()
        return [cell(catalogue()[key].kind, value) for value in values] or [{}]


def cell(kind: str, value: Any) -> Any:
    match kind:
        case "thing":
            return {"id": value["id"], "name": value["label"]}
        case "date":
            return {"date": value}
        case "number":
            return {"int": value}
        case "amount":
            return {"float": value["amount"]}
        case "place":
            return {"str": f"{value['lat']},{value['lon']}"}
    return {"str": str(value)}
