"""The site, and the filters that its templates use for statuses, values and links."""

import re
from collections.abc import Mapping
from typing import Any

from rowmill.web.site import NavLink, Site
from rowmill_systems.entities.kb.values import fits, from_cell
from rowmill_systems.entities.properties.catalogue import Kind, catalogue
from rowmill_systems.entities.properties.shown import shown
from rowmill_systems.entities.words import COMPLETE, FAILED, IN_PROGRESS

WIKIDATA = re.compile(r"Q[1-9][0-9]{0,18}")
DBPEDIA = re.compile(r"https?://(?:[a-z-]{2,12}\.)?dbpedia\.org/(?:resource|page)/[^\s\"<>\\^`{|}]+")
"""What is a link, whoever wrote it: an address of another kind stays text."""
WHY = {
    "off": "It refused us, or somebody turned it off. No call is made",
    "parked": "It asked us to wait. No call is made",
    "open": "It is taken to be down. The next call is let through; none",
    "rate": "So many calls were made that the next ones wait for their turn",
    "slots": "So many calls are under way that the next ones wait for their turn",
}
EXAMPLES: dict[Kind, str] = {
    "date": "1815-12-10", "number": "12.5", "amount": "12.5 km2", "place": "52.5, 13.4", "url": "https://…",
}  # fmt: skip


def tone_of(status: str) -> str:
    """Return the colour of a status chip."""
    if status in (COMPLETE, FAILED):
        return "good" if status == COMPLETE else "bad"
    if status in IN_PROGRESS:
        return "busy"
    return "wait" if status.endswith("_FAILED") else "info"


def words_of(status: str) -> str:
    """Return a status in words, such as "link failed"."""
    return status.replace("_", " ").lower()


def label_of(key: str) -> str:
    return catalogue()[key].label if key in catalogue() else key


def shape_of(key: str) -> str:
    """Return an example of a value of this property."""
    return EXAMPLES.get(catalogue()[key].kind, "another value") if key in catalogue() else "another value"


def value_from(key: str, text: str) -> Any:
    """Parse what a person wrote for a property. Raises ValueError that says what is expected."""
    property = catalogue().get(key)
    value = text.strip() if property is None else next(iter(from_cell(text, property)), "")
    if property is not None and not fits(value, property.kind):
        example = EXAMPLES.get(property.kind)
        raise ValueError(f"{property.label} has to look like this: {example}" if example else "write a value")
    return value


def wikidata_url(id: str) -> str | None:
    return f"https://www.wikidata.org/wiki/{id}" if WIKIDATA.fullmatch(id) else None


def dbpedia_url(uri: str) -> str | None:
    return uri if DBPEDIA.fullmatch(uri) else None


def detail_of(detail: Mapping[str, Any]) -> str:
    """Describe a change in one line."""
    return " · ".join(f"{name}: {shown(value)}" for name, value in detail.items() if value not in (None, "", [], {}))


site = Site(
    "Entities",
    __package__,
    pages=[
        NavLink("Pipeline", "/"),
        NavLink("Entities", "/browse"),
        NavLink("Conflicts", "/review-conflicts"),
        NavLink("API", "/docs"),
    ],
    value=shown,
    status_tone=tone_of,
    words=words_of,
    label=label_of,
    shape=shape_of,
    wikidata=wikidata_url,
    dbpedia=dbpedia_url,
    detail=detail_of,
    why=lambda why: WHY.get(why, "Calls wait"),
)
