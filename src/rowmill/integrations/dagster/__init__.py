"""Rowmill inside Dagster: a job that drains a queue, a schedule and a sensor that start it, and an asset check.

    import dagster as dg
    from rowmill.integrations.dagster import MillResource, backlog_sensor, drain_job, drain_schedule

    drain_orders = drain_job(name="drain_orders", queue="orders")
    defs = dg.Definitions(
        jobs=[drain_orders],
        schedules=[drain_schedule(drain_orders, cron="0 * * * *")],
        sensors=[backlog_sensor(drain_orders, queue="orders", threshold=1000)],
        resources={"mill": MillResource(app="shop:mill")},
    )

Rows keep their own attempts, waits and leases: a run that fails, or is terminated, loses none of them.
"""

from rowmill.integrations.dagster.check import oldest_ready_check
from rowmill.integrations.dagster.job import DrainConfig, ProcessQueue, drain_job
from rowmill.integrations.dagster.resource import MillResource
from rowmill.integrations.dagster.schedule import drain_schedule
from rowmill.integrations.dagster.sensor import backlog_sensor

__all__ = [
    "DrainConfig",
    "MillResource",
    "ProcessQueue",
    "backlog_sensor",
    "drain_job",
    "drain_schedule",
    "oldest_ready_check",
]
