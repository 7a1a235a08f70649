"""Rate an article for a reader. Pure: the time comes in as an argument."""

import math
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

HALF_LIFE_HOURS = 24.0
"""After so many hours, freshness counts for half."""
FRESHNESS = 1.0
"""What an article gets for being new."""
TOPIC = 1.0
"""What an article gets if a followed topic fits it for certain."""
SOURCE = 0.6
"""What an article gets for a source of weight 1."""
STAND_IN = 0.6
"""The part of TOPIC that topics of the source count for, until the article has its own."""
READ = -3.0
"""What an article gets that the reader has read: it comes after all others of its time."""
MOST_WEIGHT = 3.0
"""Weights of readers count up to here, in both directions."""
MOST_TOPICS = 2.0
"""Topics together count up to so many that fit for certain."""


class ScoreKind(StrEnum):
    """Where a part of a score comes from."""

    TOPIC = "topic"
    SOURCE_TOPIC = "source_topic"
    SOURCE = "source"
    FRESHNESS = "freshness"
    READ = "read"


@dataclass(frozen=True, slots=True)
class ReaderTaste:
    """What a reader wants to see. Weights below zero: less of it."""

    topics: Mapping[str, float] = field(default_factory=dict)
    sources: Mapping[str, float] = field(default_factory=dict)

    def of_topic(self, topic: str) -> tuple[str, float] | None:
        """Return the topic or group that the reader follows and that this topic belongs to, and its weight.

        Following `technology` covers `technology.ai`; the closest one counts.
        """
        name = topic
        while name:
            if weight := bounded(self.topics.get(name)):
                return name, weight
            name = name.rpartition(".")[0]
        return None


@dataclass(frozen=True, slots=True)
class FeedCandidate:
    """An article as scoring sees it."""

    id: uuid.UUID
    source_id: uuid.UUID
    shown_at: datetime
    topics: Sequence[str] | None
    """None: not classified yet."""
    topic_scores: Mapping[str, float] = field(default_factory=dict)
    source_topics: Sequence[str] = ()
    is_read: bool = False

    @property
    def effective_topics(self) -> Sequence[str]:
        """Its topics; those of its source until it has been classified."""
        return self.source_topics if self.topics is None else self.topics

    @property
    def main_topic(self) -> str:
        """The first of its topics; "" if there is none."""
        return self.effective_topics[0] if self.effective_topics else ""


@dataclass(frozen=True, slots=True)
class ScorePart:
    kind: ScoreKind
    value: float
    topic: str = ""
    """For topics: the one of the article."""
    followed: str = ""
    """For topics: the one that the reader follows, which may be its group."""


@dataclass(frozen=True, slots=True)
class ScoredArticle:
    """An article and its score; `parts` add up to it."""

    candidate: FeedCandidate
    parts: tuple[ScorePart, ...]

    @property
    def total(self) -> float:
        return sum(part.value for part in self.parts)


def score(candidate: FeedCandidate, taste: ReaderTaste, now: datetime) -> ScoredArticle:
    """Rate an article. Every article has a score: without topics, source and freshness make it."""
    parts = [*_topic_parts(candidate, taste)]
    if weight := bounded(taste.sources.get(str(candidate.source_id))):
        parts.append(ScorePart(ScoreKind.SOURCE, SOURCE * weight))
    parts.append(ScorePart(ScoreKind.FRESHNESS, FRESHNESS * freshness(candidate.shown_at, now)))
    if candidate.is_read:
        parts.append(ScorePart(ScoreKind.READ, READ))
    return ScoredArticle(candidate, tuple(parts))


def freshness(moment: datetime, now: datetime) -> float:
    """Return 1 for an article of this moment, and half of it for each HALF_LIFE_HOURS of its age."""
    hours = max((now - moment).total_seconds() / 3600, 0.0)
    return float(2.0 ** (-hours / HALF_LIFE_HOURS))


def _topic_parts(candidate: FeedCandidate, taste: ReaderTaste) -> list[ScorePart]:
    kind = ScoreKind.SOURCE_TOPIC if candidate.topics is None else ScoreKind.TOPIC
    factor = STAND_IN if candidate.topics is None else 1.0
    found: dict[str, ScorePart] = {}
    for topic in candidate.effective_topics:
        followed = taste.of_topic(topic)
        if followed is None:
            continue
        name, weight = followed
        certainty = 1.0 if candidate.topics is None else min(max(candidate.topic_scores.get(topic, 1.0), 0.0), 1.0)
        part = ScorePart(kind, TOPIC * factor * weight * certainty, topic, name)
        # Two topics of one followed group are one reason, not two.
        if name not in found or abs(part.value) > abs(found[name].value):
            found[name] = part
    total = sum(part.value for part in found.values())
    most = TOPIC * factor * MOST_TOPICS * max((abs(bounded(w)) for w in taste.topics.values()), default=1.0)
    shrink = most / abs(total) if abs(total) > most > 0 else 1.0
    return [ScorePart(part.kind, part.value * shrink, part.topic, part.followed) for part in found.values()]


def bounded(weight: object) -> float:
    """Return a weight as a number that counts; 0 for anything else, as somebody may have written to the table."""
    if isinstance(weight, bool) or not isinstance(weight, int | float) or not math.isfinite(weight):
        return 0.0
    return min(max(float(weight), -MOST_WEIGHT), MOST_WEIGHT)
