"""Reads waits in any form: seconds, a timedelta, a datetime, or the text of a Retry-After header."""

import math
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any, SupportsFloat

Wait = SupportsFloat | timedelta | datetime | str
"""Seconds, a `timedelta`, a `datetime` with a zone, or the text of a Retry-After header."""
FORMS = "seconds, a timedelta, a datetime with a time zone, or the text of a Retry-After header"


def seconds_to_wait(given: Any, name: str) -> float | None:
    """Return the seconds from now, never negative; None for None and NaN. Raises TypeError or ValueError that names the
    argument and the accepted forms."""
    match given:
        case None:
            return None
        case timedelta():
            found = given.total_seconds()
        case datetime():
            if given.tzinfo is None:
                raise ValueError(f"{name} is a datetime without a time zone. Give {FORMS}")
            found = (given - datetime.now(UTC)).total_seconds()
        case str():
            found = _seconds_in(given, name)
        case SupportsFloat():
            try:
                found = float(given)
            except OverflowError:
                found = math.inf
        case _:
            raise TypeError(f"{name} is of type {type(given).__name__}. Give {FORMS}")
    return None if math.isnan(found) else max(found, 0.0)


def _seconds_in(text: str, name: str) -> float:
    """Return the seconds in a text: a number, or a date as HTTP or ISO 8601 writes it. A date without a zone is in
    UTC."""
    with suppress(ValueError):
        number = float(text)
        if math.isfinite(number):
            return number
    for read in (parsedate_to_datetime, datetime.fromisoformat):
        with suppress(ValueError, OverflowError):
            until = read(text.strip())
            return (until if until.tzinfo else until.replace(tzinfo=UTC)).timestamp() - datetime.now(UTC).timestamp()
    raise ValueError(f"{name} is a text that is neither a number of seconds nor a date. Give {FORMS}")
