"""What a service may answer instead of an answer: what it is called, what the fleet knows of it; and none is kept."""

from typing import Any

import pytest

import rowmill as rm
from demos.entities.plan import Fault
from demos.entities.server import Server
from rowmill_systems.parts.services.open import HttpServices
from systems.tests.entities.services import PERSON, kept, services_on
from tests.support.nats import free_port

QUESTION = PERSON | {"search": "Planted Name"}


async def failed(
    services: HttpServices, service: str = "wikidata", path: str = "", question: Any = QUESTION
) -> rm.errors.WorkError:
    with pytest.raises(rm.errors.WorkError) as raised:
        await services[service].get(path, question)
    return raised.value


@pytest.mark.parametrize(
    ("fault", "kind", "code"),
    [
        (Fault.TOO_MANY, rm.RateLimited, "rate_limited"), (Fault.UNAVAILABLE, rm.RateLimited, "rate_limited"),
        (Fault.MAXLAG, rm.RateLimited, "rate_limited"), (Fault.RATELIMITED, rm.RateLimited, "rate_limited"),
        (Fault.BROKEN, rm.errors.ProviderDown, "provider_down"), (Fault.CUT, rm.errors.ProviderDown, "provider_down"),
        (Fault.SHORT, rm.errors.ProviderDown, "provider_down"), (Fault.HTML, rm.errors.ProviderDown, "provider_down"),
        (Fault.FORBIDDEN, rm.errors.ProviderRefused, "provider_refused"),
        (Fault.REDIRECT, rm.errors.ProviderRefused, "provider_refused"),
        (Fault.REJECTED, rm.PermanentError, "rejected"),
    ],
)  # fmt: skip
async def test_a_failure_is_told_to_the_fleet_and_never_kept(
    server: Server, database_url: str, fault: Fault, kind: type[rm.errors.WorkError], code: str
) -> None:
    """E9."""
    server.plan.next["wikidata"] = [fault]
    server.plan.retry_after = 7
    async with services_on(server, database_url) as (services, mill):
        error = await failed(services)
        state = await mill.limits["entities-wikidata"].state()
        assert (type(error) is kind or isinstance(error, kind), error.code) == (True, code)
        assert await kept(mill) == []
        assert state.slots == 0
        assert state.off == (kind is rm.errors.ProviderRefused)
        assert (state.parked_until is not None) == (kind is rm.RateLimited)
        if isinstance(error, rm.RateLimited):
            assert error.retry_after == 7


@pytest.mark.parametrize("fault", [Fault.HANG, Fault.DRIP])
async def test_a_call_that_takes_too_long(server: Server, sqlite_url: str, fault: Fault) -> None:
    server.plan.next["wikidata"] = [fault, ""]
    async with services_on(server, sqlite_url, call_seconds=0.5) as (services, mill):
        assert isinstance(await failed(services), rm.errors.ProviderDown)
        assert await kept(mill) == []


async def test_after_a_failure_it_is_asked_again(server: Server, database_url: str) -> None:
    server.plan.next["wikidata"] = [Fault.BROKEN]
    async with services_on(server, database_url) as (services, mill):
        await failed(services)
        assert (await services["wikidata"].get("", QUESTION))["success"] == 1
        assert len(await kept(mill)) == 1


async def test_a_service_that_is_not_there(server: Server, sqlite_url: str) -> None:
    nobody = f"http://127.0.0.1:{free_port()}/w/api.php"
    async with services_on(server, sqlite_url, wikidata_url=nobody) as (services, _):
        assert isinstance(await failed(services), rm.errors.ProviderDown)


async def test_a_name_that_a_service_does_not_have_is_no_wrong_address(server: Server, sqlite_url: str) -> None:
    async with services_on(server, sqlite_url, wikidata_url=f"{server.url}/nowhere") as (services, mill):
        error = await failed(services, "dbpedia-data", "/Nobody.json", {})
        assert (error.code, getattr(error, "gone", False)) == ("rejected", True)
        assert (await mill.limits["entities-dbpedia-data"].state()).available
        assert isinstance(await failed(services), rm.errors.ProviderRefused), "there the address itself is wrong"


async def test_a_question_that_mediawiki_does_not_take_is_that_question_s_fault(
    server: Server, sqlite_url: str
) -> None:
    async with services_on(server, sqlite_url) as (services, mill):
        error = await failed(services, question=PERSON | {"search": ""})
        assert (type(error).__mro__[1], error.code) == (rm.PermanentError, "rejected")
        assert (await mill.limits["entities-wikidata"].state()).available
        assert await kept(mill) == []


@pytest.mark.parametrize("service", ["dbpedia-lookup", "dbpedia-data", "dbpedia-spotlight", "world", "wikidata"])
async def test_json_of_another_kind_is_no_answer(
    server: Server, sqlite_url: str, service: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody's portal says {"status": "log in"}: that is not "no match"."""
    odd = {"status": "log in"}
    monkeypatch.setattr(server.wikidata, "answer", lambda given: odd)
    monkeypatch.setattr(server.reconciliation, "answer", lambda given, base: odd)
    for asked in ("lookup", "candidates", "data"):
        monkeypatch.setattr(server.dbpedia, asked, lambda given: odd)
    async with services_on(server, sqlite_url) as (services, mill):
        error = await failed(services, service, "/x.json" if service == "dbpedia-data" else "")
        assert isinstance(error, rm.errors.ProviderDown)
        assert await kept(mill) == []


async def test_one_who_does_not_say_who_calls_is_told_what_to_set(server: Server, sqlite_url: str) -> None:
    async with services_on(server, sqlite_url) as (services, _):
        services._client.headers["User-Agent"] = "python-httpx2/2.16"
        error = await failed(services)
        assert isinstance(error, rm.errors.ProviderRefused)
        assert "ENTITIES_CONTACT" in str(error)


async def test_it_says_who_calls(server: Server, sqlite_url: str) -> None:
    """E9."""
    async with services_on(server, sqlite_url) as (services, _):
        await services["wikidata"].get("", QUESTION)
    [agent] = server.user_agents
    assert agent.startswith(f"Rowmill/{rm.__version__} (entities; team@example.org) python-httpx2/")
