"""Wherever the public API takes seconds, it takes a timedelta too, and means the same by it."""

import importlib
import inspect
import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from typing import Any, get_origin, get_type_hints, is_typeddict

import pytest
from sqlalchemy import BigInteger, Column, Integer, MetaData, Table, Text

import rowmill as rm
from rowmill.mill.declaring import QueueOptions
from rowmill.mill.options import ReconciliationOptions
from rowmill.mill.outboxes import OutboxOptions
from rowmill.model.alerts import Alerts
from rowmill.model.duration import Duration, DurationField, in_seconds
from rowmill.model.schedule import Every
from rowmill.observe.webhook import Webhook

SECONDS = 90.0
EITHER = re.compile("timedelta|Duration|Wait")


def queue(**options: Any) -> rm.Queue[Any]:
    table = Table("jobs", MetaData(), Column("id", Integer, primary_key=True), Column("state", Text), *progress())
    return rm.Mill("sqlite:///jobs.db").queue(table, **options)


def progress() -> list[Column[Any]]:
    times = ("available_at", "leased_until", "finished_at")
    return [
        Column("attempts", Integer, server_default="0"),
        Column("lease", BigInteger),
        Column("error", Text),
        *(Column(name, Integer) for name in times),
    ]


def handler_timeout(given: Duration) -> float | None:
    jobs = queue()

    @jobs.handler(timeout=given)
    async def work(lease: rm.Lease[Any]) -> None: ...

    return jobs.handlers["work"].timeout


def schedule(read: str, **options: Any) -> Any:
    mill = rm.Mill("sqlite:///jobs.db")
    mill.schedule("nightly", cron="0 3 * * *", **options)(lambda tick: None)
    return getattr(mill.schedules["nightly"], read)


def period(given: Duration) -> float:
    mill = rm.Mill("sqlite:///jobs.db")
    mill.every("often", given)(lambda tick: None)
    timing = mill.schedules["often"].timing
    assert isinstance(timing, Every)
    return timing.seconds


def reconciliation(read: str, **options: Any) -> Any:
    here = rm.reconcile.inventory(list, at="at")
    rule = rm.reconcile.missing("gone", present="here", absent="there")
    made = rm.Mill("sqlite:///jobs.db").reconciliation(
        "drift", inventories={"here": here, "there": here}, rules=[rule], **options
    )
    return getattr(made.declared, read)


def older(given: Duration) -> float:
    rule = rm.reconcile.stale("old", present="a", older=given)
    assert rule.older is not None
    return rule.older.total_seconds()


def setting(name: str, given: Duration) -> Any:
    return getattr(rm.worker.WorkerSettings(**{name: given}), name)  # type: ignore[arg-type]


CASES: dict[str, Callable[[Any], Any]] = {
    "Mill.queue(lease)": lambda given: queue(lease=given).steps[0].lease,
    "Mill.queue(timeout)": lambda given: queue(timeout=given).steps[0].timeout,
    "Stage(lease)": lambda given: rm.Stage("a", "new", "busy", lease=given).lease,
    "Stage(timeout)": lambda given: rm.Stage("a", "new", "busy", timeout=given).timeout,
    "Queue.handler(timeout)": handler_timeout,
    "exponential(base)": lambda given: rm.exponential(given)(1),
    "exponential(cap)": lambda given: rm.exponential(1, cap=given)(50),
    "fixed": lambda given: rm.fixed(given)(7),
    "steps": lambda given: rm.steps(1, given)(2),
    "Retry(backoff)": lambda given: rm.Retry(backoff=lambda attempt: given).wait(1, 0.0),
    "RetryLater(after)": lambda given: rm.RetryLater(given).after,
    "RateLimited(retry_after)": lambda given: rm.RateLimited(retry_after=given).retry_after,
    "ProviderDown(retry_after)": lambda given: rm.errors.ProviderDown(retry_after=given).retry_after,
    "ProviderRefused(retry_after)": lambda given: rm.errors.ProviderRefused(retry_after=given).retry_after,
    "Retention(done)": lambda given: rm.Retention(done=given).done,
    "Retention(dead)": lambda given: rm.Retention(dead=given).dead,
    "Retention(cancelled)": lambda given: rm.Retention(cancelled=given).cancelled,
    "Alerts(oldest)": lambda given: Alerts(oldest=given).oldest,
    "Alerts(unattended)": lambda given: Alerts(unattended=given).unattended,
    "Alerts(unwritten)": lambda given: Alerts(unwritten=given).unwritten,
    "Rate(per)": lambda given: rm.limits.Rate(10, given).per,
    "Rate(margin)": lambda given: rm.limits.Rate(10, 3600, given).margin,
    "Breaker(pause)": lambda given: rm.limits.Breaker(pause=given).pause,
    "Breaker(longest)": lambda given: rm.limits.Breaker(longest=given).longest,
    "Mill.limit(lease)": lambda given: (
        rm.Mill("sqlite:///jobs.db").limit("api", concurrent=1, lease=given).terms.rules.lease
    ),
    "Mill.inbox(keep)": lambda given: rm.Mill("sqlite:///jobs.db").inbox(keep=given)._keep,
    "Mill.outbox(lease)": lambda given: rm.Mill("sqlite:///jobs.db").outbox(lease=given).queue.steps[0].lease,
    "Mill.outbox(timeout)": lambda given: rm.Mill("sqlite:///jobs.db").outbox(timeout=given).queue.steps[0].timeout,
    "Mill.schedule(lease)": lambda given: schedule("lease", lease=given),
    "Mill.schedule(timeout)": lambda given: schedule("timeout", timeout=given),
    "Mill.every": period,
    "Mill.reconciliation(grace)": lambda given: reconciliation("grace", grace=given),
    "Mill.reconciliation(again_after)": lambda given: reconciliation("again_after", again_after=given),
    "Mill.reconciliation(lease)": lambda given: reconciliation("lease", lease=given),
    "reconcile.stale(older)": older,
    "reconcile.inventory(timeout)": lambda given: rm.reconcile.inventory(list, timeout=given).timeout,
    "Webhook(timeout)": lambda given: Webhook("https://localhost/", timeout=given)._timeout,
    **{
        f"WorkerSettings({name})": partial(setting, name)
        for name, hint in get_type_hints(rm.worker.WorkerSettings).items()
        if get_origin(hint) is DurationField
    },
}


