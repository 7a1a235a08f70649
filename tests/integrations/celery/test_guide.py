"""The guide to Celery does what it says, on both databases."""

import asyncio
import importlib.util
import sys
from typing import Any

import pytest

from rowmill.integrations.mills import made_mill
from tests.docs.pages import run_page
from tests.integrations.parcels import states

pytestmark = pytest.mark.empty_database


@pytest.fixture
def guide(database_url: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The names of the guide. The module `shop` has them, too."""
    monkeypatch.setenv("DATABASE_URL", database_url)
    spec = importlib.util.spec_from_loader("shop", loader=None)
    assert spec is not None
    shop = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "shop", shop)
    made_mill.cache_clear()
    guide = run_page("docs/guides/celery.md")
    vars(shop).update(mill=guide["mill"])
    asyncio.run(guide["mill"].migrate(tables=True))
    return guide


def test_the_tasks_of_the_guide_do_what_it_says(guide: dict[str, Any]) -> None:
    mill = guide["mill"]
    asyncio.run(mill.run(lambda c: c.execute(mill["orders"].insert([{"address": "a"}, {"address": "b"}])).close()))

    assert guide["drain_orders"]()["done"] == 2
    assert states(mill, "orders") == {"done": 2}
    assert guide["prune"]() == {"orders.done": 0, "own_tables": 0}
    assert guide["import_prices_task"]() == {"imported": 12}
    assert guide["drain_often"]()["done"] == 0


def test_the_schedule_of_the_guide(guide: dict[str, Any]) -> None:
    schedule = guide["app"].conf.beat_schedule
    assert {name: entry["options"] for name, entry in schedule.items()} == {
        "drain_orders": {"expires": 10}, "prune": {"expires": 86400.0}
    }  # fmt: skip
    assert set(schedule) <= set(guide["app"].tasks)
