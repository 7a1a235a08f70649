"""Every answer of a handler, and everything that it may raise, has one verdict."""

import math
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from email.utils import format_datetime
from typing import Any

import pytest

import rowmill as rm
from rowmill.model import lifecycle
from rowmill.model.judge import judge
from tests.unit.model.examples import lease, queue

STAGES = [rm.Stage("first", ready="a", running="b"), rm.Stage("second", ready="c", running="d")]


@pytest.mark.parametrize("answer", [None, {}, rm.Done()])
def test_a_plain_answer_is_done(answer: object) -> None:
    assert judge(lease(), answer, 0.0).move is lifecycle.DONE  # type: ignore[arg-type]


@pytest.mark.parametrize("answer", [None, {"title": "x"}, rm.Done()])
def test_before_the_last_stage_done_moves_on(answer: object) -> None:
    staged = lease(queue(stages=STAGES), stage="first")
    assert judge(staged, answer, 0.0).move is lifecycle.ADVANCE  # type: ignore[arg-type]


def test_finish_skips_the_stages_ahead() -> None:
    staged = lease(queue(stages=STAGES), stage="first")
    assert judge(staged, rm.Done(finish=True), 0.0).move is lifecycle.DONE


def test_a_mapping_is_done_with_values() -> None:
    assert judge(lease(), {"title": "x"}, 0.0).values == {"title": "x"}


@pytest.mark.parametrize(
    ("error", "code"),
    [(rm.TransientError("x", code="busy"), "busy"), (ValueError("x"), "ValueError"), (TimeoutError(), "TimeoutError")],
)
def test_transient_and_unknown_errors_are_tried_again(error: Exception, code: str) -> None:
    verdict = judge(lease(queue(retry=rm.Retry(attempts=3, backoff=rm.fixed(5)))), error, 0.0)
    assert (verdict.move, verdict.code, verdict.wait) == (lifecycle.AGAIN, code, 5.0)


def test_the_last_attempt_ends_dead() -> None:
    verdict = judge(lease(attempt=3), ValueError("x"), 0.0)
    assert (verdict.move, verdict.wait) == (lifecycle.DIE, 0.0)


def test_permanent_errors_end_dead_at_once() -> None:
    assert judge(lease(), rm.PermanentError("x", code="empty"), 0.0).move is lifecycle.DIE


@pytest.mark.parametrize(("retryable", "move"), [(True, lifecycle.AGAIN), (False, lifecycle.DIE)])
def test_an_error_that_says_whether_it_is_retryable_is_judged_by_that(retryable: bool, move: lifecycle.Move) -> None:
    for retry in (rm.Retry(), rm.Retry(unknown_is_permanent=True)):
        verdict = judge(lease(queue(retry=retry)), rm.errors.WorkError("x", code="odd", retryable=retryable), 0.0)
        assert (verdict.move, verdict.code) == (move, "odd")


def test_types_named_by_the_queue_are_judged_as_it_says() -> None:
    strict = rm.Retry(permanent=(KeyError,), transient=(OSError,), unknown_is_permanent=True)
    judged = {kind: judge(lease(queue(retry=strict)), kind("x"), 0.0).move for kind in (KeyError, OSError, ValueError)}
    assert judged == {KeyError: lifecycle.DIE, OSError: lifecycle.AGAIN, ValueError: lifecycle.DIE}


@pytest.mark.parametrize("error", [rm.RateLimited(retry_after=9), rm.errors.ProviderDown(retry_after=9)])
def test_a_provider_that_asks_for_patience_costs_no_attempt_even_the_last(error: rm.errors.WorkError) -> None:
    verdict = judge(lease(attempt=3), error, 0.0)
    assert (verdict.move, verdict.wait) == (lifecycle.PARK, 9.0)


def test_again_says_when() -> None:
    assert judge(lease(), rm.RetryLater(after=2.5), 0.0).wait == 2.5
    assert judge(lease(), rm.RetryLater(after=-1), 0.0).wait == 0.0


