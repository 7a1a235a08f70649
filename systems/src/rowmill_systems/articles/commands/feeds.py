"""What `rowmill systems articles feeds` and `stats` show."""

from typing import Any

import sqlalchemy as sa

from rowmill.systems.commands import table
from rowmill_systems.articles import reads
from rowmill_systems.articles.health import health_of, per_day
from rowmill_systems.parts.clock import database_time
from rowmill_systems.parts.database import in_utc

PAGE = 500
TIMES = ("last_sync_at", "last_success_at", "last_new_at", "next_sync_at")


def read_feeds(connection: sa.Connection, *, failing: bool, most: int) -> list[dict[str, Any]]:
    """Return sources with their health, in the order of their addresses, at most `most`."""
    found: list[dict[str, Any]] = []
    now, after = database_time(connection), ""
    while len(found) < most:
        page = reads.source_page(connection, failing=failing, after=after, limit=PAGE, now=now)
        for row in page.rows:
            health = health_of(row, now)
            times = {name: None if row[name] is None else in_utc(row[name]).isoformat() for name in TIMES}
            found.append(
                {
                    "id": str(row["id"]), "url": row["url"], "title": row["title"], "state": row["status"],
                    "health": health.health.value, "reason": health.reason, "failures": row["failures"],
                    "last_code": row["last_code"], "last_status": row["last_status"], **times,
                    "articles_per_day": round(row["recent"] / reads.DAYS, 2), "recent": row["recent"],
                    "topics": row["granular_topics"],
                }
            )  # fmt: skip
        if page.next is None:
            break
        after = page.next
    return found


def show_feeds(found: list[dict[str, Any]]) -> None:
    rows = [
        (each["title"] or each["url"], each["health"], per_day(each["recent"], reads.DAYS), each["last_success_at"],
         each["reason"])
        for each in found
    ]  # fmt: skip
    table(("source", "health", "articles", "last success", "why"), rows)


def read_numbers(connection: sa.Connection) -> tuple[dict[str, int], float | None]:
    """Return sources by state, and for how many seconds the oldest article waits for its topics."""
    return reads.source_states(connection), reads.oldest_pending(connection, database_time(connection))
