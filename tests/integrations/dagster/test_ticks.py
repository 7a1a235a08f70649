"""Schedules and sensors of Dagster start jobs, or say why not."""

import socket
import threading
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import dagster as dg
import pytest
import sqlalchemy as sa

import rowmill as rm
from rowmill.errors import BadRequest, DeclarationError, SchemaMismatch
from rowmill.integrations.dagster import backlog_sensor, drain_job, drain_schedule
from rowmill.integrations.dagster.deadline import BoundedCall, TickOverdue, is_away, reason
from rowmill.operator.counts import depth
from tests.integrations.parcels import make_mill, put

JOB = drain_job(name="drain_parcels", queue="parcel")
ONE = datetime(2026, 3, 1, 13, tzinfo=ZoneInfo("Asia/Shanghai"))


def evaluate(schedule: dg.ScheduleDefinition, at: datetime = ONE) -> Any:
    context = dg.build_schedule_context(scheduled_execution_time=at)
    return schedule.evaluate_tick(context)


def test_a_schedule_starts_one_run_for_each_time() -> None:
    schedule = drain_schedule(JOB, cron="0 * * * *", timezone="Asia/Shanghai", name="hourly", tags={"team": "a"})

    [first], [again], [later] = (evaluate(schedule, at).run_requests for at in (ONE, ONE, ONE + timedelta(hours=1)))

    assert first.run_key == again.run_key == "hourly_2026-03-01T13:00:00+08:00"
    assert later.run_key == "hourly_2026-03-01T14:00:00+08:00"
    assert first.tags["team"] == "a"
    assert (schedule.cron_schedule, schedule.execution_timezone) == ("0 * * * *", "Asia/Shanghai")
    assert schedule.default_status is dg.DefaultScheduleStatus.STOPPED