def test_cancel_needs_a_word_for_it() -> None:
    with_word = queue(states=rm.States(cancelled="cancelled"))
    assert judge(lease(with_word), rm.Cancel(), 0.0).move is lifecycle.ABANDON
    assert judge(lease(), rm.Cancel(), 0.0).move is lifecycle.DIE


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (42, "bad_answer"),
        ("done", "bad_answer"),
        ({"nope": 1}, "unknown_column"),
        ({"state": "done"}, "reserved_column"),
        ({"id": 2}, "reserved_column"),
        (rm.Done([1]), "bad_values"),  # type: ignore[arg-type]
    ],
)
def test_an_answer_that_cannot_be_written_is_a_permanent_failure_with_a_code(answer: object, code: str) -> None:
    verdict = judge(lease(), answer, 0.0)  # type: ignore[arg-type]
    assert (verdict.move, verdict.code, verdict.values) == (lifecycle.DIE, code, {})


def test_messages_are_cut_and_made_safe() -> None:
    verdict = judge(lease(), rm.PermanentError("a\x00b\ud800" + "x" * 5000, code="c" * 500), 0.0)
    assert len(verdict.message) == 1000
    assert len(verdict.code) == 100
    assert "\x00" not in verdict.message
    verdict.error.encode("utf-8")


def test_jitter_only_lengthens_the_wait() -> None:
    jittery = queue(retry=rm.Retry(backoff=rm.fixed(10), jitter=0.5))
    assert judge(lease(jittery), ValueError(), 0.0).wait == 10.0
    assert judge(lease(jittery), ValueError(), 0.999).wait == pytest.approx(14.995)


HOUR = timedelta(hours=1)
WAITS: dict[str, tuple[Any, float]] = {
    "a number": (5, 5.0),
    "a number as text": (" 5 ", 5.0),
    "a decimal": (Decimal("2.5"), 2.5),
    "a duration": (timedelta(minutes=2), 120.0),
    "a time": (lambda: datetime.now(UTC) + HOUR, 3600.0),
    "a date of HTTP": (lambda: format_datetime(datetime.now(UTC) + HOUR, usegmt=True), 3600.0),
    "a date of HTTP without a zone": (lambda: format_datetime(datetime.now(UTC).replace(tzinfo=None) + HOUR), 3600.0),
    "a date of ISO 8601": (lambda: (datetime.now(UTC) + HOUR).isoformat(), 3600.0),
    "a time that is over": (datetime(2001, 1, 1, tzinfo=UTC), 0.0),
    "a date that is over": ("Wed, 21 Oct 2015 07:28:00 GMT", 0.0),
    "negative": (-5, 0.0),
    "negative text": ("-5", 0.0),
    "a negative duration": (-HOUR, 0.0),
    "for ever": (math.inf, 10 * 365 * 86400.0),
    "a number that no float holds": (10**400, 10 * 365 * 86400.0),
}
UNKNOWN: dict[str, Any] = {"none": None, "not a number": math.nan}


@pytest.mark.parametrize("case", WAITS)
def test_a_wait_is_understood_however_it_is_said(case: str) -> None:
    given, seconds = WAITS[case]
    given = given() if callable(given) else given  # counted from now, not from when the tests were collected
    assert judge(lease(), rm.RetryLater(after=given), 0.0).wait == pytest.approx(seconds, abs=120)
    for kind in (rm.RateLimited, rm.errors.ProviderDown, rm.errors.ProviderRefused):
        verdict = judge(lease(attempt=3), kind(retry_after=given), 0.0)
        assert verdict.move is lifecycle.PARK
        assert verdict.wait == pytest.approx(seconds, abs=120)


@pytest.mark.parametrize("case", UNKNOWN)
def test_an_unknown_wait_is_the_usual_one(case: str) -> None:
    fixed = lease(queue(retry=rm.Retry(backoff=rm.fixed(7))))
    assert judge(fixed, rm.RetryLater(after=UNKNOWN[case]), 0.0).wait == 7.0
    assert judge(fixed, rm.RateLimited(retry_after=UNKNOWN[case]), 0.0).wait == 60.0


