"""Whoever guesses has to wait, longer each time."""

from datetime import UTC, datetime, timedelta

import pytest

from rowmill.web.login.attempts import (
    LoginAttempts,
    LoginBlocked,
    LoginLimit,
    count_attempt,
    network_of,
    take_back,
)

LIMIT = LoginLimit(free=3, first=2.0, longest=10.0, forgotten=3600.0)
START = datetime(2026, 3, 1, tzinfo=UTC)


def test_a_few_are_free_and_each_further_one_doubles_the_wait() -> None:
    state, now, waits = LoginAttempts(), START, []
    for _ in range(7):
        counted = count_attempt(LIMIT, state, now)
        assert isinstance(counted, LoginAttempts)
        state, wait = counted, 0.0
        if state.blocked_until is not None:
            wait = (state.blocked_until - now).total_seconds()
            refused = count_attempt(LIMIT, state, now + timedelta(seconds=wait / 2))
            assert refused == LoginBlocked(wait / 2), "a refused attempt does not lengthen the block"
        waits.append(wait)
        now += timedelta(seconds=wait)
    assert waits == [0, 0, 0, 2, 4, 8, 10]


def test_of_many_at_once_no_more_than_the_free_ones_and_one_pass() -> None:
    state, passed = LoginAttempts(), 0
    for _ in range(50):
        counted = count_attempt(LIMIT, state, START)
        if isinstance(counted, LoginAttempts):
            state, passed = counted, passed + 1
    assert passed == 4


def test_old_attempts_are_forgotten() -> None:
    before = LoginAttempts(50, START + timedelta(seconds=10), START)
    late = count_attempt(LIMIT, before, START + timedelta(seconds=3601))
    assert late == LoginAttempts(1, None, START + timedelta(seconds=3601))
    early = count_attempt(LIMIT, before, START + timedelta(seconds=3600))
    assert isinstance(early, LoginAttempts)
    assert early.failures == 51


def test_a_login_takes_only_its_own_attempt_back() -> None:
    """Otherwise somebody with an account of their own could log in between guesses."""
    counted = count_attempt(LIMIT, LoginAttempts(5, None, START), START)
    assert isinstance(counted, LoginAttempts)
    assert take_back(counted) == LoginAttempts(5, None, START)
    assert take_back(LoginAttempts()) == LoginAttempts()


def test_the_wait_has_a_limit_after_any_number_of_attempts() -> None:
    assert LIMIT.block(10_000) == 10.0


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("testclient", "testclient"),
    ],
)
def test_all_addresses_of_one_customer_count_together(address: str, network: str) -> None:
    assert network_of(address) == network