@pytest.mark.parametrize("name", CASES)
def test_a_timedelta_means_its_seconds(name: str) -> None:
    make = CASES[name]
    found = make(timedelta(seconds=SECONDS))
    assert found == make(SECONDS) == SECONDS
    assert isinstance(found, float)


NOT_DURATIONS = {
    "Retry.jitter", "Retry.wait.chance", "Budget.span.at", "Budget.spans.at",
    "days.n", "hours.n", "minutes.n", "seconds.n",
}  # fmt: skip
MADE_BY_THE_ENGINE = {
    "Call.wait", "Call.end.seconds", "Inbox.keep", "Limit.lease", "Limits.declare.lease", "LimitState.per_seconds",
    "Limited.retry_after", "OutboxStats.average_processing_time_ms", "Report.seconds",
}  # fmt: skip


def public() -> Iterator[tuple[str, Any]]:
    for module in ("", "errors", "limits", "outbox", "schedules", "reconcile", "worker", "observe", "testing"):
        found = importlib.import_module(f"rowmill.{module}".rstrip("."))
        for name in getattr(found, "__all__", vars(found)):
            thing = getattr(found, name)
            if not name.startswith("_") and getattr(thing, "__module__", "").startswith("rowmill"):
                yield name, thing
    for options in (QueueOptions, OutboxOptions, ReconciliationOptions):
        yield options.__name__, options


def parameters(name: str, thing: Any) -> Iterator[tuple[str, str]]:
    """Every parameter of what a user calls, with its type as text: of constructors, methods, functions and options."""
    if is_typeddict(thing):
        yield from ((f"{name}.{key}", str(hint)) for key, hint in thing.__annotations__.items())
        return
    calls = {"": thing} if not isinstance(thing, type) else {
        "": vars(thing).get("__init__"),
        **{f".{key}": value for key, value in inspect.getmembers(thing, inspect.isfunction) if not key.startswith("_")},
    }  # fmt: skip
    for call, function in calls.items():
        if inspect.isfunction(function):
            for key, parameter in inspect.signature(function).parameters.items():
                yield f"{name}{call}.{key}", str(parameter.annotation)


def test_no_parameter_of_the_public_api_takes_seconds_alone() -> None:
    found = {name: hint for part, thing in public() for name, hint in parameters(part, thing)}
    assert len(found) > 200
    plain = {name for name, hint in found.items() if re.search(r"\bfloat\b", hint) and not EITHER.search(hint)}
    assert plain == NOT_DURATIONS | MADE_BY_THE_ENGINE


def test_the_helper_leaves_seconds_and_nothing_as_they_are() -> None:
    assert in_seconds(None) is None
    assert in_seconds(1.5) == 1.5
    assert in_seconds(timedelta(minutes=2)) == 120.0
