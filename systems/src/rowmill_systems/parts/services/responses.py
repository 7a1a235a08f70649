"""What other servers answer over HTTP."""

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import httpx2

WAIT, LONGEST_WAIT = 60.0, 3600.0
TOO_MANY = 429


async def all_of(response: httpx2.Response, most: int) -> bytes | None:
    """Its body, or None if there are more than so many bytes: a server that does not stop is not read to the end."""
    content = bytearray()
    async for chunk in response.aiter_bytes():
        content += chunk
        if len(content) > most:
            return None
    return bytes(content)


def retry_after(headers: httpx2.Headers) -> float:
    """Seconds, or a date by the server's own clock."""
    given = headers.get("retry-after", "").strip()
    seconds = WAIT
    try:
        seconds = float(given)
    except ValueError:
        try:
            until = parsedate_to_datetime(given)
            now = parsedate_to_datetime(headers["date"]) if "date" in headers else datetime.now(UTC)
            seconds = (until - now).total_seconds()
        except (ValueError, TypeError):
            pass
    return min(max(seconds, 1.0), LONGEST_WAIT) if seconds == seconds else WAIT
