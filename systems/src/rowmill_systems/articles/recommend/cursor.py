"""Remember in the address of the next page what was shown already. Pure."""

import base64
import binascii
import hashlib
import json
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from rowmill.web.keyset import UnknownPage
from rowmill_systems.articles.recommend.variety import REMEMBERED, FeedPlace
from rowmill_systems.parts.database import in_utc

BYTES = 3
"""Of the hash of an article that was shown."""
LONGEST = 16_000
"""Characters of a cursor that is read."""
MOST_SEEDS = 256
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Position:
    """A place in the list by time: `shown_at` as the database writes it, and the id."""

    shown_at: str
    id: uuid.UUID


@dataclass(frozen=True, slots=True)
class FeedCursor:
    """Where a reader is in the feed."""

    pinned_at: datetime
    """When the reader began. Articles that came later are for the next visit."""
    top: Position
    """The newest article of the window that is being shown."""
    bottom: Position
    """The oldest one."""
    seed: int
    shown: frozenset[bytes]
    """Hashes of the articles of the window that were shown, under this seed no two of them alike."""
    last: tuple[FeedPlace, ...] = ()
    """What the last articles of the page before were."""

    def has_shown(self, id: uuid.UUID) -> bool:
        return fingerprint(id, self.seed) in self.shown

    def encode(self) -> str:
        head = json.dumps(
            [
                (self.pinned_at - EPOCH) // MICROSECOND,
                *(part for each in (self.top, self.bottom) for part in (each.shown_at, each.id.hex)),
                self.seed,
                [[place.source, place.topic] for place in self.last],
            ],
            separators=(",", ":"),
        )
        return f"{_text(head.encode())}.{_text(b''.join(sorted(self.shown)))}"


def remember(members: Iterable[uuid.UUID], shown: Iterable[uuid.UUID]) -> tuple[int, frozenset[bytes]]:
    """Return a seed under which no two articles of the window have the same hash, and the hashes of those shown.

    So three bytes an article are exact: a hash that two share would pass one of them over.
    """
    ids = set(members)
    for seed in range(MOST_SEEDS):
        if len({fingerprint(id, seed) for id in ids}) == len(ids):
            return seed, frozenset(fingerprint(id, seed) for id in shown)
    raise UnknownPage(f"no seed tells {len(ids)} articles apart: these are more than a window has")


def fingerprint(id: uuid.UUID, seed: int) -> bytes:
    return hashlib.blake2b(id.bytes, digest_size=BYTES, key=bytes([seed])).digest()


def decode(text: str) -> FeedCursor:
    """Read a cursor. Raises UnknownPage if it is none."""
    try:
        if len(text) > LONGEST:
            raise ValueError("too long")
        head, _, rest = text.partition(".")
        pinned, top_at, top_id, bottom_at, bottom_id, seed, last = json.loads(_bytes(head))
        hashes = _bytes(rest)
        if not isinstance(seed, int) or not 0 <= seed < MOST_SEEDS or len(hashes) % BYTES:
            raise ValueError("not a cursor")
        return FeedCursor(
            EPOCH + int(pinned) * MICROSECOND,
            Position(_moment(top_at), uuid.UUID(top_id)),
            Position(_moment(bottom_at), uuid.UUID(bottom_id)),
            seed,
            frozenset(hashes[at : at + BYTES] for at in range(0, len(hashes), BYTES)),
            _places(last),
        )
    except (ValueError, TypeError, AttributeError, OverflowError, OSError, RecursionError, binascii.Error) as error:
        raise UnknownPage("there is no such page of the feed") from error


def _places(given: Sequence[Sequence[str]]) -> tuple[FeedPlace, ...]:
    return tuple(FeedPlace(str(source), str(topic)) for source, topic in given[:REMEMBERED])


def _moment(text: str) -> str:
    if not (text.isascii() and text.isprintable()):
        raise ValueError("not a time")  # Python takes any character between day and hour, and databases do not
    in_utc(datetime.fromisoformat(text))  # in the first or the last year, it may have no time in UTC
    return text


def _text(given: bytes) -> str:
    return base64.urlsafe_b64encode(given).decode().rstrip("=")


def _bytes(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
