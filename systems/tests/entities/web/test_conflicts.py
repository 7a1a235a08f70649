"""Conflicts are kept for a person to decide, and decided once."""

import asyncio

from rowmill_systems.entities.deciding import queue_again
from rowmill_systems.entities.models import EntityId
from systems.tests.entities.harness import FakeSource
from systems.tests.entities.served import Served, served


def fake_source() -> FakeSource:
    found = FakeSource()
    found.learn("Ada Lovelace", "Q7259", birth_date="1815-12-10")
    return found


async def one_conflict(harness: Served) -> tuple[EntityId, str]:
    id = await harness.put("Ada Lovelace", entity_type="person", properties={"birth_date": "1816"})
    await harness.drain()
    [conflict] = (await harness.get("/conflicts"))["conflicts"]
    assert (conflict["name"], conflict["property"]) == ("Ada Lovelace", "birth_date")
    return id, f"/conflicts/{conflict['id']}/decide"


async def test_the_other_value_is_taken_and_stays(database_url: str) -> None:
    """E5."""
    async with served(database_url, fake_source()) as harness:
        id, decide = await one_conflict(harness)
        answer = await harness.client.post(decide, json={"choice": "other", "by": "ann"})
        assert answer.status_code == 200
        found = answer.json()
        assert (found["state"], found["chosen_value"], found["decided_by"]) == ("decided", "1815-12-10", "ann")
        assert await harness.merged(id) == {"birth_date": ["1815-12-10"]}
        assert (await harness.entity(id)).properties == {"birth_date": "1816"}, "what is local stays what it was"
        await queue_again(harness.entities, id)
        await harness.drain()
        assert await harness.merged(id) == {"birth_date": ["1815-12-10"]}
        assert (await harness.get("/conflicts"))["conflicts"] == [], "nobody is asked again"
        assert len((await harness.get("/conflicts", state="decided"))["conflicts"]) == 1


async def test_the_current_value_or_one_of_ones_own(database_url: str) -> None:
    async with served(database_url, fake_source()) as harness:
        id, decide = await one_conflict(harness)
        nothing = await harness.client.post(decide, json={"choice": "value"})
        assert nothing.status_code == 422
        await harness.client.post(decide, json={"choice": "value", "value": "1815-12-11"})
        assert await harness.merged(id) == {"birth_date": ["1815-12-11"]}
        assert "decided" in await harness.history(id)


async def test_of_many_at_once_one_decides_and_the_rest_hear_409(database_url: str) -> None:
    async with served(database_url, fake_source()) as harness:
        id, decide = await one_conflict(harness)
        choices = ["current", "other"] * 4
        answers = await asyncio.gather(*(harness.client.post(decide, json={"choice": one}) for one in choices))
        assert sorted(answer.status_code for answer in answers) == [200, *[409] * 7]
        [winner] = [one for one, answer in zip(choices, answers, strict=True) if answer.status_code == 200]
        assert await harness.merged(id) == {"birth_date": ["1816" if winner == "current" else "1815-12-10"]}


async def test_a_new_value_of_a_source_asks_again_and_an_old_one_does_not(database_url: str) -> None:
    wise = fake_source()
    async with served(database_url, wise) as harness:
        id, decide = await one_conflict(harness)
        await harness.client.post(decide, json={"choice": "other"})
        wise.learn("Ada Lovelace", "Q7259", birth_date="1817")
        await queue_again(harness.entities, id)
        await harness.drain()
        assert await harness.merged(id) == {"birth_date": ["1816"]}
        assert [one.state for one in await harness.conflicts(id)] == ["settled", "open"]
        wise.learn("Ada Lovelace", "Q7259", birth_date="1815-12-10")
        await queue_again(harness.entities, id)
        await harness.drain()
        assert await harness.merged(id) == {"birth_date": ["1815-12-10"]}
        assert [one.state for one in await harness.conflicts(id)] == ["decided", "settled"]


async def test_what_is_not_there_or_settled(database_url: str) -> None:
    wise = fake_source()
    async with served(database_url, wise) as harness:
        id, decide = await one_conflict(harness)
        gone = await harness.client.post("/conflicts/999/decide", json={"choice": "other"})
        assert (gone.status_code, gone.json()["code"]) == (404, "no_such_conflict")
        await harness.client.patch(f"/entities/{id}", json={"properties": {}})
        late = await harness.client.post(decide, json={"choice": "other"})
        assert (late.status_code, late.json()["state"]) == (409, "settled")
