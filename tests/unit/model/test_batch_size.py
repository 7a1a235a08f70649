"""How many rows one statement takes."""

from rowmill.model.batch_size import FLOOR, TARGET, BatchSize


def test_a_slow_statement_is_followed_by_one_that_should_take_the_time_that_is_aimed_at() -> None:
    size = BatchSize(1000)
    size.took(TARGET * 4, 1000)
    assert size.rows == 250
    assert size.seconds_per_row == TARGET * 4 / 1000


def test_a_database_that_is_slow_whatever_the_number_of_rows_still_gets_many_at_a_time() -> None:
    size = BatchSize(1000)
    for _ in range(50):
        size.took(TARGET * 1.2, size.rows)
    assert size.rows == FLOOR
    size.took(TARGET * 1.2, 1)
    assert size.rows == FLOOR, "one slow row says nothing of a hundred"


def test_a_quick_one_lets_it_grow_but_no_further_than_rows_of_that_pace_allow() -> None:
    size = BatchSize(1000)
    size.took(TARGET * 4, 1000)
    size.took(TARGET / 10, 250)
    assert size.rows == 500
    for _ in range(10):
        size.took(TARGET / 5, 1)  # each row takes a fifth of the time: five fit, and it stays where it is
    assert size.rows == 500


def test_it_forgets_the_slow_one_when_it_is_back_at_its_largest() -> None:
    size = BatchSize(1000)
    size.took(TARGET * 4, 1000)
    for _ in range(3):
        size.took(TARGET / 1000, size.rows)
    assert (size.rows, size.seconds_per_row) == (1000, 0.0)


def test_a_cancelled_statement_is_halved_down_to_one_row() -> None:
    size = BatchSize(1000)
    sizes = []
    for _ in range(5):
        size.cut(1.0, min(size.rows, 10))
        sizes.append(size.rows)
    assert sizes == [5, 2, 1, 1, 1]
    assert size.cancelled == 5
    assert size.seconds_per_row == 1.0
