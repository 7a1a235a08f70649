"""The guide to Dagster does what it says, on both databases."""

import asyncio
import importlib.util
import sys
from typing import Any

import dagster as dg
import pytest

from tests.docs.pages import run_page
from tests.integrations.parcels import states

pytestmark = pytest.mark.empty_database


@pytest.fixture
def guide(database_url: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The names of the guide. The module `shop` has them, too."""
    monkeypatch.setenv("DATABASE_URL", database_url)
    guide = run_page("docs/guides/dagster.md")
    spec = importlib.util.spec_from_loader("shop", loader=None)
    assert spec is not None
    shop = importlib.util.module_from_spec(spec)
    vars(shop).update(mill=guide["mill"])
    monkeypatch.setitem(sys.modules, "shop", shop)
    asyncio.run(guide["mill"].migrate(tables=True))
    return guide


def test_the_job_of_the_guide_drains_the_orders(guide: dict[str, Any]) -> None:
    mill, defs = guide["mill"], guide["defs"]
    asyncio.run(mill.run(lambda c: c.execute(mill["orders"].insert([{"address": "a"}, {"address": "b"}])).close()))
    job = defs.resolve_job_def("drain_orders")

    planned = job.execute_in_process(run_config=guide["config"]).output_for_node("drain_orders_op")
    drained = job.execute_in_process().output_for_node("drain_orders_op")

    assert (planned["orders.ready"], drained["done"]) == (2, 2)
    assert states(mill, "orders") == {"done": 2}


def test_all_that_the_guide_defines_fits_together(guide: dict[str, Any]) -> None:
    more = dg.Definitions(
        jobs=[guide["check_orders"], guide["import_job"]],
        schedules=[guide["nightly"], guide["every_ten_minutes"]],
        sensors=[guide["switched"], guide["many_prices"]],
    )
    defs = dg.Definitions.merge(guide["defs"], more)
    dg.Definitions.validate_loadable(defs)

    with dg.DagsterInstance.ephemeral() as instance:
        checked = defs.resolve_job_def("check_orders").execute_in_process(instance=instance)
        imported = defs.resolve_job_def("import_prices").execute_in_process(instance=instance)

    assert [found.passed for found in checked.get_asset_check_evaluations()] == [True]
    assert imported.output_for_node("import_prices_op") == {"imported": 50}


def test_the_switch_of_the_guide(guide: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def tick() -> Any:
        with dg.build_sensor_context(resources={"mill": guide["mill"]}) as context:
            return guide["switched"].evaluate_tick(context)

    assert tick().skip_message == "0 rows wait. drain_orders starts above 1,000"
    monkeypatch.setenv("ORDERS_SENSOR", "off")
    assert tick().skip_message == "switched_sensor is switched off"
    assert guide["many_prices"].evaluate_tick(dg.build_sensor_context()).run_requests
