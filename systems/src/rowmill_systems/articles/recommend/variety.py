"""Put rated articles in an order without long runs of one source or one topic. Pure."""

import hashlib
import heapq
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from rowmill_systems.articles.recommend.scoring import ScoredArticle

SOURCES_IN_A_ROW = 2
TOPICS_IN_A_ROW = 3
"""The longest runs, as long as something else is left."""
REMEMBERED = 5
"""Articles before this one that count."""
SAME_SOURCE = 0.4
SAME_TOPIC = 0.15
"""What an article loses for one of the same source or topic right before it; less for those further up."""


@dataclass(frozen=True, slots=True)
class FeedPlace:
    """What variety knows of an article in the list: short hashes of its source and of its main topic ("": none)."""

    source: str
    topic: str


def place_of(scored: ScoredArticle) -> FeedPlace:
    candidate = scored.candidate
    return FeedPlace(_short(candidate.source_id.hex), _short(candidate.main_topic) if candidate.main_topic else "")


def _short(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=4).hexdigest()


def arranged(
    articles: Sequence[ScoredArticle], before: Iterable[FeedPlace] = (), limit: int | None = None
) -> list[ScoredArticle]:
    """Return the best articles, at most `limit`: each the best one after those before it.

    `before` are the last places of the page before. A run is longer than it may be only where everything that is left
    belongs to it. The same articles give the same order, in whatever order they come.
    """
    recent: deque[FeedPlace] = deque(before, maxlen=REMEMBERED)
    groups = _groups(articles)
    found: list[ScoredArticle] = []
    for _ in range(len(articles) if limit is None else min(limit, len(articles))):
        place = _best(groups, recent)
        found.append(heapq.heappop(groups[place])[-1])
        if not groups[place]:
            del groups[place]
        recent.append(place)
    return found


Ranked = list[tuple[float, float, str, ScoredArticle]]
"""The best first: by score, then by time, then by id, so that the order does not depend on how they come."""


def _groups(articles: Sequence[ScoredArticle]) -> dict[FeedPlace, Ranked]:
    """Group articles by what variety knows of them: of each group, only the best one can be next."""
    groups: dict[FeedPlace, Ranked] = {}
    for each in articles:
        when = each.candidate.shown_at.timestamp()
        groups.setdefault(place_of(each), []).append((-each.total, -when, each.candidate.id.hex, each))
    for group in groups.values():
        heapq.heapify(group)
    return groups


def _best(groups: dict[FeedPlace, Ranked], recent: Sequence[FeedPlace]) -> FeedPlace:
    def rank(place: FeedPlace) -> tuple[bool, bool, float, float, str]:
        worth, when, id, _ = groups[place][0]
        return (*_breaks_rules(place, recent), worth + _penalty(place, recent), when, id)

    return min(groups, key=rank)


def _breaks_rules(place: FeedPlace, recent: Sequence[FeedPlace]) -> tuple[bool, bool]:
    """Return whether the article makes a run of its source too long, and one of its topic."""
    last = list(recent)
    source_run = last[-SOURCES_IN_A_ROW:]
    topic_run = last[-TOPICS_IN_A_ROW:]
    return (
        len(source_run) == SOURCES_IN_A_ROW and all(each.source == place.source for each in source_run),
        bool(place.topic)
        and len(topic_run) == TOPICS_IN_A_ROW
        and all(each.topic == place.topic for each in topic_run),
    )


def _penalty(place: FeedPlace, recent: Sequence[FeedPlace]) -> float:
    lost = 0.0
    for distance, each in _backwards(recent):
        share = (REMEMBERED - distance) / REMEMBERED
        lost += SAME_SOURCE * share if each.source == place.source else 0.0
        lost += SAME_TOPIC * share if place.topic and each.topic == place.topic else 0.0
    return lost


def _backwards(recent: Sequence[FeedPlace]) -> Iterator[tuple[int, FeedPlace]]:
    return enumerate(reversed(list(recent)))
