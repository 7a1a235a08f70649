"""The watermark is a short cut that must never strand a row for long."""

from rowmill.store.watermark import FEW, LIFETIME, LONGEST, MAX_LEVELS, Position, Stretch, Watermark


def started(levels: list[object] | None = None) -> Watermark:
    mark = Watermark(by_level=levels is not None)
    mark.start(levels or [None], now=0.0)
    return mark


def take(mark: Watermark, *positions: Position) -> None:
    mark.passed(positions, lambda position: position)


def test_it_starts_without_positions() -> None:
    assert started().shape == ((Stretch.AT_ONCE, False), (Stretch.TIMED, False))


def test_each_lane_remembers_the_last_row_taken_from_it() -> None:
    mark = started()
    take(mark, (None, None, (8,)), (None, None, (9,)), (None, 10, (1,)), (None, 20, (2,)))
    assert mark.arguments() == [9, 20, 2]


def test_a_lane_nothing_was_taken_from_is_looked_at_from_its_start() -> None:
    mark = started()
    take(mark, (None, 20, (2,)))
    assert mark.shape == ((Stretch.AT_ONCE, False), (Stretch.TIMED, True))


def test_priorities_have_lanes_of_their_own() -> None:
    mark = started(levels=[10, 0])
    take(mark, (10, 5, (1,)), (0, 7, (3,)))
    assert mark.arguments() == [10, 10, 5, 1, 0, 0, 7, 3]


def test_it_expires_and_is_dropped() -> None:
    mark = started()
    assert not mark.expired(LIFETIME)
    assert mark.expired(LIFETIME + 0.1)
    mark.drop()
    assert mark.expired(0.0)


def test_it_stays_dropped_if_that_came_while_a_claim_was_under_way() -> None:
    mark = started()
    mark.drop()
    take(mark, (None, 7, (3,)))
    assert mark.expired(0.0)
    assert not mark.resumes


def test_dear_looks_from_the_start_come_less_often() -> None:
    mark = started()
    mark.looked(0.0, 0.5)
    assert not mark.expired(24.0)
    assert mark.expired(26.0)
    mark.looked(0.0, 100.0)
    assert mark.expired(LONGEST + 1), "but they come"
    mark.looked(0.0, 0.001)
    assert mark.expired(LIFETIME + 0.1)


def test_too_many_priorities_are_one_plain_scan() -> None:
    mark = started(levels=list(range(MAX_LEVELS + 1)))
    assert mark.shape == ((Stretch.WHOLE, False),)
    take(mark, (0, 7, (3,)))
    assert mark.arguments() == []


def test_a_short_claim_looks_back_at_once_unless_every_look_has_become_dear() -> None:
    mark = started()
    for _ in range(4):
        mark.looked(0.0, 0.1)
        assert mark.may_look_back(0.0), "one dear look may have been for other reasons"
    mark.looked(0.0, 0.1)
    assert not mark.may_look_back(1.9)
    assert mark.may_look_back(2.1)
    mark.looked(0.0, 0.001)
    assert mark.may_look_back(0.0)


def test_a_look_that_found_much_says_nothing_of_the_way_there() -> None:
    mark = started()
    for _ in range(10):
        mark.looked(0.0, 0.1, FEW)
    assert mark.may_look_back(0.0)


def test_after_a_look_from_the_start_that_found_all_there_was_it_goes_on_from_where_it_was() -> None:
    mark = started()
    take(mark, (None, 7, (3,)))
    mark.start([None], 0.0)
    assert not mark.resumes
    mark.go_on()
    assert mark.arguments() == [7, 3]
    mark.drop()
    mark.start([None], 0.0)
    take(mark, (None, 9, (1,)))
    mark.go_on()
    assert mark.arguments() == [9, 1], "or from what it found"


def test_no_position_has_a_part_that_is_empty() -> None:
    """Nothing is behind that, nor before it."""
    mark = started()
    take(mark, (None, 7, (None, 3)))
    mark.begins([(1, (7, None, 3))], 0.0)
    assert not mark.resumes
