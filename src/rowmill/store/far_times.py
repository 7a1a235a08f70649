"""Times of PostgreSQL that Python's calendar does not have, read as its first or last moment.

asyncpg reads `infinity` so, and fails on the year 20000, or on one before Christ: one such row would keep a whole list
from being shown. A handler gets no such value: a row that the driver can't read is dead when it is claimed.
"""

from datetime import UTC, date, datetime, timedelta
from typing import Any

EPOCH = datetime(2000, 1, 1)
"""Where PostgreSQL begins to count."""
ENDLESS = 2**63 - 1
ENDLESS_DATE = 2**31 - 1
MICROSECOND = timedelta(microseconds=1)
FIRST, LAST = (datetime.min - EPOCH) // MICROSECOND, (datetime.max - EPOCH) // MICROSECOND


def read_timestamp(given: tuple[int]) -> datetime:
    return EPOCH + min(max(given[0], FIRST), LAST) * MICROSECOND


def write_timestamp(value: datetime) -> tuple[int]:
    number = (value - EPOCH) // MICROSECOND
    return (ENDLESS if number == LAST else -ENDLESS - 1 if number == FIRST else number,)


def read_timestamptz(given: tuple[int]) -> datetime:
    return read_timestamp(given).replace(tzinfo=UTC)


def write_timestamptz(value: datetime) -> tuple[int]:
    """A time without a zone is in that of this machine, as asyncpg has it."""
    return write_timestamp(value.astimezone(UTC).replace(tzinfo=None))


def read_date(given: tuple[int]) -> date:
    return read_timestamp((given[0] * 86_400_000_000,)).date()


def write_date(value: date) -> tuple[int]:
    days = (value - EPOCH.date()).days
    return (ENDLESS_DATE if value == date.max else -ENDLESS_DATE - 1 if value == date.min else days,)


READERS = {
    "timestamp": (write_timestamp, read_timestamp),
    "timestamptz": (write_timestamptz, read_timestamptz),
    "date": (write_date, read_date),
}


async def read_far_times(connection: Any) -> None:
    """Teach a connection of asyncpg."""
    for name, (encoder, decoder) in READERS.items():
        await connection.set_type_codec(name, schema="pg_catalog", encoder=encoder, decoder=decoder, format="tuple")
