"""Dagster in processes of its own: validation, runs that are interrupted or killed, and the daemon."""

import signal
import subprocess
from pathlib import Path

import dagster as dg
import pytest

import rowmill as rm
from rowmill.integrations.dagster import drain_job
from tests.integrations.dagster.processes import daemon, environment, start
from tests.integrations.parcels import BEGUN_FILE, HOLD_FILE, put, states
from tests.support.waiting import until

MODULE = "tests.integrations.dagster.definitions"
SECONDS = 120.0


@pytest.fixture
def variables(database_url: str, tmp_path: Path) -> dict[str, str]:
    """The environment of the processes."""
    files = {BEGUN_FILE: str(tmp_path / "begun"), HOLD_FILE: str(tmp_path / "go")}
    return environment(tmp_path / "home", DATABASE_URL=database_url, **files)


def run_job(name: str, log: Path, variables: dict[str, str]) -> "subprocess.Popen[bytes]":
    return start("dagster", "job", "execute", "-m", MODULE, "-j", name, log=log, env=variables)


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_the_definitions_are_valid(variables: dict[str, str], tmp_path: Path) -> None:
    log = tmp_path / "log"
    with start("dagster", "definitions", "validate", "-m", MODULE, log=log, env=variables) as process:
        assert process.wait(SECONDS) == 0, log.read_text()


# Each on one store: Dagster knows nothing of it, and tests/faults stops and kills workers on both.
@pytest.mark.parametrize(
    ("job", "number", "database_url"),
    [
        ("drain_parcels", signal.SIGINT, "sqlite"),
        ("drain_parcels", signal.SIGTERM, "postgres"),
        ("drain_parcels", signal.SIGKILL, "postgres"),
        ("drain_apart", signal.SIGINT, "postgres"),
    ],
    indirect=["database_url"],
)
def test_a_run_that_ends_early_loses_nothing(
    mill: rm.Mill,
    variables: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    job: str,
    number: signal.Signals,
) -> None:
    log = tmp_path / "log"
    put(mill, "a", "hold", "b")
    with run_job(job, log, variables) as process:
        until(Path(variables[BEGUN_FILE]).exists, SECONDS)
        until(lambda: states(mill).get("done") == 2)
        process.send_signal(number)
        assert process.wait(SECONDS) != 0, log.read_text()
    if number is signal.SIGKILL:
        assert states(mill) == {"done": 2, "running": 1}
    else:
        assert states(mill) == {"done": 2, "ready": 1}, log.read_text()
        assert "stopped early: claimed 3, done 2" in log.read_text()

    Path(variables[HOLD_FILE]).touch()
    monkeypatch.setenv(BEGUN_FILE, variables[BEGUN_FILE])
    monkeypatch.setenv(HOLD_FILE, variables[HOLD_FILE])
    drain = drain_job(name="drain_parcels", queue="parcel")

    def done() -> bool:
        """Run the job. The row of a run that was killed comes back when its lease has expired."""
        return drain.execute_in_process(resources={"mill": mill}).success and states(mill) == {"done": 3}

    until(done)


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize("database_url", ["postgres"], indirect=True)
def test_a_daemon_fires_a_schedule_and_a_sensor_beside_a_schedule_that_fails(
    mill: rm.Mill, variables: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "log"
    put(mill, "a", "b")
    put(mill, *"abc", queue="label")
    with daemon(MODULE, log=log, env=variables):
        until(lambda: states(mill, "label") == {"done": 3}, SECONDS)
        put(mill, *"def", queue="label")
        until(lambda: states(mill, "label") == {"done": 6}, SECONDS)
        until(lambda: states(mill) == {"done": 2}, SECONDS)

    monkeypatch.setenv("DAGSTER_HOME", variables["DAGSTER_HOME"])
    with dg.DagsterInstance.get() as instance:
        by_sensor = instance.get_runs(dg.RunsFilter(tags={"dagster/sensor_name": "many_labels"}))
        by_schedule = instance.get_runs(dg.RunsFilter(tags={"dagster/schedule_name": "every_minute"}))
        ticks = {
            state.instigator_name: [tick.status.value for tick in found]
            for state in instance.all_instigator_state()
            for found in [instance.get_ticks(state.instigator_origin_id, state.selector_id)]
        }
    assert len({run.tags["dagster/run_key"] for run in by_sensor}) == len(by_sensor) == 2
    assert {run.job_name for run in by_schedule} == {"drain_parcels"}
    assert "SUCCESS" in ticks["every_minute"]
    assert set(ticks["broken"]) == {"FAILURE"}
