"""A schedule that starts a job."""

from collections.abc import Callable, Mapping
from typing import Any

import dagster as dg


def drain_schedule(
    job: dg.JobDefinition,
    *,
    cron: str,
    timezone: str = "UTC",
    name: str | None = None,
    run_key: str | None = None,
    enabled: bool | Callable[[], bool] = True,
    run_config: Mapping[str, Any] | None = None,
    tags: Mapping[str, str] | None = None,
    default_status: dg.DefaultScheduleStatus = dg.DefaultScheduleStatus.STOPPED,
    description: str | None = None,
) -> dg.ScheduleDefinition:
    """Return a schedule that starts the job at the times of `cron`.

    The key of a run is `run_key`, or the name of the schedule, with the scheduled time: one run for each time, also if
    two daemons evaluate it. `enabled`, a function perhaps, is asked at every tick; if it returns False the tick is
    skipped, with a reason. Like any schedule of Dagster, it has to be switched on first, unless `default_status` says
    otherwise.
    """
    name = name or f"{job.name}_schedule"
    prefix = run_key or name

    def evaluate(context: dg.ScheduleEvaluationContext) -> dg.RunRequest | dg.SkipReason:
        if not is_enabled(enabled):
            return dg.SkipReason(f"{name} is switched off")
        moment = context.scheduled_execution_time.isoformat()
        return dg.RunRequest(run_key=f"{prefix}_{moment}", run_config=dict(run_config or {}), tags=dict(tags or {}))

    return dg.ScheduleDefinition(
        name=name,
        job=job,
        cron_schedule=cron,
        execution_timezone=timezone,
        execution_fn=evaluate,
        default_status=default_status,
        description=description,
    )


def is_enabled(switch: bool | Callable[[], bool]) -> bool:
    """Return whether a switch is on. It may be a function."""
    return switch() if callable(switch) else switch
