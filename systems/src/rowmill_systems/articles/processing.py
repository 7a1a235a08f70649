"""Classify a batch of articles by one call of the model, and write topics and completions in one transaction.

The rows of the queue are locked first, as the batch does it. Articles are locked after them, and passed over where
somebody else has one: a sync or a DELETE has the article first and wants the row then, and would wait for us while we
wait for it. Such a row goes back at no cost, and is classified again a moment later.
"""

import asyncio
import uuid
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

import rowmill as rm
from rowmill_systems.articles.classifying.answers import BAD_ANSWER, ClassifierAnswerInvalid, checked_answer
from rowmill_systems.articles.classifying.port import ArticleText, Classifier, Topics
from rowmill_systems.articles.logs import log_event
from rowmill_systems.articles.models import CONTENTS, ClassificationRequest, Content

if TYPE_CHECKING:
    from rowmill_systems.articles.articles import Articles

Request = rm.Lease[ClassificationRequest]
NOT_FOUND = "Content not found"
TEXT_CHANGED = "text_changed"
ARTICLE_BUSY = "article_busy"
BUSY_SECONDS = 1.0
WRONG_COUNT = "classifier_count"
CLASSIFY_SECONDS = 900.0
"""The longest that a batch may take. A large model on one core takes a minute or two."""
BATCH_DONE: ContextVar[Callable[[int], bool] | None] = ContextVar("rowmill_articles_batch_done", default=None)
"""Called with the size of each batch that is done. False: this process wants no other."""


def handle(articles: "Articles") -> None:
    """Register the handler of articles to classify."""

    @articles.requests.batch_handler(size=articles.settings.batch_size, timeout=CLASSIFY_SECONDS)
    async def classify_articles(batch: rm.Batch[ClassificationRequest]) -> None:
        done = BATCH_DONE.get()
        if done is not None and not done(0):
            await asyncio.Event().wait()  # until the worker stops, and gives these rows back
        await classify_requests(articles, batch)
        if done is not None:
            done(len(batch))


async def classify_requests(articles: "Articles", batch: rm.Batch[ClassificationRequest]) -> None:
    """Classify the articles of a batch. Rows that are no longer ours are somebody else's, and nothing is written."""
    log_event("processing", count=len(batch))
    keys = [lease.row.content_id for lease in batch]
    texts = await articles.mill.run(partial(read_texts, keys=keys), write=False)
    found = [lease for lease in batch if lease.row.content_id in texts]
    answers: Sequence[Topics | Exception] = []
    if found:
        settings = articles.settings
        classify = partial(
            classify_apart, await articles.open_classifier(), top_k=settings.top_k, threshold=settings.threshold
        )
        answers = await classify([texts[lease.row.content_id][0] for lease in found])
    outcomes: dict[Any, Any] = {lease.key: rm.Dead(NOT_FOUND) for lease in batch}
    topics: dict[uuid.UUID, Topics] = {}
    for lease, answer in zip(found, answers, strict=True):
        outcomes[lease.key] = outcome_of_failure(answer) if isinstance(answer, Exception) else rm.Done()
        if not isinstance(answer, Exception):
            topics[lease.row.content_id] = answer
    async with batch.settling(outcomes) as tx:
        for lost in tx.lost:
            outcomes.pop(lost.key, None)
        connection = await tx.connection()
        hashes = await connection.run_sync(lock_articles, [lease.row.content_id for lease in tx.leases])
        for lease in tx.leases:
            key = lease.row.content_id
            if key in texts and hashes.get(key) != texts[key][1]:
                code, wait = (TEXT_CHANGED, 0.0) if key in hashes else (ARTICLE_BUSY, BUSY_SECONDS)
                outcomes[lease.key] = rm.RetryLater(wait, code, count_attempt=False)
        written = {
            lease.row.content_id: topics[lease.row.content_id]
            for lease in tx.leases
            if isinstance(outcomes[lease.key], rm.Done)
        }
        await connection.run_sync(write_topics, written)
    _log(tx.leases, outcomes, written)


