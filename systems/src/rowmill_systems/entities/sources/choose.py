"""Open the sources that the settings name, the most trusted first."""

from collections.abc import Sequence

import rowmill as rm
from rowmill_systems.entities.kb.thing import ThingIndex
from rowmill_systems.entities.settings import EntitiesSettings
from rowmill_systems.entities.sources.dbpedia import DbpediaSource
from rowmill_systems.entities.sources.embedded import EmbeddedSource
from rowmill_systems.entities.sources.port import Source
from rowmill_systems.entities.sources.reconciliation import ReconciliationSource
from rowmill_systems.entities.sources.wikidata import WikidataSource
from rowmill_systems.parts.services.open import HttpServices


def names_of(settings: EntitiesSettings) -> list[str]:
    names = list(dict.fromkeys(name.strip() for name in settings.sources.split(",") if name.strip()))
    known = ["embedded", "wikidata", "dbpedia", *settings.reconciliation]
    problems = [f"there is no source {name}. There are: {', '.join(known)}" for name in names if name not in known]
    if not names:
        problems = [f"name at least one source. There are: {', '.join(known)}"]
    if problems:
        raise rm.errors.DeclarationError("entities", problems, kind="settings of")
    return names


def open_sources(settings: EntitiesSettings, services: HttpServices, knowledge_base: ThingIndex) -> Sequence[Source]:
    def opened(name: str) -> Source:
        match name:
            case "embedded":
                return EmbeddedSource(knowledge_base)
            case "wikidata":
                return WikidataSource(services["wikidata"], settings.language)
            case "dbpedia":
                spotlight = services["dbpedia-spotlight"] if settings.dbpedia_spotlight_url else None
                return DbpediaSource(services["dbpedia-lookup"], spotlight, services["dbpedia-data"])
        return ReconciliationSource(name, services[name])

    return [opened(name) for name in names_of(settings)]
