"""C5: a service of the Reconciliation API 0.2, by a real HTTP server that misbehaves."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest

import rowmill as rm
from demos.companies.faulty_server import FaultPlan, GivenReply, HttpFault
from demos.companies.reconciliation_server import BATCH_SIZE, ReconciliationServer
from demos.entities.server import Server
from rowmill_systems.companies.lookup import CallBudget
from rowmill_systems.companies.providers.port import BudgetSpent
from rowmill_systems.companies.providers.reconciliation import BATCH, ReconciliationProvider
from systems.tests.companies.providers.conformance import (
    KNOWN,
    REGISTRY,
    Clock,
    HttpProviderConformance,
    Opened,
    code,
    ids,
)


@pytest.fixture
def service() -> Iterator[ReconciliationServer]:
    with ReconciliationServer(REGISTRY) as server:
        yield server


@pytest.fixture
def opened(service: ReconciliationServer) -> Iterator[Opened]:
    clock = Clock()
    provider = ReconciliationProvider("gleif", service.url, timeout_seconds=0.75, clock=clock)
    yield Opened(provider, clock, service)
    provider.close()


class TestReconciliation(HttpProviderConformance):
    """Held to what every provider over HTTP must do."""

    first_requests = 1  # its manifest


def asked(service: ReconciliationServer) -> list[dict[str, Any]]:
    """Return the batches of queries that were sent."""
    return [json.loads(each.parameters["queries"]) for each in service.requests if each.method == "POST"]


def test_a_batch_is_one_request_and_the_manifest_is_read_once(service: ReconciliationServer, opened: Opened) -> None:
    for _ in range(3):
        answers = opened.search(*KNOWN)
        assert [ids(answer)[0] for answer in answers] == [f"C{number}" for number in range(1, len(KNOWN) + 1)]
    assert [request.method for request in service.requests] == ["GET", "POST", "POST", "POST"]
    assert [len(batch) for batch in asked(service)] == [len(KNOWN)] * 3


def test_batches_are_as_large_as_the_service_allows(service: ReconciliationServer, opened: Opened) -> None:
    assert opened.provider.batch_size == BATCH
    names = [f"{KNOWN[0]} {number}" for number in range(25)]
    answers = opened.search(*names)
    assert all(not isinstance(answer, rm.errors.WorkError) for answer in answers)
    assert [len(batch) for batch in asked(service)] == [BATCH_SIZE, BATCH_SIZE, 5]
    assert opened.provider.batch_size == BATCH_SIZE


def test_a_ceiling_of_ours_holds_too(service: ReconciliationServer) -> None:
    provider = ReconciliationProvider("gleif", service.url, batch_size=3)
    provider.search(KNOWN, lambda: None)
    provider.close()
    assert [len(batch) for batch in asked(service)] == [3, 3, 1]


def test_type_and_properties_go_with_every_query(service: ReconciliationServer) -> None:
    provider = ReconciliationProvider(
        "gleif", service.url, type="company", properties={"P17": "Q183"}, limit=5, contact="me@example.org"
    )
    provider.search(KNOWN[:2], lambda: None)
    provider.close()
    (batch,) = asked(service)
    expected = {"limit": 5, "type": "company", "properties": [{"pid": "P17", "v": "Q183"}]}
    assert list(batch.values()) == [{"query": name, **expected} for name in KNOWN[:2]]
    assert "me@example.org" in service.requests[0].headers["user-agent"]


def test_another_type_finds_nothing(service: ReconciliationServer) -> None:
    provider = ReconciliationProvider("gleif", service.url, type="person")
    assert provider.search(KNOWN[:1], lambda: None) == [[]]
    provider.close()


def test_one_name_without_a_result_fails_alone(service: ReconciliationServer, opened: Opened) -> None:
    service.failing_names = {KNOWN[1]}
    first, second, third = opened.search(*KNOWN[:3])
    assert (ids(first)[0], code(second), ids(third)[0]) == ("C1", "bad_answer", "C3")


def test_one_name_that_is_rejected_fails_alone(service: ReconciliationServer, opened: Opened) -> None:
    service.rejected_names = {KNOWN[2]}
    budget = CallBudget(1000)
    answers = opened.provider.search(KNOWN, budget.spend)
    assert code(answers[2]) == "rejected"
    assert [ids(answer)[0] for answer in (*answers[:2], *answers[3:])] == ["C1", "C2", "C4", "C5", "C6", "C7"]
    assert budget.spent == service.counts.requests, "halves are requests too"


def test_a_batch_that_is_too_large_is_halved(service: ReconciliationServer, opened: Opened) -> None:
    service.batch_size = None  # its manifest does not say
    opened.search(KNOWN[0])
    service.batch_size = 4  # and it takes less than is usual
    answers = opened.search(*KNOWN)
    assert [ids(answer)[0] for answer in answers] == [f"C{number}" for number in range(1, len(KNOWN) + 1)]


def test_what_was_paid_for_is_not_lost_when_the_budget_ends(service: ReconciliationServer) -> None:
    provider = ReconciliationProvider("gleif", service.url, batch_size=2)
    answers = provider.search(KNOWN[:4], CallBudget(2).spend)
    assert [ids(answer)[0] for answer in answers[:2]] == ["C1", "C2"]
    assert all(isinstance(answer, BudgetSpent) for answer in answers[2:])
    provider.close()


@pytest.mark.parametrize("fault", [HttpFault.BROKEN, HttpFault.HTML, HttpFault.NOT_FOUND, HttpFault.EMPTY])
def test_a_manifest_that_can_not_be_read_fails_all_names(
    service: ReconciliationServer, opened: Opened, fault: HttpFault
) -> None:
    service.plan = FaultPlan(next=[fault])
    first = opened.search(*KNOWN[:2])
    assert {code(answer) for answer in first} == {"server_error" if fault is HttpFault.BROKEN else "bad_answer"}
    assert [ids(answer)[0] for answer in opened.search(*KNOWN[:2])] == ["C1", "C2"], "it is read again"


def test_a_404_is_a_wrong_address(service: ReconciliationServer, opened: Opened) -> None:
    opened.search(KNOWN[0])
    service.plan = FaultPlan(next=[HttpFault.NOT_FOUND])
    (answer,) = opened.search(KNOWN[0])
    assert code(answer) == "bad_answer"
    assert "WDH_RECONCILIATION" in str(answer)


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        ([{"id": "7", "name": "Acme", "score": 1e9}], None),
        ([{"id": 7, "name": "Acme", "score": "high", "type": ["Q1", {"id": "Q2"}, 3]}], None),
        ([{"id": "7", "name": "Acme", "score": 50, "description": "a company"}, {"id": "8"}, None], 0.5),
    ],
)
def test_odd_candidates_are_understood(
    service: ReconciliationServer, opened: Opened, monkeypatch: pytest.MonkeyPatch, result: Any, expected: float | None
) -> None:
    opened.search(KNOWN[0])
    monkeypatch.setattr(service, "reply", lambda request: GivenReply({"q0": {"result": result}}))
    (found,) = opened.search("Acme")
    assert not isinstance(found, rm.errors.WorkError)
    assert [(each.company_id, each.name, each.provider_score) for each in found] == [("7", "Acme", expected)]
    assert found[0].details["page"] == "http://companies.example/id/7"


async def test_the_service_of_entities_can_be_asked(server: Server) -> None:
    """Another implementation of the same API, written for another system."""
    thing = next(each for each in server.world.things.values() if each.name)
    provider = ReconciliationProvider("world", server.settings["reconciliation"]["world"])
    (found,) = await asyncio.to_thread(provider.search, [thing.name], CallBudget(5).spend)
    provider.close()
    assert thing.id in ids(found)
