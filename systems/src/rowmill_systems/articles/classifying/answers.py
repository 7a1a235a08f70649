"""Check what a classifier answered before it is stored. Pure."""

import math
from typing import Any

import rowmill as rm
from rowmill_systems.articles.classifying.port import Topics, TopicScore
from rowmill_systems.articles.readers import LONGEST_TOPIC
from rowmill_systems.parts.values import UNSTORABLE

BAD_ANSWER = "classifier_answer"
TOLERANCE = 1e-3
"""Scores of small floating-point numbers may be a little above 1."""


class ClassifierAnswerInvalid(rm.TransientError):
    """A classifier's answer is no list of topics with scores from 0 to 1."""

    code = BAD_ANSWER


def checked_answer(answer: Any) -> Topics | Exception:
    """Return an answer in the form in which it is stored, each topic once; an exception if it is none, or has no such
    form."""
    if isinstance(answer, Exception):
        return answer
    if not isinstance(answer, list | tuple):
        return ClassifierAnswerInvalid()
    try:
        found = [TopicScore(checked_topic(each.topic), checked_score(each.score)) for each in answer]
    except (AttributeError, ValueError):
        return ClassifierAnswerInvalid()
    once: dict[str, TopicScore] = {}
    for each in found:
        once.setdefault(each.topic, each)
    return tuple(once.values())


def checked_topic(topic: Any) -> str:
    """Return the key of a topic. Raises ValueError if it is no text, or none that every database stores."""
    if not isinstance(topic, str) or not topic or len(topic) > LONGEST_TOPIC or UNSTORABLE.search(topic):
        raise ValueError(f"a topic is a text of 1 to {LONGEST_TOPIC} characters, without NUL and halves of characters")
    return str(topic)


def checked_score(score: Any) -> float:
    """Return a score. Raises ValueError if it is no number from 0 to 1."""
    try:
        number = float(score)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if isinstance(score, str) or not -TOLERANCE <= number <= 1 + TOLERANCE:
        raise ValueError("a score is a number from 0 to 1")
    return min(max(number, 0.0), 1.0)
