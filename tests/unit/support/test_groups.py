"""Tests of one group run in one process, so that what they share is made once."""

import pytest

pytestmark = pytest.mark.xdist_group("a group")


@pytest.mark.parametrize("name", ["plain", "with [brackets]"])
def test_the_group_of_a_test_is_behind_its_id(request: pytest.FixtureRequest, name: str) -> None:
    in_groups = hasattr(request.config, "workerinput") and request.config.getoption("loadgroup", False)

    assert request.node.nodeid.endswith("@a group") == bool(in_groups)
    assert f"[{name}]" in request.node.nodeid