@pytest.mark.parametrize("text", ["soon", "", "inf", "nan", "5 minutes", "2015-99-99"])
def test_what_a_provider_says_that_nobody_understands_is_the_usual_wait(text: str) -> None:
    """The text is the provider's: a handler must not fail because of it."""
    verdict = judge(lease(attempt=3), rm.RateLimited(retry_after=text), 0.0)
    assert (verdict.move, verdict.code, verdict.wait) == (lifecycle.PARK, "rate_limited", 60.0)


@pytest.mark.parametrize("given", ["soon", "inf", [5], object(), datetime(2030, 1, 1)])
def test_a_wait_that_nobody_understands_is_refused_where_it_is_written(given: Any) -> None:
    with pytest.raises((TypeError, ValueError), match=r"^after is .* Give seconds, a timedelta"):
        rm.RetryLater(after=given)
    if not isinstance(given, str):
        with pytest.raises((TypeError, ValueError), match=r"^retry_after is .* Give seconds, a timedelta"):
            rm.RateLimited(retry_after=given)


def test_a_wait_that_was_put_in_later_does_not_bury_the_row() -> None:
    again = rm.RetryLater(after=5)
    again.after = object()  # type: ignore[assignment]
    limited = rm.RateLimited()
    limited.retry_after = "soon"  # type: ignore[assignment]
    fixed = lease(queue(retry=rm.Retry(backoff=rm.fixed(7))))
    assert judge(fixed, again, 0.0).wait == 7.0
    assert judge(fixed, limited, 0.0).wait == 60.0


class Unreadable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


class Hopeless(rm.PermanentError):
    def __str__(self) -> str:
        return 5  # type: ignore[return-value]


class OddCode(rm.TransientError):
    @property
    def code(self) -> str:  # type: ignore[override]
        raise KeyError("code")


class Forgetful(rm.RateLimited):
    def __init__(self) -> None:
        """Does not call its base."""


@pytest.mark.parametrize(
    ("error", "move", "code", "message"),
    [
        (Unreadable(), lifecycle.AGAIN, "Unreadable", "(its text can't be read: RuntimeError)"),
        (Hopeless(), lifecycle.DIE, "permanent", "(its text can't be read: TypeError)"),
        (OddCode("x"), lifecycle.AGAIN, "OddCode", "x"),
        (Forgetful(), lifecycle.PARK, "rate_limited", ""),
    ],
)
def test_an_exception_that_cannot_be_read_is_judged_by_its_type(
    error: Exception, move: lifecycle.Move, code: str, message: str
) -> None:
    verdict = judge(lease(), error, 0.0)
    assert (verdict.move, verdict.code, verdict.message) == (move, code, message)


def test_a_message_that_cannot_be_read_does_not_bury_the_row() -> None:
    verdict = judge(lease(), rm.RetryLater(message=Unreadable()), 0.0)  # type: ignore[arg-type]
    assert (verdict.move, verdict.message) == (lifecycle.AGAIN, "(its text can't be read: RuntimeError)")


def failing(attempt: int) -> float:
    raise ZeroDivisionError


@pytest.mark.parametrize(
    ("backoff", "problem"),
    [(failing, "ZeroDivisionError"), (lambda attempt: "soon", "ValueError"), (lambda attempt: [5], "TypeError"),
     (lambda attempt: None, "ValueError"), (lambda attempt: math.nan, "ValueError")],
)  # fmt: skip
def test_a_backoff_that_fails_does_not_bury_the_row(backoff: Any, problem: str) -> None:
    verdict = judge(lease(queue(retry=rm.Retry(attempts=3, backoff=backoff, jitter=0.5))), ValueError("x"), 0.0)
    assert (verdict.move, verdict.code, verdict.wait) == (lifecycle.AGAIN, "ValueError", 30.0)
    assert verdict.message == f"x (the queue's backoff gave no wait: {problem}; the default was taken)"


def test_a_backoff_may_answer_with_a_duration() -> None:
    slow = queue(retry=rm.Retry(backoff=lambda attempt: timedelta(minutes=attempt), jitter=0.5))
    assert judge(lease(slow), ValueError("x"), 0.5).wait == 75.0
