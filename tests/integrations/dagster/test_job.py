"""A job of Dagster drains a queue."""

from dataclasses import dataclass, field
from typing import Any

import dagster as dg
import pytest

import rowmill as rm
from rowmill.errors import DatabaseUnreachable, DeclarationError, UnknownQueue
from rowmill.integrations.counts import in_words, numbers_in
from rowmill.integrations.dagster import DrainConfig, MillResource, drain_job
from rowmill.integrations.dagster.job import at_a_time, plan_drain, run_drain
from tests.integrations.parcels import SIZES, make_mill, put, states

DRAIN = drain_job(name="drain_parcels", queue="parcel")


def run(job: dg.JobDefinition, mill: rm.Mill | None = None, **config: Any) -> dg.ExecuteInProcessResult:
    """Run a job of one op in this process."""
    [op] = [node.name for node in job.nodes]
    ops = {op: {"config": config}} if config else {}
    resources = {} if mill is None else {"mill": mill}
    return job.execute_in_process(run_config={"ops": ops}, resources=resources, raise_on_error=True)


def output_metadata(result: dg.ExecuteInProcessResult) -> dict[str, Any]:
    [event] = [event for event in result.all_events if event.event_type is dg.DagsterEventType.STEP_OUTPUT]
    return {name: value.value for name, value in event.step_output_data.metadata.items()}


def test_a_job_drains_a_queue_and_returns_counts(mill: rm.Mill) -> None:
    put(mill, "a", "b", "fail")

    result = run(DRAIN, mill)

    counts = result.output_for_node("drain_parcels_op")
    assert (counts["claimed"], counts["done"], counts["dead"]) == (3, 2, 1)
    assert output_metadata(result) == counts
    assert states(mill) == {"done": 2, "dead": 1}


def test_plan_only_counts_and_changes_nothing(mill: rm.Mill) -> None:
    put(mill, "a", "b")

    counts = run(DRAIN, mill, plan_only=True).output_for_node("drain_parcels_op")

    assert counts == {"parcel.ready": 2, "parcel.waiting": 0, "parcel.running": 0, "parcel.dead": 0}
    assert states(mill) == {"ready": 2}


def test_a_job_without_a_queue_drains_all_that_have_handlers(mill: rm.Mill) -> None:
    put(mill, "a")
    put(mill, "b", queue="label")

    counts = run(drain_job(name="drain_all"), mill).output_for_node("drain_all_op")

    assert counts["done"] == 2
    assert (states(mill), states(mill, "label")) == ({"done": 1}, {"done": 1})


def declared(mill: rm.Mill) -> tuple[int, int | None]:
    """How many parcels are handled at once, and how many labels a batch has."""
    [parcels], [labels] = mill["parcel"].handlers.values(), mill["label"].handlers.values()
    return parcels.concurrency, labels.batch


def test_the_batch_size_limits_what_a_batch_handler_gets(mill: rm.Mill) -> None:
    put(mill, *map(str, range(30)), queue="label")
    job = drain_job(name="print_labels", queue="label", batch_size=20)

    run(job, mill, batch_size=7)

    assert max(SIZES) == 7
    assert sum(SIZES) == 30
    assert declared(mill) == (4, 50), "the mill is as it was"


def test_the_batch_size_never_raises_what_a_handler_declares(mill: rm.Mill) -> None:
    with at_a_time(mill, None, 1000):
        assert declared(mill) == (4, 50)
    with at_a_time(mill, None, 3):
        assert declared(mill) == (3, 3)


def test_a_batch_size_below_one_is_refused(mill: rm.Mill) -> None:
    put(mill, "a")

    with pytest.raises(Exception, match="greater than or equal to 1"):
        run(DRAIN, mill, batch_size=0)
    assert states(mill) == {"ready": 1}


async def test_a_drain_and_a_plan_work_where_an_event_loop_runs(mill: rm.Mill) -> None:
    """As in a notebook."""
    await mill.run(lambda c: c.execute(mill["parcel"].insert({"title": "a"})).close())

    assert plan_drain(mill, ["parcel"])["parcel.ready"] == 1
    assert run_drain(dg.get_dagster_logger(), mill, ["parcel"])["done"] == 1


