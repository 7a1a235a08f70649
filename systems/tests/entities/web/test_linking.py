"""E6: why there is no link, and a person who chooses one."""

from collections.abc import Sequence
from typing import Any

import pytest

from rowmill_systems.entities.models import EntityId
from rowmill_systems.entities.things import Candidate, Mention
from rowmill_systems.parts.names.types import EntityType
from systems.tests.entities.harness import FakeSource
from systems.tests.entities.served import Served, served

COMPANY, RECORDS = "Q312", "Q213710"


class Namesakes(FakeSource):
    """Knows two things of one name."""

    async def candidates(self, mention: Mention) -> Sequence[Candidate]:
        await self._answer("candidates", mention.name)
        if mention.name != "Apple":
            return []
        types, uri = frozenset({EntityType.ORGANISATION}), "http://dbpedia.org/resource/Apple_Inc."
        return [
            Candidate("wikidata", COMPANY, "Apple", types=types, description="<b>computers</b>", prominence=0.9,
                      wikidata_id=COMPANY, dbpedia_uri=uri),
            Candidate("wikidata", RECORDS, "Apple", types=types, description="music", prominence=0.85,
                      wikidata_id=RECORDS),
        ]  # fmt: skip


def namesakes() -> Namesakes:
    found = Namesakes()
    found.known = {COMPANY: {"inception": ("1976",)}, RECORDS: {"inception": ("1968",)}, "Q99": {}}
    return found


async def without_link(harness: Served) -> EntityId:
    id = await harness.put("Apple", entity_type="ORG")
    await harness.drain()
    return id


async def choose(harness: Served, entity: EntityId, **given: Any) -> Any:
    return await harness.client.post(f"/entities/{entity}/link", json=given)


async def test_it_is_said_why_there_is_no_link(database_url: str) -> None:
    async with served(database_url, namesakes()) as harness:
        id = await without_link(harness)
        nobody = await harness.put("Nobody at All")
        await harness.drain()
        found = await harness.get(f"/entities/{id}")
        assert (found["enrichment_status"], found["enrichment_note"]) == ("COMPLETE", "No external link found")
        best, next_one = found["candidates"]
        assert found["linking_reason"] == (
            f"Apple, <b>computers</b> ({best['score']:.2f}) and Apple, music ({next_one['score']:.2f}) are too close"
        )
        assert best["score"] > next_one["score"] > 0.75
        assert set(best["reasons"]) == {"name", "type", "context", "facts", "prominence"}
        assert (best["wikidata_id"], best["source"]) == (COMPANY, "wikidata")
        other = await harness.get(f"/entities/{nobody}")
        assert (other["linking_reason"], other["candidates"]) == ("no source knows that name", [])
        page = (await harness.client.get(f"/browse/{id}")).text
        assert "are too close" in page
        assert f"{best['score']:.2f}" in page
        assert "<b>computers" not in page
        assert "no source knows that name" in (await harness.client.get("/browse")).text


async def test_a_person_chooses_a_candidate_and_it_goes_on(database_url: str) -> None:
    wise = namesakes()
    async with served(database_url, wise) as harness:
        id = await without_link(harness)
        answer = await choose(harness, id, source="wikidata", id=RECORDS, by="ann")
        assert (answer.status_code, answer.json()) == (202, {"status": "queued", "entity_id": str(id)})
        wise.asked.clear()
        await harness.drain()
        row = await harness.entity(id)
        assert (row.enrichment_status, row.wikidata_id, row.linking_source) == ("COMPLETE", RECORDS, "person")
        assert (row.linking_confidence, row.linking_label, row.linking_reason) == (1.0, "Apple", None)
        assert row.enrichment_note is None
        assert await harness.merged(id) == {"inception": ["1968"]}
        assert wise.asked == [f"facts {RECORDS}"], "nobody is asked who is meant"
        assert "chosen" in await harness.history(id)
        assert "a person chose it" in (await harness.client.get(f"/browse/{id}")).text


