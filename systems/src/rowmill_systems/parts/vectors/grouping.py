"""Put together what a store knows of a document."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import groupby
from uuid import UUID

from rowmill_systems.parts.vectors.port import DocumentPoints, Placed

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class PointGroup:
    """Points of a document in one place."""

    document: UUID
    placed: Placed
    count: int
    at: datetime
    """Of the newest."""


def documents_of(groups: Iterable[PointGroup]) -> Iterator[DocumentPoints]:
    """Yield documents, for groups that come sorted by document."""
    for document, found in groupby(groups, key=lambda group: group.document):
        counts: dict[Placed, int] = {}
        newest = EPOCH
        for group in found:
            counts[group.placed] = counts.get(group.placed, 0) + group.count
            newest = max(newest, group.at)
        yield DocumentPoints(document, counts, newest)


def time_of(microseconds: int) -> datetime:
    return EPOCH + microseconds * MICROSECOND
