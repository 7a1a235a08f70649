"""Say in words why an article is where it is. Pure."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from rowmill_systems.articles.recommend.scoring import ScoredArticle, ScoreKind, ScorePart


@dataclass(frozen=True, slots=True)
class Reason:
    """A part of a score, in words, and what it adds."""

    kind: str
    text: str
    value: float


def topic_name(topic: str) -> str:
    """Return a topic's key in words: `technology.ai` is "Ai", `climate-change` is "Climate change"."""
    last = topic.rpartition(".")[2].replace("-", " ").replace("_", " ").strip()
    return last[:1].upper() + last[1:] if last else topic


def explain(
    scored: ScoredArticle, now: datetime, *, source: str, name: Callable[[str], str] = topic_name
) -> list[Reason]:
    """Return the reasons for an article's score, the weightiest first. `name` gives topics their names."""
    parts = sorted(scored.parts, key=lambda part: -abs(part.value))
    reasons = [Reason(part.kind.value, _words(part, scored, now, source, name), round(part.value, 3)) for part in parts]
    candidate = scored.candidate
    if candidate.topics is None and not candidate.source_topics:
        reasons.append(Reason("no_topics", "Its topics are not known yet, and its source has none", 0.0))
    elif candidate.topics is None:
        reasons.append(Reason("no_topics", "Its topics are not known yet: those of its source stand in", 0.0))
    return reasons


def _words(part: ScorePart, scored: ScoredArticle, now: datetime, source: str, name: Callable[[str], str]) -> str:
    match part.kind:
        case ScoreKind.TOPIC | ScoreKind.SOURCE_TOPIC:
            what = name(part.topic)
            if part.followed != part.topic:
                what = f"{what}, which belongs to {name(part.followed)}"
            wanted = "You follow" if part.value > 0 else "You want less of"
            certainty = scored.candidate.topic_scores.get(part.topic)
            if part.kind is ScoreKind.SOURCE_TOPIC:
                return f"{wanted} {what}, a topic of {source}"
            return f"{wanted} {what}" + (f" (fits to {certainty:.0%})" if certainty is not None else "")
        case ScoreKind.SOURCE:
            return f"You prefer {source}" if part.value > 0 else f"You want less of {source}"
        case ScoreKind.FRESHNESS:
            return f"It is {_age(scored.candidate.shown_at, now)}"
        case ScoreKind.READ:
            return "You have read it"


def _age(moment: datetime, now: datetime) -> str:
    hours = max((now - moment).total_seconds() / 3600, 0.0)
    for limit, size, unit in ((1.0, 1 / 60, "minute"), (48.0, 1.0, "hour"), (24.0 * 60, 24.0, "day")):
        if hours < limit:
            number = int(hours / size)
            return "new" if unit == "minute" and number < 1 else f"{number} {unit}{'' if number == 1 else 's'} old"
    return f"from {moment:%B %Y}"
