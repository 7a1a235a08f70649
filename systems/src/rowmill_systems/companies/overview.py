"""How the system stands: the queue, names to decide, names by rung."""

from collections import Counter
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from rowmill_systems.companies.lookup_queue import LookupQueue
from rowmill_systems.companies.reads import RungDay, count_open_reviews, rung_days

if TYPE_CHECKING:
    from rowmill_systems.companies.companies import Companies

MOST_REVIEWS = 10_000
"""Open reviews are counted up to here."""


@dataclass(frozen=True, slots=True)
class RungTotal:
    """How many names a rung of the ladder answered."""

    rung: str
    today: int
    names: int


@dataclass(frozen=True, slots=True)
class Overview:
    """The state of the system."""

    pending: int
    processing: int
    done: int
    failed: int
    exact: bool
    """False: the table is big, and the numbers of finished requests are estimates."""
    backlog_high: bool
    open_reviews: int
    by_rung: tuple[RungTotal, ...]
    """The busiest first."""
    days: tuple[RungDay, ...]
    """The oldest first."""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def read_overview(connection: sa.Connection, companies: "Companies", *, days: int) -> Overview:
    """Read how the system stands, and the names of the last days by rung."""
    stats = LookupQueue(connection).get_queue_stats()
    found = rung_days(connection, days)
    totals: Counter[str] = Counter()
    for day in found:
        totals.update(day.names)
    return Overview(
        pending=stats.pending,
        processing=stats.processing,
        done=stats.done,
        failed=stats.failed,
        exact=stats.exact,
        backlog_high=stats.pending > companies.settings.enrichment_queue_warning_threshold,
        open_reviews=count_open_reviews(connection, companies.tables, MOST_REVIEWS),
        by_rung=tuple(
            RungTotal(rung, found[-1].names.get(rung, 0) if found else 0, names) for rung, names in totals.most_common()
        ),
        days=tuple(found),
    )
