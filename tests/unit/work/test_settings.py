"""Settings that are made in code are checked as those from the environment are, and in the same words."""

from dataclasses import replace
from typing import Any

import pytest

from rowmill.model.errors import BadRequest
from rowmill.worker import WorkerSettings
from rowmill.worker.settings import PREFIX, from_environment

WRONG = {"poll_max": float("nan"), "poll_base": float("inf"), "heartbeat": 0, "grace": -1, "rescue_most": 1.5}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_with_a_setting_is_said_as_for_the_environment(name: str) -> None:
    with pytest.raises(BadRequest) as of_environment:
        from_environment(environment={PREFIX + name.upper(): str(WRONG[name])})
    with pytest.raises(BadRequest) as of_code:
        WorkerSettings(**{name: WRONG[name]})  # type: ignore[arg-type]
    assert str(of_code.value).startswith(f"{name} is {WRONG[name]!r}: ")
    assert str(of_code.value).split(": ", 1)[1] == str(of_environment.value).split(": ", 1)[1]


@pytest.mark.parametrize("value", ["5", None, True])
def test_what_is_no_number(value: Any) -> None:
    with pytest.raises(BadRequest, match=r"grace is .*: a number of seconds is needed"):
        WorkerSettings(grace=value)
    with pytest.raises(BadRequest, match=r"rescue_most is .*: a whole number is needed"):
        WorkerSettings(rescue_most=value)


def test_all_of_it_is_said_at_once() -> None:
    with pytest.raises(BadRequest) as caught:
        WorkerSettings(**WRONG)  # type: ignore[arg-type]
    assert all(f"{name} is " in str(caught.value) for name in WRONG)


def test_a_change_is_checked_too() -> None:
    with pytest.raises(BadRequest, match="poll_max is 0: it must be more than 0"):
        replace(WorkerSettings(), poll_max=0)


def test_zero_where_it_has_a_meaning() -> None:
    assert WorkerSettings(grace=0, keep_history=0).grace == 0


def test_the_default_grace_leaves_time_to_give_rows_back_before_kubernetes_kills() -> None:
    assert WorkerSettings().grace <= 30 - 5


@pytest.mark.parametrize(
    ("text", "bytes_"), [("1048576", 1 << 20), ("1024K", 1 << 20), ("1m", 1 << 20), ("2G", 2 << 30)]
)
def test_a_size_may_have_a_unit(text: str, bytes_: int) -> None:
    assert from_environment(environment={"ROWMILL_CLAIMED_BYTES": text}).claimed_bytes == bytes_


@pytest.mark.parametrize("text", ["much", "M", "1.5G", "10X"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(BadRequest, match="a number of bytes is needed, such as 268435456 or 256M"):
        from_environment(environment={"ROWMILL_CLAIMED_BYTES": text})


def test_a_budget_of_nothing_is_refused() -> None:
    with pytest.raises(BadRequest, match="claimed_bytes is 0: it must be more than 0"):
        WorkerSettings(claimed_bytes=0)
