"""How far back a sweep looks: over everything while that is cheap, and never only at the newest for long."""

from rowmill.maintenance.upkeep import LONGEST, MARGIN, SweepReach


def swept(reach: SweepReach, at: float, took: float, *, left: bool = False) -> float | None:
    back = reach.back(at)
    reach.swept(at, at + took, back, left=left)
    return back


def test_cheap_sweeps_look_at_everything() -> None:
    reach = SweepReach()
    assert [swept(reach, at, 0.01) for at in (0.0, 10.0, 20.0)] == [None, None, None]


def test_dear_ones_come_less_often_and_in_between_everything_since_the_last_is_seen() -> None:
    reach = SweepReach()
    assert swept(reach, 0.0, 1.0) is None
    for at, since in ((10.0, 10.0), (20.0, 10.0), (50.9, 30.9)):
        back = swept(reach, at, 0.01)
        assert back is not None
        assert back >= since + MARGIN
    assert swept(reach, 51.1, 1.0) is None, "a sweep of a second gets a fiftieth of the time"


def test_a_sweep_over_everything_comes_however_dear() -> None:
    reach = SweepReach()
    swept(reach, 0.0, 30.0)
    assert reach.back(30.0 + LONGEST - 1) is not None
    assert reach.back(30.0 + LONGEST) is None


def test_where_some_are_left_the_next_looks_at_everything() -> None:
    reach = SweepReach()
    swept(reach, 0.0, 1.0)
    swept(reach, 10.0, 0.1, left=True)
    assert reach.back(10.2) is None


def test_the_next_sweeps_share_a_statement() -> None:
    reach = SweepReach()
    swept(reach, 0.0, 1.0)
    assert len({swept(reach, float(at), 0.01) for at in (5, 12, 20, 29)}) == 1
