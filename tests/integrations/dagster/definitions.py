"""What other processes of Dagster load: `dagster … -m tests.integrations.dagster.definitions`.

The schedule and the sensor are switched on. One more schedule fails at every tick.
"""

import dagster as dg

from rowmill.integrations.dagster import MillResource, backlog_sensor, drain_job, drain_schedule, oldest_ready_check
from tests.integrations.parcels import Parcel

drain_parcels = drain_job(name="drain_parcels", queue="parcel")
drain_labels = drain_job(name="drain_labels", queue="label")
drain_apart = drain_job(name="drain_apart", queue="parcel", executor=dg.multiprocess_executor)
parcels = dg.AssetSpec(Parcel.__tablename__)


def broken() -> bool:
    raise RuntimeError("this schedule always fails")


defs = dg.Definitions(
    assets=[parcels],
    asset_checks=[oldest_ready_check(asset=parcels, queue="parcel", max_age=600)],
    jobs=[drain_parcels, drain_apart, drain_labels],
    schedules=[
        drain_schedule(
            drain_parcels,
            cron="* * * * *",
            name="every_minute",
            default_status=dg.DefaultScheduleStatus.RUNNING,
        ),
        drain_schedule(
            drain_parcels,
            cron="* * * * *",
            name="broken",
            enabled=broken,
            default_status=dg.DefaultScheduleStatus.RUNNING,
        ),
    ],
    sensors=[
        backlog_sensor(
            drain_labels,
            queue="label",
            threshold=2,
            name="many_labels",
            every=1,
            default_status=dg.DefaultSensorStatus.RUNNING,
        )
    ],
    resources={"mill": MillResource(app="tests.integrations.parcels:mill_of_environment")},
)
