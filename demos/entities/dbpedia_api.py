"""DBpedia over the world: Lookup, Spotlight's candidates and annotate, and resources as RDF in JSON."""

import re
from collections.abc import Mapping
from typing import Any

from demos.entities.index import Index, folded
from rowmill_systems.entities.kb.thing import Thing
from rowmill_systems.entities.properties.catalogue import catalogue
from rowmill_systems.parts.names.types import EntityType

RESOURCE, ONTOLOGY = "http://dbpedia.org/resource/", "http://dbpedia.org/ontology/"
XSD = "http://www.w3.org/2001/XMLSchema#"
TYPES = {
    EntityType.PERSON: "Person", EntityType.ORGANISATION: "Organisation", EntityType.PLACE: "Place",
    EntityType.WORK: "Work", EntityType.EVENT: "Event",
}  # fmt: skip


class DbpediaApi:
    def __init__(self, index: Index) -> None:
        self.index = index

    def lookup(self, given: Mapping[str, str]) -> Any:
        """Reply to a lookup. The search text is in bold."""
        found = self.index.scored(given.get("query", ""), int(given.get("maxResults", "10")))
        return {"docs": [self._doc(each, score, given.get("query", "")) for score, each in found if each.dbpedia_uri]}

    def _doc(self, thing: Thing, score: float, query: str) -> Any:
        types = [TYPES[each] for each in thing.types if each in TYPES]
        return {
            "score": [str(score)], "refCount": [str(round(thing.prominence * 5000))],
            "resource": [thing.dbpedia_uri], "label": [bold(thing.name, query)],
            "redirectlabel": [bold(name, query) for name in thing.aliases], "typeName": types,
            "type": [ONTOLOGY + name for name in types] + ["http://www.w3.org/2002/07/owl#Thing"],
            "comment": [bold(thing.description, query)],
        }  # fmt: skip

    def candidates(self, given: Mapping[str, str]) -> Any:
        """Return candidates. As in the real service, single values are not lists, and numbers are texts."""
        text = given.get("text", "")
        forms = []
        for name, place, things in self._spotted(text):
            resources = [self._resource(each, 1 / (1 + rank)) for rank, each in enumerate(things)]
            form = {"@name": name, "@offset": str(place)}
            forms.append(form | {"resource": resources[0] if len(resources) == 1 else resources})
        annotation: dict[str, Any] = {"@text": text}
        if forms:
            annotation["surfaceForm"] = forms[0] if len(forms) == 1 else forms
        return {"annotation": annotation}

    def _resource(self, thing: Thing, score: float) -> Any:
        types = ", ".join(f"DBpedia:{TYPES[each]}" for each in thing.types if each in TYPES)
        return {
            "@label": thing.name, "@uri": str(thing.dbpedia_uri).removeprefix(RESOURCE),
            "@contextualScore": str(score), "@percentageOfSecondRank": "0.1",
            "@support": str(round(thing.prominence * 5000)), "@priorScore": "1e-5", "@finalScore": str(score),
            "@types": types,
        }  # fmt: skip

    def annotate(self, given: Mapping[str, str]) -> Any:
        text = given.get("text", "")
        resources = [
            {
                "@URI": things[0].dbpedia_uri, "@support": str(round(things[0].prominence * 5000)),
                "@types": ",".join(f"DBpedia:{TYPES[each]}" for each in things[0].types if each in TYPES),
                "@surfaceForm": name, "@offset": str(place), "@similarityScore": "0.99",
                "@percentageOfSecondRank": "0.01",
            }
            for name, place, things in self._spotted(text)
        ]  # fmt: skip
        answer = {"@text": text, "@confidence": given.get("confidence", "0.5"), "@policy": "whitelist"}
        return answer | ({"Resources": resources} if resources else {})

    def _spotted(self, text: str) -> list[tuple[str, int, list[Thing]]]:
        """Find whole names in the text, the longest first where they overlap."""
        words = [(found.start(), found.end()) for found in re.finditer(r"\w+", text)]
        spotted, after = [], 0
        for first, (start, _) in enumerate(words):
            if start < after:
                continue
            for _, end in reversed(words[first : first + 5]):
                named = [each for each in self.index.with_words(text[start:end], 5) if each.dbpedia_uri]
                named = [each for each in named if folded(text[start:end]) in map(folded, (each.name, *each.aliases))]
                if named:
                    spotted.append((text[start:end], start, named))
                    after = end
                    break
        return spotted

    def data(self, page: str) -> Any | None:
        """Return a resource; None if there is no such page."""
        thing = self.index.pages.get(page)
        if thing is None:
            return None
        said: dict[str, Any] = {
            "http://www.w3.org/2000/01/rdf-schema#label": [literal(thing.name, lang="en"), literal("?", lang="ja")],
            "http://www.w3.org/2002/07/owl#sameAs": [uri(f"http://www.wikidata.org/entity/{thing.id}")],
            "http://www.w3.org/1999/02/22-rdf-syntax-ns#type": [
                uri(ONTOLOGY + TYPES[each]) for each in thing.types if each in TYPES
            ],
        }
        for key, values in thing.properties.items():
            if names := catalogue()[key].dbpedia:
                said[ONTOLOGY + names[0]] = [self._object(catalogue()[key].kind, value) for value in values]
            elif key == "coordinates":
                geo = "http://www.w3.org/2003/01/geo/wgs84_pos#"
                said[f"{geo}lat"] = [literal(values[0]["lat"], f"{XSD}float")]
                said[f"{geo}long"] = [literal(values[0]["lon"], f"{XSD}float")]
        # What links to it is in there as well.
        elsewhere = {f"{RESOURCE}Elsewhere": {f"{ONTOLOGY}wikiPageWikiLink": [uri(RESOURCE + page)]}}
        return {RESOURCE + page: said} | elsewhere

    def _object(self, kind: str, value: Any) -> Any:
        match kind:
            case "thing":
                target = self.index.world.things[value["id"]].dbpedia_uri
                return uri(target) if target else literal(value["label"], lang="en")
            case "date":
                return literal(value, XSD + {10: "date", 7: "gYearMonth", 4: "gYear"}[len(value)])
            case "number":
                return literal(value, f"{XSD}nonNegativeInteger")
            case "amount":  # the ontology measures in square metres
                return literal(value["amount"] * 1_000_000, f"{XSD}double")
            case "url":
                return uri(value)
        return literal(value)


def bold(text: str, query: str) -> str:
    words = [re.escape(word) for word in re.findall(r"\w+", query)]
    return re.sub(f"(?i)\\b({'|'.join(words)})\\b", r"<B>\1</B>", text) if words else text


def uri(value: str) -> Any:
    return {"type": "uri", "value": value}


def literal(value: Any, datatype: str | None = None, lang: str | None = None) -> Any:
    found = {"type": "literal", "value": value}
    return found | ({"datatype": datatype} if datatype else {}) | ({"lang": lang} if lang else {})
