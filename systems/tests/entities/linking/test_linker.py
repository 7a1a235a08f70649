"""All sources are asked at once; if one cannot be, nothing is concluded."""

import asyncio
from collections.abc import Sequence

import pytest

import rowmill as rm
from rowmill_systems.entities.linking.linker import Linker
from rowmill_systems.entities.things import Candidate, Fact, Mention
from rowmill_systems.parts.names.types import EntityType
from systems.tests.entities.linking.offered import BASKETBALL, PLACE, candidate, mention

BERLIN = "http://dbpedia.org/resource/Berlin"


class Asked:
    """A source that answers what it was given, or fails with it; it waits until so many are under way, if asked to."""

    def __init__(self, name: str, answer: Sequence[Candidate] | Exception, together: asyncio.Barrier | None = None):
        self.name = name
        self.answer = answer
        self.together = together
        self.finished = 0

    async def candidates(self, mention: Mention) -> Sequence[Candidate]:
        if self.together:
            await self.together.wait()
        if isinstance(self.answer, Exception):
            raise self.answer
        await asyncio.sleep(0)
        self.finished += 1
        return self.answer

    async def facts(self, id: str, type: EntityType | None) -> Sequence[Fact]:
        raise NotImplementedError

    async def close(self) -> None:
        raise NotImplementedError


def linker(*sources: Asked) -> Linker:
    return Linker(sources, threshold=0.75, gap=0.15)


async def test_what_all_sources_offer_is_chosen_from() -> None:
    wikidata = Asked("wikidata", [candidate("Berlin", PLACE, source="wikidata", id="Q64")])
    dbpedia = Asked("dbpedia", [candidate("Berlin", PLACE, source="dbpedia", id=BERLIN, wikidata_id="Q64")])
    link = (await linker(wikidata, dbpedia).link(mention("Berlin"))).link
    assert link
    assert (link.source, link.wikidata_id, link.dbpedia_uri) == ("wikidata+dbpedia", "Q64", BERLIN)


class Knowing(Asked):
    """A source whose data name Wikidata's id."""

    def __init__(self, name: str, answer: Sequence[Candidate] | Exception, wikidata: str | Exception | None) -> None:
        super().__init__(name, answer)
        self.wikidata = wikidata
        self.told: list[str] = []

    async def wikidata_id(self, id: str) -> str | None:
        self.told.append(id)
        if isinstance(self.wikidata, Exception):
            raise self.wikidata
        return self.wikidata


@pytest.mark.parametrize("known", ["Q64", None])
async def test_whom_only_dbpedia_offers_gets_the_id_of_wikidata_from_its_data(known: str | None) -> None:
    dbpedia = Knowing("dbpedia", [candidate("Berlin", PLACE, source="dbpedia", id=BERLIN)], known)
    link = (await linker(Asked("wikidata", []), dbpedia).link(mention("Berlin"))).link
    assert link
    assert (link.source, link.wikidata_id, link.dbpedia_uri) == ("dbpedia", known, BERLIN)
    assert dbpedia.told == [BERLIN]


async def test_nobody_is_asked_for_an_id_that_is_known_or_of_a_thing_that_it_does_not_have() -> None:
    dbpedia = Knowing("dbpedia", [candidate("Berlin", PLACE, source="dbpedia", id=BERLIN, wikidata_id="Q64")], "Q1")
    link = (await linker(dbpedia).link(mention("Berlin"))).link
    assert link
    assert link.wikidata_id == "Q64"
    other = Knowing("dbpedia", [], "Q1")
    found = (await linker(other, Asked("own", [candidate("Berlin", PLACE, source="own")])).link(mention("Berlin"))).link
    assert found
    assert found.wikidata_id is None
    assert dbpedia.told == other.told == []


async def test_without_the_data_of_whom_only_dbpedia_offers_nothing_is_concluded() -> None:
    down = rm.errors.ProviderDown(retry_after=5)
    with pytest.raises(rm.errors.ProviderDown):
        await linker(Knowing("dbpedia", [candidate("Berlin", PLACE, source="dbpedia", id=BERLIN)], down)).link(
            mention("Berlin")
        )


async def test_sources_are_asked_at_once() -> None:
    together = asyncio.Barrier(3)
    sources = [Asked(str(number), [BASKETBALL], together) for number in range(3)]
    async with asyncio.timeout(30):
        assert (await linker(*sources).link(mention("Michael Jordan"))).link


async def test_no_source_knows_it() -> None:
    for sources in ((Asked("one", []), Asked("other", [])), ()):
        choice = await linker(*sources).link(mention("Nobody"))
        assert (choice.link, choice.candidates, choice.reason) == (None, (), "no source knows that name")


async def test_if_one_cannot_be_asked_the_others_finish_and_nothing_is_concluded() -> None:
    fine = Asked("embedded", [BASKETBALL])
    down = rm.errors.ProviderDown(retry_after=5)
    with pytest.raises(rm.errors.ProviderDown) as caught:
        await linker(Asked("wikidata", down), fine).link(mention("Michael Jordan"))
    assert caught.value is down
    assert fine.finished == 1


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(
    ("told", "other"),
    [
        (rm.errors.ProviderDown(retry_after=60), rm.RateLimited(retry_after=5)),
        (rm.RateLimited(retry_after=600), rm.errors.ProviderDown(retry_after=60)),
        (rm.errors.ProviderRefused(retry_after=60), rm.errors.Limited("dbpedia", "", "rate", 0.2)),
        (rm.errors.Limited("dbpedia", "", "off", 300), rm.RateLimited(retry_after=5)),
        (rm.PermanentError(code="rejected"), rm.RateLimited(retry_after=600)),
        (rm.TransientError(), rm.RateLimited(retry_after=600)),
        (rm.PermanentError(code="rejected"), rm.TransientError()),
        (KeyError("a mistake of ours"), rm.errors.ProviderDown(retry_after=60)),
    ],
)
async def test_of_several_failures_the_one_that_lasts_longest_is_told(
    told: Exception, other: Exception, turned: bool
) -> None:
    failing = [Asked("one", told), Asked("other", other)]
    with pytest.raises(type(told)) as caught:
        await linker(*(reversed(failing) if turned else failing)).link(mention("Berlin"))
    assert caught.value is told


async def test_who_is_cancelled_asks_no_further() -> None:
    never, started = asyncio.Barrier(2), asyncio.Event()

    class Slow(Asked):
        async def candidates(self, mention: Mention) -> Sequence[Candidate]:
            started.set()
            return await super().candidates(mention)

    slow = Slow("slow", [BASKETBALL], never)
    task = asyncio.create_task(linker(slow).link(mention("Michael Jordan")))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert never.n_waiting == 0
    assert slow.finished == 0
