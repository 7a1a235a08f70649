"""A sensor that starts a job when many rows wait."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import dagster as dg
import sqlalchemy as sa

from rowmill.integrations.dagster.deadline import BoundedCall, ask, is_away, reason
from rowmill.integrations.dagster.resource import KEY, mill_of
from rowmill.integrations.dagster.schedule import is_enabled
from rowmill.integrations.mills import as_names, chosen_queues
from rowmill.mill import Mill
from rowmill.model.duration import Duration, in_seconds
from rowmill.model.errors import DeclarationError
from rowmill.operator.counts import depth

UNFINISHED = (
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
)


def backlog_sensor(
    job: dg.JobDefinition,
    *,
    threshold: int | Callable[[], int],
    queue: str | Sequence[str] | None = None,
    pending: Callable[[], int] | None = None,
    name: str | None = None,
    every: Duration = 300.0,
    enabled: bool | Callable[[], bool] = True,
    wait_for_run: Duration = 3600.0,
    deadline: Duration = 20.0,
    resource: str = KEY,
    run_config: Mapping[str, Any] | None = None,
    tags: Mapping[str, str] | None = None,
    default_status: dg.DefaultSensorStatus = dg.DefaultSensorStatus.STOPPED,
    description: str | None = None,
) -> dg.SensorDefinition:
    """Return a sensor that starts the job when more than `threshold` rows wait in the queues, or `pending()` says so.

    Rows are counted up to the threshold and not beyond. A backlog that stays starts the job again at the next tick,
    with another run key. While a run of the job is queued or running, none is added, for `wait_for_run` at the longest:
    a run whose process died without a word does not silence the sensor. 0 means that runs may overlap.

    A tick ends within `deadline`. If the database does not answer, the tick is skipped, with the reason. Any other
    error fails the tick, and no other sensor.
    """
    if pending is not None and queue is not None:
        raise DeclarationError(job.name, ["give a queue or a function `pending`, not both"], "sensor of")
    name, names, patience = name or f"{job.name}_sensor", as_names(queue), in_seconds(wait_for_run)
    bounded: BoundedCall[int] = BoundedCall(in_seconds(deadline))

    def count(context: dg.SensorEvaluationContext, limit: int) -> int:
        if pending is not None:
            return bounded(pending)
        mill = mill_of(getattr(context.resources, resource))
        return bounded(lambda: count_ready(mill, names, limit + 1, bounded.seconds))

    def evaluate(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
        if not is_enabled(enabled):
            return dg.SkipReason(f"{name} is switched off")
        if patience and has_unfinished_run(context, job.name, patience):
            return dg.SkipReason(f"a run of {job.name} is queued or running")
        limit = threshold() if callable(threshold) else threshold
        try:
            found = count(context, limit)
        except Exception as error:
            if not is_away(error):
                raise
            context.log.warning("the rows could not be counted: %s", reason(error))
            return dg.SkipReason(f"the rows could not be counted: {reason(error)}")
        if found <= limit:
            return dg.SkipReason(f"{found:,} rows wait. {job.name} starts above {limit:,}")
        # Dagster remembers a run key for ever. This one is made from the time of the last request, which is the cursor:
        # a tick that is evaluated again after a crash has the same, and the next tick has another. Without a cursor, as
        # after a reset, it is made from the time of this request.
        now = utc_now().isoformat()
        key = f"{name}_after_{context.cursor}" if context.cursor else f"{name}_{now}"
        request = dg.RunRequest(run_key=key, run_config=dict(run_config or {}), tags=dict(tags or {}))
        return dg.SensorResult(run_requests=[request], cursor=now)

    return dg.SensorDefinition(
        name=name,
        job=job,
        evaluation_fn=evaluate,
        minimum_interval_seconds=round(in_seconds(every)),
        required_resource_keys=None if pending else {resource},
        default_status=default_status,
        description=description,
    )


def utc_now() -> datetime:
    return datetime.now(UTC)


def count_ready(mill: Mill, names: Sequence[str] | None, most: int, seconds: float) -> int:
    """Count the rows that wait in these queues together, up to `most`."""

    def counted(connection: sa.Connection) -> int:
        found = 0
        for queue in chosen_queues(mill, names):
            if found < most:
                found += depth(connection, mill.store.sql(queue), most - found).rows
        return found

    return ask(mill, counted, seconds)


def has_unfinished_run(context: dg.SensorEvaluationContext, job: str, seconds: float) -> bool:
    """Return whether a run of the job that was created in the last `seconds` has not ended."""
    try:
        instance = context.instance
    except dg.DagsterInvariantViolationError:  # a context of a test, without an instance
        return False
    since = utc_now() - timedelta(seconds=seconds)
    return bool(instance.get_runs_count(dg.RunsFilter(job_name=job, statuses=UNFINISHED, created_after=since)))
