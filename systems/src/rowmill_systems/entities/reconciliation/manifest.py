"""The manifest of the service: its name, its types and its endpoints."""

from typing import Any

import rowmill as rm
from rowmill_systems.entities.kb.thing import ThingIndex
from rowmill_systems.entities.reconciliation import vocabulary
from rowmill_systems.entities.reconciliation.queries import MOST_QUERIES
from rowmill_systems.parts.names.types import EntityType

SCHEMA_SPACE = "https://schema.org/Thing"
PREVIEW_WIDTH, PREVIEW_HEIGHT = 420, 180


def manifest(kb: ThingIndex, url: str) -> dict[str, Any]:
    """`url`: where this service is, as the client calls it."""

    def suggesting(what: str) -> dict[str, str]:
        return {
            "service_url": url,
            "service_path": f"/suggest/{what}",
            "flyout_service_path": f"/flyout/{what}?id=${{id}}",
        }

    return {
        "versions": ["0.2"],
        "name": kb.title,
        "identifierSpace": f"{url}/view?id=",
        "schemaSpace": SCHEMA_SPACE,
        "serviceVersion": rm.__version__,
        "defaultTypes": vocabulary.types_of(set(EntityType) - {EntityType.OTHER}),
        "view": {"url": f"{url}/view?id={{{{id}}}}"},
        "preview": {"url": f"{url}/preview?id={{{{id}}}}", "width": PREVIEW_WIDTH, "height": PREVIEW_HEIGHT},
        "suggest": {what: suggesting(what) for what in ("entity", "type", "property")},
        "extend": {
            "propose_properties": {"service_url": url, "service_path": "/properties"},
            "property_settings": [
                {
                    "name": "limit",
                    "label": "Limit",
                    "type": "number",
                    "default": 0,
                    "help_text": "Values of one thing at the most; 0: all of them",
                }
            ],
        },
        "batchSize": MOST_QUERIES,
    }
