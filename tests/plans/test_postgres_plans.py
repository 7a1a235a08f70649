"""No hot statement reads more of a million rows than it has to, whatever the planner believes about them."""

import pytest

from tests.plans.conftest import CACHED, FRESH, MODES, REGIMES, Plans

pytestmark = [pytest.mark.xdist_group("plans"), pytest.mark.timeout(300)]

CASES = [(regime, mode) for regime in REGIMES for mode in MODES if (regime, mode) != (CACHED, "custom")]


@pytest.mark.parametrize(("regime", "mode"), CASES, ids=[f"statistics {r}, {m} plan" for r, m in CASES])
def test_statements_read_the_table_by_their_own_indexes(plans: Plans, regime: str, mode: str) -> None:
    found = plans.found[regime, mode]
    wrong = []
    for statement in plans.statements:
        if statement.needs_statistics and regime != FRESH:
            continue
        plan, name = found.get(statement.name), f"{statement.queue.name}: {statement.name}"
        if plan is None:
            wrong.append(f"{name} was cut off")
            continue
        reads = plan.reads(statement.queue.name)
        if reads != statement.indexes:
            wrong.append(f"{name} reads {sorted(reads)}, not {sorted(statement.indexes)}")
        if plan.sorted_rows > statement.rows:
            wrong.append(f"{name} sorts {plan.sorted_rows} rows")
        if plan.buffers > statement.most:
            wrong.append(f"{name} looks at {plan.buffers} pages, not {statement.most} at the most")
    assert not wrong, "\n".join(wrong)
