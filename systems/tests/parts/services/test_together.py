"""Questions that are asked at the same time: once, and together where a service takes several."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

import rowmill as rm
from demos.entities.plan import Fault
from demos.entities.server import Server
from demos.entities.world import World
from rowmill_systems.parts.services.batch_loader import BatchLoader, Take
from rowmill_systems.parts.services.service import BatchQuery
from systems.tests.entities.services import PERSON, kept, services_on

QUESTION = PERSON | {"search": "A"}


def joined(ids: Any) -> dict[str, str]:
    return {"action": "wbgetentities", "props": "labels", "languages": "en|mul", "ids": "|".join(ids)}


def split(answer: Any, ids: Any) -> dict[str, Any]:
    return {id: answer["entities"][id] for id in ids if id in answer["entities"]}


LABELS = BatchQuery("labels", "GET", "", joined, split, nothing=lambda entity: "missing" in entity)


async def arrived(server: Server, requests: int = 1) -> None:
    async with asyncio.timeout(60):
        while len(server.counts["wikidata"].arrivals) < requests:
            await asyncio.sleep(0.005)


async def test_the_same_question_goes_out_once(server: Server, sqlite_url: str) -> None:
    async with services_on(server, sqlite_url) as (services, _):
        answers = await asyncio.gather(*(services["wikidata"].get("", QUESTION) for _ in range(20)))
        assert len(server.counts["wikidata"].arrivals) == 1
        assert all(answer == answers[0] for answer in answers)


async def test_who_asked_first_may_be_cancelled(server: Server, sqlite_url: str) -> None:
    server.plan.latency = 0.3
    async with services_on(server, sqlite_url) as (services, _):
        first, second = (asyncio.create_task(services["wikidata"].get("", QUESTION)) for _ in range(2))
        await arrived(server)
        first.cancel()
        assert (await second)["success"] == 1
        assert first.cancelled()
        assert len(server.counts["wikidata"].arrivals) == 1


async def test_what_nobody_waits_for_is_given_up_and_asked_anew(server: Server, sqlite_url: str) -> None:
    server.plan.next["wikidata"] = [Fault.HANG]
    async with services_on(server, sqlite_url, calls_at_once=1) as (services, mill):
        first = asyncio.create_task(services["wikidata"].get("", QUESTION))
        await arrived(server)
        first.cancel()
        await asyncio.wait([first])
        assert (await services["wikidata"].get("", QUESTION))["success"] == 1, "its place is free again"
        assert (await mill.limits["entities-wikidata"].state()).slots == 0


async def test_all_who_waited_hear_of_a_failure(server: Server, sqlite_url: str) -> None:
    server.plan.next["wikidata"] = [Fault.BROKEN]
    async with services_on(server, sqlite_url) as (services, _):
        asked = [services["wikidata"].get("", QUESTION) for _ in range(3)]
        found = await asyncio.gather(*asked, return_exceptions=True)
        assert [type(each) for each in found] == [rm.errors.ProviderDown] * 3
        assert len(server.counts["wikidata"].arrivals) == 1


async def test_ids_are_asked_for_together_and_once(server: Server, database_url: str, world: World) -> None:
    ids = list(world.things)[:120]
    async with services_on(server, database_url) as (services, mill):
        service = services["wikidata"]
        found = await asyncio.gather(*(service.each(LABELS, ids[start : start + 40]) for start in range(0, 100, 20)))
        assert [list(each) for each in found] == [ids[start : start + 40] for start in range(0, 100, 20)]
        assert all(entity["id"] == id for each in found for id, entity in each.items())
        count = server.counts["wikidata"]
        assert len(count.arrivals) == 3, "120 ids, 50 in a call"
        await service.each(LABELS, ids)
        assert (len(count.arrivals), count.items.total(), len(await kept(mill))) == (3, 120, 120)


async def test_of_what_is_known_nothing_is_asked(server: Server, sqlite_url: str, world: World) -> None:
    known, new = list(world.things)[:2]
    async with services_on(server, sqlite_url) as (services, _):
        await services["wikidata"].each(LABELS, [known])
        assert set(await services["wikidata"].each(LABELS, [known, new, new])) == {known, new}
        assert server.counts["wikidata"].items == {f"labels {known}": 1, f"labels {new}": 1}
        assert await services["wikidata"].each(LABELS, []) == {}


async def test_a_failure_of_a_batch_is_told_to_all_and_not_kept(server: Server, sqlite_url: str, world: World) -> None:
    known, one, two = list(world.things)[:3]
    async with services_on(server, sqlite_url) as (services, mill):
        service = services["wikidata"]
        await service.each(LABELS, [known])
        server.plan.next["wikidata"] = [Fault.BROKEN]
        asked = [service.each(LABELS, ids) for ids in ([one], [known, two], [known])]
        found = await asyncio.gather(*asked, return_exceptions=True)
        assert [type(each) for each in found] == [rm.errors.ProviderDown, rm.errors.ProviderDown, dict]
        assert len(await kept(mill)) == 1
        assert set(await service.each(LABELS, [one, two])) == {one, two}


async def test_who_waits_for_a_batch_may_be_cancelled(server: Server, sqlite_url: str, world: World) -> None:
    server.plan.latency = 0.3
    one, two = list(world.things)[:2]
    async with services_on(server, sqlite_url) as (services, _):
        first, second = (asyncio.create_task(services["wikidata"].each(LABELS, ids)) for ids in ([one], [one, two]))
        await arrived(server)
        first.cancel()
        assert set(await second) == {one, two}


async def test_an_id_that_is_rejected_takes_no_other_with_it(server: Server, sqlite_url: str, world: World) -> None:
    ids = list(world.things)[:9]
    async with services_on(server, sqlite_url) as (services, _):
        asked = [services["wikidata"].each(LABELS, [id]) for id in (*ids[:4], "nonsense", *ids[4:])]
        found = await asyncio.gather(*asked, return_exceptions=True)
        wrong = [each for each in found if isinstance(each, BaseException)]
        assert [getattr(each, "code", "") for each in wrong] == ["rejected"]
        assert len(found) - len(wrong) == 9


async def test_what_had_no_room_in_an_answer_is_asked_for_again(server: Server, sqlite_url: str, world: World) -> None:
    server.wikidata.most_entities = 20
    ids = list(world.things)[:50]
    async with services_on(server, sqlite_url) as (services, _):
        found = await services["wikidata"].each(LABELS, ids)
        assert {id: entity["id"] for id, entity in found.items()} == {id: id for id in ids}
        assert len(server.counts["wikidata"].arrivals) == 3


async def test_an_answer_that_is_too_long_is_asked_for_in_parts(
    server: Server, sqlite_url: str, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rowmill_systems.parts.services.calling.MAX_BYTES", 3000)
    ids = list(world.things)[:50]
    async with services_on(server, sqlite_url) as (services, _):
        assert len(await services["wikidata"].each(LABELS, ids)) == 50
        assert len(server.counts["wikidata"].arrivals) > 2


async def test_what_is_wanted_again_before_the_rest_is_answered_is_answered_again() -> None:
    """An item that was known is told at once, while those beside it are still asked for."""
    asked, go = list[list[str]](), asyncio.Event()

    async def known(items: Sequence[str]) -> dict[str, str]:
        return {item: "kept" for item in items if item == "Q5"}

    async def ask(take: Take[str]) -> dict[str, str]:
        asked.append(list(take()))
        await go.wait()
        return dict.fromkeys(take(), "asked")

    gatherer = BatchLoader(known, ask, most=50, pause=0)
    first = asyncio.create_task(gatherer.get(["Q5", "Q6"]))
    while not asked:
        await asyncio.sleep(0)
    second = asyncio.create_task(gatherer.get(["Q5"]))
    await asyncio.sleep(0)
    go.set()
    assert await first == {"Q5": "kept", "Q6": "asked"}
    assert await second == {"Q5": "kept"}
    await gatherer.close()


async def test_items_that_come_while_a_call_waits_for_its_turn_go_with_it() -> None:
    """And those that are too many go with the next one."""
    turn, calls = asyncio.Event(), list[list[str]]()

    async def known(items: Sequence[str]) -> dict[str, str]:
        return {}

    async def ask(take: Take[str]) -> dict[str, str]:
        await turn.wait()
        calls.append(list(take()))
        return dict.fromkeys(take(), "asked")

    gatherer = BatchLoader(known, ask, most=3, pause=0)
    asked = []
    for item in ("Q1", "Q2", "Q3", "Q4", "Q1"):
        asked.append(asyncio.create_task(gatherer.get([item])))
        for _ in range(10):
            await asyncio.sleep(0)
    turn.set()
    await asyncio.gather(*asked)
    assert calls == [["Q1", "Q2", "Q3"], ["Q4"]]
    await gatherer.close()


async def test_who_waits_for_a_call_that_can_t_be_made_hears_of_it() -> None:
    async def known(items: Sequence[str]) -> dict[str, str]:
        return {}

    async def ask(take: Take[str]) -> dict[str, str]:
        raise rm.errors.Limited("wikidata", "", "rate", 1.0)

    gatherer = BatchLoader(known, ask, most=3, pause=0)
    for _ in range(2):
        with pytest.raises(rm.errors.Limited):
            await gatherer.get(["Q1"])
    await gatherer.close()


async def test_what_can_t_be_looked_up_is_told_and_the_rest_is_given_up_at_the_end() -> None:
    broken, hanging = asyncio.Event(), asyncio.Event()

    async def known(items: Sequence[str]) -> dict[str, str]:
        if not broken.is_set():
            broken.set()
            raise rm.errors.DatabaseUnreachable("away")
        hanging.set()
        await asyncio.Event().wait()
        return {}

    async def ask(take: Take[str]) -> dict[str, str]:
        return {}

    gatherer = BatchLoader(known, ask, most=3, pause=0)
    with pytest.raises(rm.errors.DatabaseUnreachable):
        await gatherer.get(["Q1"])
    waits = asyncio.create_task(gatherer.get(["Q1"]))
    await hanging.wait()
    await gatherer.close()
    with pytest.raises(asyncio.CancelledError):
        await waits
