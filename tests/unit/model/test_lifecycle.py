"""The state machine is data; these are its laws."""

from rowmill.model.lifecycle import CLAIM, FINAL, MOVES, SETTLING, AttemptsChange, StateKind


def test_only_a_claim_counts_an_attempt_and_takes_a_lease() -> None:
    assert {move.name for move in MOVES.values() if move.attempts is AttemptsChange.COUNT} == {"claim"}
    assert {move.name for move in MOVES.values() if move.takes_lease} == {"claim"}


def test_a_worker_settles_only_what_runs() -> None:
    assert all(move.source == {StateKind.RUNNING} for move in SETTLING)


def test_nothing_but_an_operator_leaves_a_final_state() -> None:
    leaving = {move.name for move in MOVES.values() if move.source & FINAL}
    assert leaving == {"requeue"}


def test_every_state_can_be_reached_and_left() -> None:
    targets = {move.target for move in MOVES.values()}
    sources = set().union(*(move.source for move in MOVES.values()))
    assert targets == sources == set(StateKind)


def test_a_claim_starts_where_a_row_can_wait() -> None:
    assert CLAIM.source == {StateKind.READY, StateKind.WAITING}