# served by: the primary key
def read_texts(connection: sa.Connection, keys: Sequence[uuid.UUID]) -> dict[uuid.UUID, tuple[ArticleText, str]]:
    """Return what a classifier reads of each article, and the hash of that."""
    c = Content
    rows = connection.execute(sa.select(c.id, c.title, c.text, c.language, c.text_hash).where(c.id.in_(keys)))
    return {row.id: (ArticleText(row.title or "", row.text or "", row.language), row.text_hash) for row in rows}


async def classify_apart(
    classifier: Classifier, articles: Sequence[ArticleText], *, top_k: int, threshold: float
) -> Sequence[Topics | Exception]:
    """Classify articles by one call. If the model breaks on them as a whole, by one call each: one bad article may not
    fail the others. A service that is down is not asked again for each.

    An answer that can't be stored becomes an exception for its article.
    """
    try:
        answers = await classifier.classify_batch(articles, top_k=top_k, threshold=threshold)
        if len(answers) != len(articles):
            raise rm.TransientError(code=WRONG_COUNT)
    except rm.errors.WorkError as error:
        log_event("error", code=error.code, count=len(articles))
        return [error] * len(articles)
    except Exception as error:
        # Its text may have words of an article in it.
        log_event("error", code=type(error).__name__, count=len(articles))
        if len(articles) == 1:
            return [error]
        return [(await classify_apart(classifier, [each], top_k=top_k, threshold=threshold))[0] for each in articles]
    checked = [checked_answer(answer) for answer in answers]
    invalid = sum(isinstance(answer, ClassifierAnswerInvalid) for answer in checked)
    if invalid:
        log_event("error", code=BAD_ANSWER, count=invalid)
    return checked


def outcome_of_failure(error: Exception) -> rm.Outcome | Exception:
    """Return what becomes of an article that was not classified. Of the error, only the code is kept."""
    if isinstance(error, (rm.RateLimited, rm.errors.Limited, rm.errors.ProviderDown, rm.errors.ProviderRefused)):
        return error  # it says nothing of the article: no try is spent
    if isinstance(error, rm.errors.WorkError):
        return rm.RetryLater(code=error.code) if error.retryable else rm.Dead(error.code)
    return rm.RetryLater(code=type(error).__name__)


# served by: the primary key
def lock_articles(connection: sa.Connection, keys: Sequence[uuid.UUID]) -> dict[uuid.UUID, str]:
    """Lock articles until the end of the transaction, and return the hashes of their texts. Those that somebody else
    has locked, or that are gone, are left out."""
    wanted = sa.select(Content.id, Content.text_hash).where(Content.id.in_(keys)).order_by(Content.id)
    found = connection.execute(wanted.with_for_update(skip_locked=True, key_share=True))
    return {row.id: row.text_hash for row in found}


# served by: the primary key
def write_topics(connection: sa.Connection, topics: "dict[uuid.UUID, Topics]") -> None:
    """Write the topics of articles. An article without any gets an empty list: it was looked at."""
    if not topics:
        return
    statement = (
        sa.update(CONTENTS)
        .where(CONTENTS.c.id == sa.bindparam("of_id"))
        .values(topics=sa.bindparam("found"), topic_scores=sa.bindparam("scores"))
    )
    rows = [
        {
            "of_id": key,
            "found": [each.topic for each in of_article],
            "scores": {each.topic: round(float(each.score), 4) for each in of_article},
        }
        for key, of_article in topics.items()
    ]
    connection.execute(statement, rows)


def _log(leases: Sequence[Request], outcomes: dict[Any, Any], written: "dict[uuid.UUID, Topics]") -> None:
    """Log what became of each article."""
    for lease in leases:
        key, outcome = lease.row.content_id, outcomes[lease.key]
        if key in written:
            log_event("success", queue_id=lease.key, content_id=key, topics=len(written[key]))
        elif isinstance(outcome, rm.Dead) and outcome.code == NOT_FOUND:
            log_event("content_not_found", queue_id=lease.key, content_id=key)
        else:
            log_event("item_failed", queue_id=lease.key, content_id=key, code=outcome.code, attempt=lease.attempt)
