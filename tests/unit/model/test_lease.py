import pytest

from rowmill.model.lease import MAX_CLAIM, token, worker_of


def test_every_worker_and_claim_has_its_own_token() -> None:
    tokens = {token(worker, claim) for worker in (1, 2, 3) for claim in (0, 1, MAX_CLAIM)}
    assert len(tokens) == 9


def test_the_worker_can_be_read_from_a_token() -> None:
    assert worker_of(token(123_456, 789)) == 123_456


def test_the_largest_token_fits_a_signed_bigint() -> None:
    assert token((1 << 27) - 1, MAX_CLAIM) < 1 << 63


@pytest.mark.parametrize(("worker", "claim"), [(0, 1), (1 << 27, 1), (1, MAX_CLAIM + 1), (1, -1)])
def test_numbers_out_of_range_are_refused(worker: int, claim: int) -> None:
    with pytest.raises(ValueError, match="out of range"):
        token(worker, claim)