async def test_a_choice_holds_until_a_person_changes_it(database_url: str) -> None:
    wise = namesakes()
    async with served(database_url, wise) as harness:
        id = await without_link(harness)
        await choose(harness, id, source="dbpedia", id="http://dbpedia.org/resource/Apple_Inc.")
        await harness.drain()
        assert (await harness.entity(id)).wikidata_id == COMPANY, "a candidate comes with all of its ids"
        await harness.client.post(f"/enrichment/queue/{id}")
        await harness.drain()
        row = await harness.entity(id)
        assert (row.wikidata_id, row.linking_source) == (COMPANY, "person")
        assert len((await harness.get(f"/entities/{id}"))["candidates"]) == 2, "the others can still be chosen"
        await choose(harness, id, choice="none")
        await harness.drain()
        row = await harness.entity(id)
        assert (row.wikidata_id, row.linking_source) == (None, "person")
        assert (row.enrichment_status, row.enrichment_note) == ("COMPLETE", "No external link found")
        assert (row.linking_reason, await harness.merged(id)) == ("a person found no link", {})
        await choose(harness, id, choice="sources")
        await harness.drain()
        row = await harness.entity(id)
        assert (row.linking_source, row.wikidata_id) == (None, None)
        assert row.linking_reason.endswith("are too close")


@pytest.mark.parametrize(
    ("source", "id", "column"),
    [("wikidata", "Q99", "wikidata_id"), ("dbpedia", "http://dbpedia.org/resource/Apple", "dbpedia_uri")],
)
async def test_an_id_that_no_source_offered_may_be_given(database_url: str, source: str, id: str, column: str) -> None:
    async with served(database_url, namesakes()) as harness:
        entity = await harness.put("Nobody at All")
        await harness.drain()
        assert (await choose(harness, entity, source=source, id=id)).status_code == 202
        await harness.drain()
        row = await harness.entity(entity)
        assert (getattr(row, column), row.linking_label, row.linking_source) == (id, id, "person")
        assert row.enrichment_status == "COMPLETE"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"source": "wikidata", "id": "42"}, "an id of wikidata looks like this: Q42"),
        ({"source": "dbpedia", "id": "javascript:alert(1)"}, "an id of dbpedia looks like this"),
        ({"source": "freebase", "id": "/m/1"}, "source is one of: wikidata, dbpedia"),
    ],
)
async def test_what_can_be_no_id_is_refused(database_url: str, given: dict[str, str], message: str) -> None:
    async with served(database_url, namesakes()) as harness:
        id = await without_link(harness)
        answer = await choose(harness, id, **given)
        assert (answer.status_code, answer.json()["code"]) == (422, "invalid")
        assert message in answer.json()["message"]
        assert await harness.status(id) == "COMPLETE"


async def test_on_the_page(database_url: str) -> None:
    async with served(database_url, namesakes()) as harness:
        id = await without_link(harness)
        page = f"/browse/{id}"
        refused = await harness.client.post(f"{page}/link", data={"choice": "thing", "source": "wikidata", "id": "x"})
        assert refused.status_code == 422
        assert "looks like this" in refused.text
        odd = await harness.client.post(f"{page}/link", data={"choice": "odd"})
        assert (odd.status_code, "Not done" in odd.text) == (422, True)
        form = {"choice": "thing", "source": "wikidata", "id": COMPANY}
        foreign = await harness.client.post(f"{page}/link", data=form, headers={"origin": "http://elsewhere.example"})
        assert foreign.status_code == 403
        assert await harness.status(id) == "COMPLETE"
        done = await harness.client.post(f"{page}/link", data=form, follow_redirects=False)
        assert (done.status_code, done.headers["location"]) == (303, page)
        await harness.drain()
        assert (await harness.entity(id)).wikidata_id == COMPANY
        assert (await harness.client.post("/browse/nobody/link", data=form)).status_code == 404


async def test_who_is_at_work_on_it_is_not_disturbed(database_url: str) -> None:
    async with served(database_url, namesakes()) as harness:
        id = await without_link(harness)
        await harness.execute(_running(harness))
        answer = await choose(harness, id, choice="none")
        assert (answer.status_code, answer.json()["code"]) == (409, "in_progress")
        assert (await harness.entity(id)).linking_source is None


def _running(harness: Served) -> Any:
    return harness.tables.entity.__table__.update().values(enrichment_status="ENRICHING", lease=1)
