"""Every answer of a handler, and everything that it may raise, has one verdict."""

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
        verdict = judge(lease(queue(retry=retry)), rm.WorkError("x", code="odd", retryable=retryable), 0.0)
        assert (verdict.move, verdict.code) == (move, "odd")


def test_types_named_by_the_queue_are_judged_as_it_says() -> None:
    strict = rm.Retry(permanent=(KeyError,), transient=(OSError,), unknown_is_permanent=True)
    judged = {kind: judge(lease(queue(retry=strict)), kind("x"), 0.0).move for kind in (KeyError, OSError, ValueError)}
    assert judged == {KeyError: lifecycle.DIE, OSError: lifecycle.AGAIN, ValueError: lifecycle.DIE}


@pytest.mark.parametrize("error", [rm.RateLimited(retry_after=9), rm.ProviderDown(retry_after=9)])
def test_a_provider_that_asks_for_patience_costs_no_attempt_even_the_last(error: rm.WorkError) -> None:
    verdict = judge(lease(attempt=3), error, 0.0)
    assert (verdict.move, verdict.wait) == (lifecycle.PARK, 9.0)


def test_again_says_when() -> None:
    assert judge(lease(), rm.Again(after=2.5), 0.0).wait == 2.5
    assert judge(lease(), rm.Again(after=-1), 0.0).wait == 0.0


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
