"""The topics that pages and endpoints show: those of the taxonomy, and others that articles have."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import rowmill as rm
from rowmill_systems.articles.reads import TopicCounts
from rowmill_systems.articles.recommend.explaining import topic_name

if TYPE_CHECKING:
    from rowmill_systems.articles.articles import Articles
    from rowmill_systems.articles.classifying.taxonomy import Taxonomy

OTHER = "other"


@dataclass(frozen=True, slots=True)
class ShownTopic:
    key: str
    label: str
    articles: int
    weight: float | None


@dataclass(slots=True)
class TopicGroup:
    head: ShownTopic
    topics: list[ShownTopic] = field(default_factory=list)


def taxonomy_of(articles: "Articles") -> "Taxonomy | None":
    """Return the taxonomy of the settings; None if its file can't be read: the classifier says why."""
    from rowmill_systems.articles.classifying.taxonomy import load_taxonomy

    try:
        return load_taxonomy(articles.settings.taxonomy)
    except (rm.errors.RowmillError, OSError):
        return None


def names_of(taxonomy: "Taxonomy | None") -> Callable[[str], str]:
    """Return a function that gives a topic's label, for those of other taxonomies made from their keys."""

    def name(key: str) -> str:
        known = None if taxonomy is None else taxonomy.topics.get(key) or taxonomy.groups.get(key)
        return topic_name(key) if known is None else known.label()

    return name


def topic_groups(taxonomy: "Taxonomy | None", counts: TopicCounts, weights: dict[str, float]) -> Sequence[TopicGroup]:
    """Return all topics in their groups: those of the taxonomy in its order, then others."""
    name, number = names_of(taxonomy), {each.topic: each.articles for each in counts.topics}
    known = [] if taxonomy is None else [*taxonomy.groups, *taxonomy.topics]
    others = sorted({*number, *weights} - set(known), key=lambda key: (-number.get(key, 0), key))

    def shown(key: str) -> ShownTopic:
        return ShownTopic(key, name(key), number.get(key, 0), weights.get(key))

    groups: dict[str, TopicGroup] = {}
    for key in [*known, *others]:
        group, _, rest = key.partition(".")
        if group not in groups:
            groups[group] = TopicGroup(shown(group))
        if rest:
            groups[group].topics.append(shown(key))
    return list(groups.values())
