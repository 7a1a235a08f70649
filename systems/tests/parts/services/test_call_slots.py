"""Limits of the whole fleet, as the services see them."""

import asyncio
import os

import pytest

import rowmill as rm
from demos.entities.plan import Fault, Plan
from demos.entities.server import Server
from rowmill_systems.entities.services import open_services
from rowmill_systems.parts.services.call_slots import rate_of
from systems.tests.entities.services import PERSON, mill_on, services_on, settings_for
from systems.tests.parts.services.pulling import AT_ONCE, QUESTIONS, RATE
from tests.support.postgres import REPOSITORY
from tests.support.python import run_python

PROCESSES = 4


@pytest.mark.parametrize(
    ("given", "calls", "per"),
    [
        (5.0, 5, 1.0),
        (1.0, 1, 1.0),
        (0.5, 1, 2.0),
        (2.5, 1, 0.4),
        (0.001, 1, 1000.0),
        (33.3, 33, 1.0),
        (500.0, 500, 1.0),
    ],
)
def test_calls_per_second(given: float, calls: int, per: float) -> None:
    rate = rate_of(given)
    assert rate.calls == calls
    assert rate.per == pytest.approx(per)
    assert rate.calls / rate.per <= given + 1e-9


async def test_one_retry_after_holds_the_whole_fleet(server: Server, database_url: str) -> None:
    """E9."""
    server.plan = Plan(next={"wikidata": [Fault.TOO_MANY]}, retry_after=300)
    async with services_on(server, database_url) as (one, _), mill_on(database_url) as mill:
        other = open_services(settings_for(server, database_url, wait_seconds=0.1), mill)
        with pytest.raises(rm.RateLimited):
            await one["wikidata"].get("", PERSON | {"search": "a"})
        for number in range(3):
            with pytest.raises(rm.errors.Limited) as raised:
                await other["wikidata"].get("", PERSON | {"search": f"b{number}"})
            assert raised.value.reason == "parked"
            assert 200 < raised.value.retry_after <= 301
        await other["dbpedia-lookup"].get("", {"query": "c"})  # another service is another matter
        assert (len(server.counts["wikidata"].arrivals), server.counts["wikidata"].out_of_turn) == (1, 0)
        await other.close()


async def test_who_waits_too_long_goes_back_to_the_queue(server: Server, database_url: str) -> None:
    server.plan.next["wikidata"] = [Fault.HANG]
    async with services_on(server, database_url, calls_at_once=1, wait_seconds=0.2) as (services, _):
        hangs = asyncio.create_task(services["wikidata"].get("", PERSON | {"search": "a"}))
        async with asyncio.timeout(60):
            while not server.counts["wikidata"].arrivals:
                await asyncio.sleep(0.005)
        asked = [services["wikidata"].get("", PERSON | {"search": f"b{number}"}) for number in range(5)]
        found = await asyncio.gather(*asked, return_exceptions=True)
        assert [type(each) for each in found] == [rm.errors.Limited] * 5
        assert {each.code for each in found if isinstance(each, rm.errors.Limited)} == {"limit_slots"}
        assert len(server.counts["wikidata"].arrivals) == 1
        hangs.cancel()


async def test_a_breaker_opens_for_the_fleet(server: Server, sqlite_url: str) -> None:
    server.plan.rates = {Fault.BROKEN: 1.0}
    async with services_on(server, sqlite_url, wait_seconds=0.0, calls_at_once=1) as (services, _):
        kinds = []
        for number in range(8):
            with pytest.raises(rm.TransientError) as raised:
                await services["wikidata"].get("", PERSON | {"search": f"b{number}"})
            kinds.append(type(raised.value))
    assert kinds == [rm.errors.ProviderDown] * 5 + [rm.errors.Limited] * 3
    assert len(server.counts["wikidata"].arrivals) == 5


async def test_rate_and_concurrency_hold_across_processes(server: Server, database_url: str) -> None:
    """E3: four processes, each with handlers that ask as hard as they can."""
    server.plan.latency = 0.01
    async with mill_on(database_url):
        environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
        command = ("-m", "systems.tests.parts.services.pulling", database_url, server.url)
        fleet = [
            asyncio.to_thread(run_python, *command, str(number), env=environment, cwd=REPOSITORY)
            for number in range(PROCESSES)
        ]
        ended = await asyncio.gather(*fleet)
    assert [(one.returncode, one.stderr.decode()) for one in ended] == [(0, "")] * PROCESSES
    count = server.counts["wikidata"]
    assert count.answered.total() == PROCESSES * QUESTIONS
    assert count.most_within(RATE.per) <= RATE.calls
    assert count.most_at_once <= AT_ONCE
