"""Every interleaving of the protocol is looked at; with any of its guards taken out, one of them goes wrong."""

from dataclasses import replace

import pytest

from faults.model.explore import explore
from faults.model.machine import Rules

RULES = Rules()
LATE = Rules(rows=2, late=1, crashes=0)
TOKENS = 4


@pytest.mark.parametrize(("rules", "tokens"), [(RULES, TOKENS), (LATE, 3), (Rules(rows=1, workers=3), TOKENS)])
def test_the_protocol_holds_in_every_interleaving(rules: Rules, tokens: int) -> None:
    explored = explore(rules, tokens)
    assert explored.fault is None, str(explored.fault)
    assert explored.states > 100, "there is something to look at"


@pytest.mark.parametrize(
    ("mistake", "said"),
    [
        ("fence_settle", "a settlement of lease 1 was accepted on lease 0"),
        ("fence_renew", "renewed the row of lease"),
        ("fence_release", "gave back the row of lease"),
        ("rescue_looks_again", "which had not run out"),
    ],
)
def test_a_guard_taken_out_is_found(mistake: str, said: str) -> None:
    explored = explore(replace(RULES, **{mistake: False}), TOKENS)
    assert explored.fault is not None
    assert said in explored.fault.what
    assert explored.fault.steps, "and the way to it is told"


def test_a_watermark_that_is_never_reset_strands_a_late_row() -> None:
    explored = explore(replace(LATE, watermark_resets=False), 3)
    assert explored.fault is not None
    assert explored.fault.what == "nothing can happen any more, and row 0 is ready"