def test_the_hour_that_comes_twice_has_two_runs() -> None:
    schedule = drain_schedule(JOB, cron="30 * * * *", timezone="Europe/Berlin")
    once = datetime(2026, 10, 25, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"))

    keys = {evaluate(schedule, once.replace(fold=fold)).run_requests[0].run_key for fold in (0, 1)}

    assert len(keys) == 2


def test_a_schedule_that_is_switched_off_is_skipped_with_the_reason() -> None:
    switch = iter([False, True])
    schedule = drain_schedule(JOB, cron="0 * * * *", run_key="key", enabled=lambda: next(switch))

    off, on = evaluate(schedule), evaluate(schedule)

    assert (off.skip_message, off.run_requests) == ("drain_parcels_schedule is switched off", [])
    assert [request.run_key for request in on.run_requests] == [f"key_{ONE.isoformat()}"]


def test_the_configuration_of_a_schedule_reaches_its_run() -> None:
    config = {"ops": {"drain_parcels_op": {"config": {"batch_size": 5}}}}
    [request] = evaluate(drain_schedule(JOB, cron="0 * * * *", run_config=config)).run_requests

    assert request.run_config == config


def test_a_cron_expression_that_is_none_is_refused() -> None:
    with pytest.raises(dg.DagsterInvalidDefinitionError, match="cron"):
        drain_schedule(JOB, cron="every hour")


Tick = Callable[..., Any]


def tick_of(sensor: dg.SensorDefinition, instance: dg.DagsterInstance | None = None, **resources: Any) -> Tick:
    """A function that evaluates a sensor, and carries its cursor from tick to tick as the daemon does."""
    state: dict[str, str | None] = {"cursor": None}

    def tick() -> Any:
        with dg.build_sensor_context(instance=instance, cursor=state["cursor"], resources=resources) as context:
            result = sensor.evaluate_tick(context)
        state["cursor"] = result.cursor
        return result

    return tick


def keys(result: Any) -> list[str]:
    return [request.run_key for request in result.run_requests]


def test_a_sensor_starts_the_job_above_the_threshold_and_again_while_the_backlog_stays(
    mill: rm.Mill, instance: dg.DagsterInstance
) -> None:
    tick = tick_of(backlog_sensor(JOB, queue="parcel", threshold=2), instance, mill=mill)

    put(mill, "a", "b")
    at_threshold = tick()
    put(mill, "c", "d", "e")
    first, second, third = tick(), tick(), tick()

    assert at_threshold.skip_message == "2 rows wait. drain_parcels starts above 2"
    assert len({*keys(first), *keys(second), *keys(third)}) == 3


def test_a_tick_that_is_evaluated_again_after_a_crash_has_the_same_run_key(mill: rm.Mill) -> None:
    put(mill, "a")
    sensor = backlog_sensor(JOB, queue="parcel", threshold=0)
    requests = []
    for cursor in ("2026-03-01T05:00:00+00:00", "2026-03-01T05:00:00+00:00", None, None):
        with dg.build_sensor_context(cursor=cursor, resources={"mill": mill}) as context:
            requests += keys(sensor.evaluate_tick(context))

    assert requests[0] == requests[1] == "drain_parcels_sensor_after_2026-03-01T05:00:00+00:00"
    assert len(set(requests)) == 3, "after a reset of the cursor, no earlier key comes back"


def test_a_sensor_counts_no_further_than_it_needs(mill: rm.Mill, monkeypatch: pytest.MonkeyPatch) -> None:
    put(mill, *"abcdefgh")
    put(mill, *"abcdefgh", queue="label")
    asked: list[int] = []

    def counting(connection: Any, sql: Any, at_least: int) -> Any:
        asked.append(at_least)
        return depth(connection, sql, at_least)

    monkeypatch.setattr("rowmill.integrations.dagster.sensor.depth", counting)

    assert keys(tick_of(backlog_sensor(JOB, threshold=9), mill=mill)())
    assert asked == [10, 2]


# A run that is queued can't be made without a workspace.
@pytest.mark.parametrize("status", ["NOT_STARTED", "STARTING", "STARTED", "CANCELING"])
def test_a_sensor_adds_no_run_while_one_is_queued_or_running(instance: dg.DagsterInstance, status: str) -> None:
    tick = tick_of(backlog_sensor(JOB, pending=lambda: 5, threshold=2), instance)
    run = instance.create_run_for_job(JOB, status=dg.DagsterRunStatus[status])

    waiting = tick()
    instance.delete_run(run.run_id)
    instance.create_run_for_job(JOB, status=dg.DagsterRunStatus.FAILURE)

    assert (waiting.skip_message, keys(waiting)) == ("a run of drain_parcels is queued or running", [])
    assert keys(tick())


def test_a_run_that_never_ends_does_not_silence_the_sensor_for_ever(
    instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    instance.create_run_for_job(JOB, status=dg.DagsterRunStatus.STARTED)
    tick = tick_of(backlog_sensor(JOB, pending=lambda: 5, threshold=2), instance)
    overlapping = tick_of(backlog_sensor(JOB, pending=lambda: 5, threshold=2, wait_for_run=0), instance)

    assert not keys(tick())
    assert keys(overlapping())
    later = datetime.now(UTC) + timedelta(minutes=61)
    monkeypatch.setattr("rowmill.integrations.dagster.sensor.utc_now", lambda: later)
    assert keys(tick())


def test_a_run_of_another_job_does_not_count(instance: dg.DagsterInstance) -> None:
    instance.create_run_for_job(drain_job(name="other"), status=dg.DagsterRunStatus.STARTED)

    assert keys(tick_of(backlog_sensor(JOB, pending=lambda: 5, threshold=2), instance)())


def test_a_sensor_that_is_switched_off_counts_nothing() -> None:
    def pending() -> int:
        raise AssertionError("it was asked")

    result = tick_of(backlog_sensor(JOB, pending=pending, threshold=2, enabled=False))()

    assert result.skip_message == "drain_parcels_sensor is switched off"


def test_a_threshold_may_change_between_ticks() -> None:
    thresholds = iter([10, 1])
    tick = tick_of(backlog_sensor(JOB, pending=lambda: 5, threshold=lambda: next(thresholds)))

    assert (keys(tick()), len(keys(tick()))) == ([], 1)


def test_a_database_that_is_away_is_a_skipped_tick_with_the_reason() -> None:
    away = make_mill("postgresql://nobody:secret@127.0.0.1:1/nowhere")
    result = tick_of(backlog_sensor(JOB, queue="parcel", threshold=2), mill=away)()

    assert result.skip_message.startswith("the rows could not be counted: PostgreSQL at")
    assert "secret" not in result.skip_message


def test_a_file_that_is_missing_is_not_created(tmp_path: Path) -> None:
    mill = make_mill(f"sqlite:///{tmp_path / 'no.db'}")

    with pytest.raises(SchemaMismatch, match="there is no SQLite file"):
        tick_of(backlog_sensor(JOB, queue="parcel", threshold=2), mill=mill)()
    assert list(tmp_path.iterdir()) == []


def test_a_database_that_does_not_answer_ends_the_tick_at_its_deadline() -> None:
    """It takes the connection, and says nothing more."""
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:
        mill = make_mill(f"postgresql://nobody@127.0.0.1:{silent.getsockname()[1]}/nowhere")
        tick = tick_of(backlog_sensor(JOB, queue="parcel", threshold=2, deadline=0.2), mill=mill)

        assert "did not answer" in tick().skip_message


def test_a_mistake_fails_the_tick_and_is_not_taken_for_a_database_that_is_away(database_url: str) -> None:
    """A table that is missing: it would be skipped for ever."""
    tick = tick_of(backlog_sensor(JOB, queue="parcel", threshold=2), mill=make_mill(database_url))

    with pytest.raises(sa.exc.DBAPIError, match="parcel"):
        tick()


@pytest.mark.parametrize(
    ("error", "away"),
    [
        (OSError("gone"), True),
        (sa.exc.OperationalError("SELECT 1", {}, Exception("the server closed the connection\nunexpectedly")), True),
        (sa.exc.ProgrammingError("SELECT 1", {}, Exception("no such column")), False),
        (ValueError("a name from a row"), False),
    ],
)
def test_which_errors_mean_that_a_database_is_away(error: Exception, away: bool) -> None:
    assert is_away(error) is away


def test_a_reason_is_one_line_without_the_statement() -> None:
    error = sa.exc.OperationalError("SELECT 1", {}, Exception("the server closed the connection\nunexpectedly"))

    assert (reason(error), reason(OSError())) == ("the server closed the connection", "OSError")


def test_calls_behind_a_database_that_hangs_do_not_pile_up() -> None:
    bounded: BoundedCall[int] = BoundedCall(0.05)
    answered, calls = threading.Event(), []

    def hang() -> int:
        calls.append(1)
        answered.wait(30)
        return 1

    for expected in ("did not answer within", "an earlier tick"):
        with pytest.raises(TickOverdue, match=expected):
            bounded(hang)
    answered.set()
    assert bounded._overdue is not None
    assert bounded._overdue.ended(30)
    assert (bounded(lambda: 7), len(calls)) == (7, 1)


@pytest.mark.parametrize("deadline", [0, 60, timedelta(minutes=2)])
def test_a_deadline_that_dagster_would_cut_is_refused(deadline: Any) -> None:
    with pytest.raises(BadRequest, match="60 seconds"):
        backlog_sensor(JOB, pending=lambda: 5, threshold=2, deadline=deadline)


def test_a_queue_and_a_function_together_are_refused() -> None:
    with pytest.raises(DeclarationError, match="not both"):
        backlog_sensor(JOB, queue="parcel", pending=lambda: 5, threshold=2)


def test_the_interval_may_be_a_timedelta() -> None:
    sensor = backlog_sensor(JOB, pending=lambda: 5, threshold=2, every=timedelta(minutes=5))

    assert sensor.minimum_interval_seconds == 300
    assert datetime.fromisoformat(str(tick_of(sensor)().cursor)).tzinfo is UTC
