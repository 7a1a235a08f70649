"""What endpoints take and return."""

import uuid
from datetime import datetime
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, Field

from rowmill_systems.articles.health import SourceHealth, health_of
from rowmill_systems.articles.reads import DAYS
from rowmill_systems.articles.recommend.explaining import Reason
from rowmill_systems.parts.fields import Moment, ResponseModel, fit

LONGEST_ADDRESS = 2000
"""Of a feed. PostgreSQL indexes no text of more than about 2,700 bytes."""
Plain = Annotated[str, AfterValidator(fit)]


class ArticleOut(ResponseModel):
    """An article, as lists have it."""

    id: uuid.UUID
    source_id: uuid.UUID
    source_title: str
    url: str | None
    title: str
    author: str | None
    summary: str = Field(description="The beginning of its text.")
    image_url: str | None
    language: str | None
    published_at: Moment | None
    shown_at: Moment = Field(description="Its place in lists: published_at, but not later than it was saved.")
    topics: Any = Field(description="null until it is classified; empty if no topic fits.")
    topic_scores: Any
    source_topics: Any = Field(description="They stand in until it is classified.")
    is_read: bool


class WholeArticle(ArticleOut):
    description: str = Field(description="Sanitised HTML.")
    text: str
    created_at: Moment
    updated_at: Moment
    classification: str | None = Field(description="Its status in the classification queue.")
    classification_error: str | None


class ArticleList(ResponseModel):
    articles: list[ArticleOut]
    next: str | None = Field(description="For `after` of the next page. Filtered lists may have short pages.")


class ReasonOut(ResponseModel):
    kind: str
    text: str
    value: float


class FeedArticle(ArticleOut):
    score: float
    why: list[ReasonOut] = Field(description="The parts of its score, in words, the weightiest first.")


class FeedOut(ResponseModel):
    articles: list[FeedArticle]
    next: str | None = Field(description="For `after` of the next page: nothing is repeated or skipped.")


class WhyOut(ResponseModel):
    score: float
    why: list[ReasonOut]


class MarkOut(ResponseModel):
    id: uuid.UUID
    is_read: bool


class SourceOut(ResponseModel):
    """A feed, and how it does."""

    id: uuid.UUID
    url: str
    title: str
    site_url: str | None
    language: str | None
    granular_topics: Any
    status: str
    health: SourceHealth
    reason: str = Field(description="Why it is not ok, in words.")
    failures: int
    last_code: str | None
    last_status: int | None
    last_sync_at: Moment | None
    last_success_at: Moment | None
    last_new_at: Moment | None
    next_sync_at: Moment | None
    interval_seconds: int | None
    fixed_interval_seconds: int | None
    articles_per_day: float
    created_at: Moment

    @classmethod
    def of(cls, row: Any, now: datetime) -> "SourceOut":
        found = health_of(row, now)
        more = {"health": found.health, "reason": found.reason, "articles_per_day": round(row["recent"] / DAYS, 2)}
        return cls.model_validate({**row, **more})


class SourceList(ResponseModel):
    sources: list[SourceOut]
    next: str | None


class SourceIn(BaseModel):
    """The address of a feed, or of a page that names its feed."""

    url: Plain = Field(min_length=1, max_length=LONGEST_ADDRESS, examples=["https://example.org/news"])
    title: Plain = Field(default="", max_length=500)
    topics: list[Plain] = Field(default=[], max_length=20, description="They stand in for those of its articles.")
    discover: bool = Field(
        default=True, description="Fetch it now, and find the feed of a page. Otherwise only add it."
    )


class AddedOut(ResponseModel):
    id: uuid.UUID
    url: str
    title: str
    created: bool = Field(description="false: it was there already.")


class AddedListOut(ResponseModel):
    created: int
    there_already: int
    refused: dict[str, str] = Field(description="Codes, by the addresses that are none.")


class SourceChangeIn(BaseModel):
    """What is left out stays as it is."""

    title: Plain | None = Field(default=None, max_length=500)
    topics: list[Plain] | None = Field(default=None, max_length=20)
    interval_seconds: int | None = Field(default=None, ge=0, description="0: the interval adapts again.")
    paused: bool | None = None


class WeightIn(BaseModel):
    weight: float = Field(default=1.0, description="Above zero: more of it. Below: less.")


class TopicOut(ResponseModel):
    topic: str
    label: str
    articles: int = Field(description="Among the newest articles.")
    weight: float | None = Field(description="null: not followed.")


class TopicList(ResponseModel):
    topics: list[TopicOut]
    counted: int = Field(description="How many of the newest articles were looked at.")
    unclassified: int = Field(description="How many of them have no topics yet.")


class InterestsOut(ResponseModel):
    topics: dict[str, float]
    sources: dict[str, float]


class ClassificationCounts(ResponseModel):
    """How many articles are in the classification queue, by status."""

    pending: int
    processing: int
    completed: int
    failed: int
    cancelled: int
    total: int


class RequeuedArticles(ResponseModel):
    requeued: int


class SystemStats(ResponseModel):
    queue: ClassificationCounts
    exact: bool = Field(description="false: the queue is big, and numbers of finished articles are estimates.")
    oldest_pending_seconds: float | None
    sources: dict[str, int] = Field(description="By state; `failing` are those whose last fetch failed.")


def reasons_out(reasons: list[Reason]) -> list[ReasonOut]:
    return [ReasonOut.model_validate(each) for each in reasons]
