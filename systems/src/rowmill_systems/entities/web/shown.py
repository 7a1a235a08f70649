"""What pages say, and how: statuses, times, addresses, why a service is not asked."""

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from rowmill.web.pages import Pages
from rowmill_systems.entities.kb.values import fits, from_cell
from rowmill_systems.entities.properties.catalogue import Kind, catalogue
from rowmill_systems.entities.properties.shown import shown
from rowmill_systems.entities.words import COMPLETE, FAILED, IN_PROGRESS
from rowmill_systems.parts.fields import with_zone

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


def kind_of(status: str) -> str:
    """Of a status, for its colour."""
    if status in (COMPLETE, FAILED):
        return status.lower()
    if status in IN_PROGRESS:
        return "running"
    return "waiting" if status.endswith("_FAILED") else "ready"


def moment(when: datetime) -> str:
    return with_zone(when).strftime("%Y-%m-%d %H:%M:%S %Z")


def label_of(key: str) -> str:
    return catalogue()[key].label if key in catalogue() else key


def shape_of(key: str) -> str:
    """What a value of this property looks like."""
    return EXAMPLES.get(catalogue()[key].kind, "another value") if key in catalogue() else "another value"


def value_from(key: str, text: str) -> Any:
    """What somebody wrote for a property, as a fact has it; ValueError says what it has to be."""
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
    """What a change is about, in one line."""
    return " · ".join(f"{name}: {shown(value)}" for name, value in detail.items() if value not in (None, "", [], {}))


def with_query(path: str, **values: object) -> str:
    given = {name: value for name, value in values.items() if value is not None and value != ""}
    return f"{path}?{urlencode(given)}" if given else path


def part_of(path: str) -> str:
    """The address of what the script puts in the place of what is there."""
    return f"{path}{'&' if '?' in path else '?'}part=1"


pages = Pages(
    __package__,
    value=shown,
    kind=kind_of,
    moment=moment,
    label=label_of,
    shape=shape_of,
    wikidata=wikidata_url,
    dbpedia=dbpedia_url,
    detail=detail_of,
    why=lambda why: WHY.get(why, "Calls wait"),
    part=part_of,
    **{"with": with_query},
)
