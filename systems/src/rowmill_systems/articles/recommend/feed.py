"""Pages of the feed: ranked for a reader, without an article left out, repeated or skipped.

An article's score changes while somebody reads: topics are found, articles are read, topics are followed. So a page
can't begin "below the score of the last one". And a million articles can't be ranked for each page. Therefore:

- Articles are taken in windows by time, WINDOW at once, by a keyset on (shown_at, id), which never changes.
- Within a window, each page takes the best of those that were not shown yet, by their scores of now. What was
  classified meanwhile moves up or down in what is left.
- The cursor holds the ends of the window, hashes of what was shown of it (three bytes each, exact: see `cursor`), and
  when the reader began. Articles that came later are not in these pages: they are on the first page of the next visit.
- The next window begins when all of a window was shown.

So the articles of all pages are those that were there at the beginning, each once, without those deleted meanwhile.
Nothing is stored for a reader, and no page expires. A page reads a window and its sources and read marks: some hundred
rows, whatever the size of the table. The price: an article is ranked among its WINDOW neighbours in time, not among
all; with a thousand articles a day, a window is more than half a day.
"""

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from rowmill.web.keyset import UnknownPage
from rowmill_systems.articles.recommend import statements
from rowmill_systems.articles.recommend.cursor import FeedCursor, Position, decode, remember
from rowmill_systems.articles.recommend.scoring import FeedCandidate, ReaderTaste, ScoredArticle, score
from rowmill_systems.articles.recommend.statements import WindowRow
from rowmill_systems.articles.recommend.variety import REMEMBERED, FeedPlace, arranged, place_of
from rowmill_systems.parts.clock import database_time

WINDOW = 600
"""Articles that are ranked among each other."""
MOST_GROWTH = 4
"""How many times its size a window may have at the next page. A sync that had begun before the reader did may have put
its articles into it since. More than that is a cursor that somebody made up: it would have all articles ranked."""
MOST_WINDOWS = 5
"""Windows that are looked at for one page, where few of their articles are wanted."""
PAGE = 20
Wanted = Callable[[FeedCandidate], bool]


@dataclass(frozen=True, slots=True)
class FeedItem:
    """An article of the feed, and what its score is made of."""

    row: sa.RowMapping
    scored: ScoredArticle


@dataclass(frozen=True, slots=True)
class FeedPage:
    """Articles, the best first, and the cursor of the next page; None at the end.

    With `unread`, a page may have few articles or none, and yet a next page.
    """

    items: Sequence[FeedItem]
    next: str | None


def read_feed(
    connection: sa.Connection,
    reader: str,
    *,
    after: str = "",
    limit: int = PAGE,
    unread: bool = False,
    window: int = WINDOW,
) -> FeedPage:
    """Return a page of a reader's feed. Raises UnknownPage for a cursor that is none."""
    taste = statements.taste_of(connection, reader)
    given = decode(after) if after else None
    pinned_at = given.pinned_at if given else database_time(connection)
    session = FeedSession(connection, reader, taste, pinned_at, window)
    chosen, cursor = session.page(given, limit, is_unread if unread else is_any)
    rows = statements.shown_articles(connection, [each.candidate.id for each in chosen]) if chosen else {}
    items = [FeedItem(rows[each.candidate.id], each) for each in chosen if each.candidate.id in rows]
    return FeedPage(items, None if cursor is None else cursor.encode())


def is_any(candidate: FeedCandidate) -> bool:
    return True


def is_unread(candidate: FeedCandidate) -> bool:
    return not candidate.is_read


def score_one(connection: sa.Connection, reader: str, id: uuid.UUID) -> ScoredArticle | None:
    """Rate one article as the feed would now; None if it is gone."""
    candidate = statements.candidate_of(connection, reader, id)
    if candidate is None:
        return None
    return score(candidate, statements.taste_of(connection, reader), database_time(connection))


@dataclass(slots=True)
class FeedWindow:
    """The articles of a window that are still there, the newest first, and which of them were shown."""

    rows: list[WindowRow]
    top: Position
    bottom: Position
    shown: set[uuid.UUID]

    def left(self, wanted: Wanted) -> list[FeedCandidate]:
        return [c for c in (row.candidate for row in self.rows) if c.id not in self.shown and wanted(c)]


@dataclass(frozen=True, slots=True)
class FeedSession:
    """A reader who goes from page to page."""

    connection: sa.Connection
    reader: str
    taste: ReaderTaste
    pinned_at: datetime
    size: int

    def page(
        self, given: FeedCursor | None, limit: int, wanted: Wanted
    ) -> tuple[list[ScoredArticle], FeedCursor | None]:
        """Return the best articles that were not shown yet, and where the next page begins."""
        window = self._below(None) if given is None else self._again(given)
        last = given.last if given else ()
        found: list[ScoredArticle] = []
        for turn in range(MOST_WINDOWS):
            if window is None:
                return found, None
            left = [score(each, self.taste, self.pinned_at) for each in window.left(wanted)]
            best = arranged(left, last, limit - len(found))
            found += best
            window.shown |= {each.candidate.id for each in best}
            last = (*last, *map(place_of, best))[-REMEMBERED:]
            if len(best) < len(left):
                break
            if len(found) == limit or turn == MOST_WINDOWS - 1:
                if not statements.is_anything_below(self.connection, self.pinned_at, window.bottom):
                    return found, None
                break
            window = self._below(window.bottom)
        return found, None if window is None else self._cursor(window, last)

    def _below(self, position: Position | None) -> FeedWindow | None:
        rows = statements.window_below(self.connection, self.reader, self.pinned_at, position, self.size)
        return FeedWindow(rows, rows[0].position, rows[-1].position, set()) if rows else None

    def _again(self, given: FeedCursor) -> FeedWindow:
        most = self.size * MOST_GROWTH
        rows = statements.window_between(
            self.connection, self.reader, self.pinned_at, given.top, given.bottom, most + 1
        )
        if len(rows) > most:
            raise UnknownPage("there is no such page of the feed")
        shown = {row.candidate.id for row in rows if given.has_shown(row.candidate.id)}
        return FeedWindow(rows, given.top, given.bottom, shown)

    def _cursor(self, window: FeedWindow, last: tuple[FeedPlace, ...]) -> FeedCursor:
        # Where all is shown down to some article, the window need not begin before it. The last one stays, so that the
        # window has a beginning.
        first = next((n for n, row in enumerate(window.rows) if row.candidate.id not in window.shown), -1)
        rows = window.rows[first:]
        ids = [row.candidate.id for row in rows]
        seed, hashes = remember(ids, window.shown.intersection(ids))
        top = rows[0].position if rows else window.bottom
        return FeedCursor(self.pinned_at, top, window.bottom, seed, hashes, last)