def test_the_mill_of_a_resource_is_imported_when_it_is_needed(
    mill: rm.Mill, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", database_url)
    put(mill, "a")
    by_function = MillResource(app="tests.integrations.parcels:mill_of_environment")
    by_url = MillResource(app="tests.integrations.parcels:make_mill", database_url=dg.EnvVar("DATABASE_URL"))

    for resource in (by_function, by_url):
        defs = dg.Definitions(jobs=[DRAIN], resources={"mill": resource})
        assert defs.resolve_job_def("drain_parcels").execute_in_process().success
    assert states(mill) == {"done": 1}


@pytest.mark.parametrize(
    ("app", "problem"),
    [
        ("shop", "write it as module:name"),
        ("no_such_module:mill", "No module named 'no_such_module'"),
        ("tests.integrations.parcels:nothing", "no attribute 'nothing'"),
        ("tests.integrations.parcels:SIZES", "it is no Mill but list"),
    ],
)
def test_an_app_that_is_no_mill_is_explained(app: str, problem: str) -> None:
    with pytest.raises(DeclarationError, match=problem):
        MillResource(app=app).get_mill()


def test_a_resource_that_is_no_mill_is_explained() -> None:
    with pytest.raises(DeclarationError, match="no MillResource and no Mill but str"):
        DRAIN.execute_in_process(resources={"mill": "shop:mill"})


def test_a_queue_that_the_mill_has_not_fails_the_run_and_names_those_it_has(mill: rm.Mill) -> None:
    with pytest.raises(UnknownQueue, match="parcel"):
        run(drain_job(name="drain_letters", queue="letter"), mill)


def test_a_database_that_is_away_fails_the_run() -> None:
    with pytest.raises(DatabaseUnreachable):
        run(DRAIN, make_mill("postgresql://nobody@127.0.0.1:1/nowhere"))


@dataclass(slots=True)
class Outcome:
    resolved: int
    names: list[str]
    by_rung: dict[str, int] = field(default_factory=dict)


def test_a_function_of_ones_own_gets_batch_size_and_plan_only() -> None:
    calls: list[dict[str, Any]] = []

    def process(*, batch_size: int, plan_only: bool) -> Outcome:
        calls.append({"batch_size": batch_size, "plan_only": plan_only})
        return Outcome(resolved=3, names=["secret"], by_rung={"cache": 2})

    job = drain_job(name="resolve_job", op_name="resolve_op", process=process, batch_size=25)
    result = run(job)
    run(job, batch_size=5, plan_only=True)
    run(drain_job(name="usual", process=process))

    assert result.output_for_node("resolve_op") == {"resolved": 3, "by_rung.cache": 2}
    assert calls == [
        {"batch_size": 25, "plan_only": False},
        {"batch_size": 5, "plan_only": True},
        {"batch_size": 100, "plan_only": False},
    ]


def test_a_queue_and_a_function_together_are_refused() -> None:
    with pytest.raises(DeclarationError, match="not both"):
        drain_job(name="both", queue="parcel", process=lambda *, batch_size, plan_only: None)


def test_an_op_is_not_retried_unless_it_is_asked_for() -> None:
    calls: list[int] = []

    def process(*, batch_size: int, plan_only: bool) -> None:
        calls.append(batch_size)
        raise OSError("away")

    [op] = DRAIN.nodes
    assert op.retry_policy is None
    for policy, tries in ((None, 1), (dg.RetryPolicy(max_retries=1), 2)):
        calls.clear()
        job = drain_job(name="away", process=process, retry_policy=policy)
        assert not job.execute_in_process(raise_on_error=False).success
        assert len(calls) == tries


@pytest.mark.parametrize(
    ("result", "numbers"),
    [(None, {}), (7, {"rows": 7}), ({"a": 1, "text": "x"}, {"a": 1}), ({"a": {"b": 2.5, "c": None}}, {"a.b": 2.5})],
)
def test_only_numbers_are_kept_of_a_result(result: object, numbers: dict[str, float]) -> None:
    assert numbers_in(result) == numbers


def test_counts_in_words() -> None:
    assert in_words({"claimed": 12000, "dead": 0, "seconds": 1.23456}) == "claimed 12,000, seconds 1.23456"
    assert in_words({}) == "nothing"


def test_the_configuration_is_typed() -> None:
    assert DrainConfig().model_dump() == {"batch_size": None, "plan_only": False}
