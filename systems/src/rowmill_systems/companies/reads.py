"""What pages and commands read. No statement here grows with the table of requests."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta

import sqlalchemy as sa

from rowmill_systems.companies.index_plans import index_plans
from rowmill_systems.companies.models import CompaniesTables
from rowmill_systems.companies.resolver import rung_counts

LONGEST_NAME = 2000
"""Characters of a name that a page shows."""


@dataclass(frozen=True, slots=True)
class RungDay:
    """How many names each rung of the ladder answered on a day."""

    day: date
    names: dict[str, int]

    @property
    def total(self) -> int:
        return sum(self.names.values())


@dataclass(frozen=True, slots=True)
class RequestPage:
    """Requests, the newest first, and the id after which the next page begins."""

    rows: Sequence[sa.RowMapping]
    next: int | None


def rung_days(connection: sa.Connection, days: int) -> list[RungDay]:
    """Return the last days, the oldest first; a day without names has none."""
    [today] = connection.execute(sa.select(sa.func.current_date())).one()  # as the counts: not the day of this machine
    first = today - timedelta(days=days - 1)
    found = {first + timedelta(days=n): RungDay(first + timedelta(days=n), {}) for n in range(days)}
    for day, rung, names in rung_counts(connection, since=first):
        if day in found:
            found[day].names[rung] = names
    return list(found.values())


# served by: the primary key, or ix_enrichment_requests_status_id with a status
def request_page(
    connection: sa.Connection, tables: CompaniesTables, *, status: str = "", after: int | None = None, limit: int = 50
) -> RequestPage:
    """Return a page of requests, the newest first."""
    c = tables.requests.c
    wanted = _shown(tables).limit(limit + 1)
    if status:
        # Not `status = …`: PostgreSQL would then take the order of the primary key for good enough, and read the whole
        # table backwards for a status that only old requests have.
        only: sa.ColumnElement[str] = sa.literal_column(f"'{_known(status)}'")
        wanted = wanted.where(c.status >= only, c.status <= only).order_by(c.status.desc(), c.id.desc())
        if after is not None:
            wanted = wanted.where(sa.tuple_(c.status, c.id) < sa.tuple_(only, sa.literal(after, sa.BigInteger)))
    else:
        wanted = wanted.order_by(c.id.desc())
        if after is not None:
            wanted = wanted.where(c.id < after)
    with index_plans(connection):
        rows = connection.execute(wanted).mappings().all()
    return RequestPage(rows[:limit], rows[limit - 1]["id"] if len(rows) > limit else None)


# served by: ix_enrichment_requests_name, ix_enrichment_requests_temp_id
def requests_of(
    connection: sa.Connection, tables: CompaniesTables, *, normalized_name: str, temp_id: str, limit: int = 50
) -> Sequence[sa.RowMapping]:
    """Return the requests of a name or of a temporary id, the newest first."""
    c = tables.requests.c
    # In two steps: asked for the newest of a name at once, both databases read all requests, from the newest on.
    same = sa.union(
        sa.select(c.id).where(c.normalized_name == normalized_name), sa.select(c.id).where(c.temp_id == temp_id)
    )
    newest = sorted(connection.scalars(same), reverse=True)[:limit]
    found = {row["id"]: row for row in connection.execute(_shown(tables).where(c.id.in_(newest))).mappings()}
    return [found[key] for key in newest if key in found]


def one_request(connection: sa.Connection, tables: CompaniesTables, request_id: int) -> sa.RowMapping | None:
    """Return a request, or None if there is none with this id."""
    wanted = _shown(tables).where(tables.requests.c.id == request_id)
    return connection.execute(wanted).mappings().one_or_none()


def target_list(connection: sa.Connection, tables: CompaniesTables) -> Sequence[sa.RowMapping]:
    """Return the registered target tables."""
    return connection.execute(sa.select(tables.targets).order_by(tables.targets.c.id)).mappings().all()


def count_open_reviews(connection: sa.Connection, tables: CompaniesTables, most: int) -> int:
    """Count the names that a person has to decide, up to `most`."""
    reviews = tables.reviews
    some = sa.select(reviews.c.id).where(reviews.c.state == sa.literal_column("'open'")).limit(most).subquery()
    return int(connection.scalar(sa.select(sa.func.count()).select_from(some)) or 0)


def _shown(tables: CompaniesTables) -> "sa.Select[tuple[object, ...]]":
    c = tables.requests.c
    return sa.select(
        c.id, sa.func.substr(c.raw_name, 1, LONGEST_NAME).label("raw_name"), c.temp_id, c.status, c.attempts,
        c.next_retry_at, c.last_error, c.resolved_company_id, c.resolved_by, c.outcome, c.confidence, c.created_at,
        c.updated_at, c.finished_at,
    )  # fmt: skip


def _known(status: str) -> str:
    """Return a status that may stand in a statement as a literal."""
    if status not in STATUSES:
        raise ValueError(f"there is no status {status!r}")
    return status


STATUSES = ("pending", "processing", "done", "failed")
