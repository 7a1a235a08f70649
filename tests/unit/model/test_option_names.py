"""A misspelled option names itself, and the nearest one that there is."""

from collections.abc import Callable
from typing import Any

import pytest

import rowmill as rm
from tests.work.shop import job_table


def jobs() -> rm.Queue[Any]:
    return rm.Mill("sqlite:///never-opened.db").queue(job_table())


MISSPELLED: list[tuple[Callable[..., Any], str, str, str]] = [
    (rm.Columns, "Columns", "sate", "state"),
    (rm.States, "States", "redy", "ready"),
    (rm.Stage, "Stage", "runing", "running"),
    (rm.Order, "Order", "prio", "priority"),
    (rm.OrderPerKey, "OrderPerKey", "on_deads", "on_dead"),
    (rm.Retention, "Retention", "canceled", "cancelled"),
    (rm.CrashCodes, "CrashCodes", "burried", "buried"),
    (rm.Retry, "Retry", "attempt", "attempts"),
    (rm.observe.Alerts, "Alerts", "back_log", "backlog"),
    (rm.outbox.OutboxColumns, "OutboxColumns", "attempt", "attempts"),
    (rm.outbox.InboxColumns, "InboxColumns", "expires", "expires_at"),
    (rm.worker.WorkerSettings, "WorkerSettings", "graze", "grace"),
    (lambda **options: jobs().handler(**options), "handler()", "concurency", "concurrency"),
    (lambda **options: jobs().batch_handler(**options), "batch_handler()", "siz", "size"),
    (lambda **options: rm.Mill().queue(job_table(), **options), "Mill.queue()", "retries", "retry"),
    (lambda **options: rm.Mill().outbox(**options), "Mill.outbox()", "concurency", "concurrency"),
    (
        lambda **options: rm.Mill().reconciliation("x", inventories={}, rules=[], **options),
        "Mill.reconciliation()", "grce", "grace",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("call", "subject", "wrong", "right"), MISSPELLED)
def test_a_misspelled_option_names_the_nearest(call: Callable[..., Any], subject: str, wrong: str, right: str) -> None:
    with pytest.raises(rm.errors.UnknownOption) as told:
        call(**{wrong: None})
    assert str(told.value) == f"{subject} has no option {wrong}. Did you mean {right}?"


def test_an_option_like_no_other_is_answered_with_all_that_there_are() -> None:
    with pytest.raises(TypeError, match=r"States has no option xyz\. It has: ready, running, done, dead"):
        rm.States(xyz="?")  # type: ignore[call-arg]


def test_every_misspelled_option_is_named() -> None:
    with pytest.raises(rm.errors.UnknownOption, match=r"mean state\?.*mean error\?"):
        rm.Columns(sate="s", eror="e")  # type: ignore[call-arg]


def test_what_is_spelled_well_stays_as_it_was() -> None:
    assert rm.States("queued", dead="failed") == rm.States(ready="queued", dead="failed")
    assert repr(rm.Order(priority="rank")) == "Order(priority='rank', lower_first=False, by=())"
