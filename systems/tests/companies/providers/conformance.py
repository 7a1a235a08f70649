"""What every provider must do, and what every provider over HTTP must do besides.

A test module subclasses one of the two and defines the fixture `opened`.
"""

import logging
import threading
import traceback
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest

import rowmill as rm
from demos.companies.faulty_server import FaultPlan, FaultyServer, GivenRequest, HttpFault
from demos.companies.registry import CompanyRegistry, RegisteredCompany
from rowmill_systems.companies.lookup import CallBudget
from rowmill_systems.companies.providers.port import (
    LONGEST_NAME,
    Answer,
    BudgetSpent,
    CompanyCandidate,
    CompanyProvider,
    ProviderOff,
)

COMPANIES = (
    RegisteredCompany("C1", "Siemens AG"),
    RegisteredCompany("C2", "Siemens Energy AG"),
    RegisteredCompany("C3", "华为技术有限公司"),
    RegisteredCompany("C4", "株式会社日立製作所"),
    RegisteredCompany("C5", "ООО Ромашка"),
    RegisteredCompany("C6", "Müller & Söhne GmbH"),
    RegisteredCompany("C7", "Nordwind Logistik GmbH", former_name="Südwind Spedition GmbH"),
)
REGISTRY = CompanyRegistry(COMPANIES)
KNOWN = [company.name for company in COMPANIES]
UNKNOWN = "Qqxzw Vvkjp"
PLANTED_NAME = "Plantedname"
PLANTED_TOKEN = "planted-token-8471"
LARGE = 1_000_000


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Opened:
    """A provider that knows COMPANIES, and what a test needs beside it."""

    provider: CompanyProvider
    clock: Clock
    server: FaultyServer | None = None
    """None: it makes no requests."""

    @property
    def requests(self) -> int:
        return self.server.counts.requests if self.server else 0

    def search(self, *names: str, budget: int = 1000) -> list[Answer]:
        return list(self.provider.search(names, CallBudget(budget).spend))


def ids(answer: Answer) -> list[str]:
    assert not isinstance(answer, rm.errors.WorkError), answer
    return [candidate.company_id for candidate in answer]


def code(answer: Answer) -> str:
    assert isinstance(answer, rm.errors.WorkError), "it is no error"
    return answer.code


def chain_of(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error with its causes, and with those in the course of which they were raised."""
    if error is not None:
        yield error
        yield from chain_of(error.__cause__)
        yield from chain_of(error.__context__)


def texts_of(answers: Sequence[Answer]) -> list[str]:
    """Return all that errors could show of themselves."""
    shown: list[str] = []
    for answer in answers:
        if isinstance(answer, rm.errors.WorkError):
            for each in chain_of(answer):
                shown += [str(each), repr(each), *map(repr, each.args)]
            shown += traceback.format_exception(answer)
    return shown


def arrivals(server: FaultyServer) -> threading.Event:
    """Return an event that is set when the next request has arrived."""
    arrived, count = threading.Event(), server.arrived

    def seen(request: GivenRequest, names: list[str]) -> str:
        fault = count(request, names)
        arrived.set()
        return fault

    server.arrived = seen  # type: ignore[method-assign]
    return arrived


class ProviderConformance:
    """What every provider must do."""

    def test_each_name_gets_its_answer_in_order(self, opened: Opened) -> None:
        names = [KNOWN[2], UNKNOWN, KNOWN[0], KNOWN[4], KNOWN[3]]
        found = [answer for name in names for answer in opened.search(name)]
        assert [ids(answer)[:1] for answer in found] == [["C3"], [], ["C1"], ["C5"], ["C4"]]

    def test_a_batch_gets_as_many_answers_as_it_has_names(self, opened: Opened) -> None:
        names = (KNOWN * 10)[: opened.provider.batch_size]
        answers = opened.search(*names)
        assert [ids(answer)[0] for answer in answers] == [f"C{KNOWN.index(name) + 1}" for name in names]
        assert opened.search() == []

    def test_candidates_have_an_id_and_a_name(self, opened: Opened) -> None:
        (found,) = opened.search("Siemens AG")
        assert not isinstance(found, rm.errors.WorkError)
        assert found[0] == CompanyCandidate(
            "C1", "Siemens AG", provider_score=found[0].provider_score, details=found[0].details
        )
        assert all(each.provider_score is None or 0 <= each.provider_score <= 1 for each in found)
        assert opened.provider.name
        assert opened.provider.batch_size >= 1

    def test_an_unknown_name_is_an_answer(self, opened: Opened) -> None:
        assert opened.search(UNKNOWN) == [[]]

    @pytest.mark.parametrize("name", ["", "   ", "\u3000\t\n", "\x00"])
    def test_a_blank_name_costs_no_request(self, opened: Opened, name: str) -> None:
        assert [code(answer) for answer in opened.search(name)] == ["blank_name"]
        assert opened.requests == 0

    @pytest.mark.parametrize("length", [LONGEST_NAME + 1, LARGE])
    def test_a_name_that_is_too_long_is_refused_without_a_request(self, opened: Opened, length: int) -> None:
        (answer,) = opened.search("A" * length)
        assert code(answer) == "name_too_long"
        assert isinstance(answer, rm.PermanentError)
        assert opened.requests == 0

    @pytest.mark.parametrize(
        "name",
        ["A&B=C?x#y%+ Ltd", 'The "Quoted" \\ Co', "two\nlines\tand tabs", "\ud800 Ltd", "x\x00y Ltd", "'; DROP--", "*"],
    )
    def test_any_characters_can_be_asked_for(self, opened: Opened, name: str) -> None:
        (answer,) = opened.search(name)
        assert not isinstance(answer, rm.errors.WorkError)

    def test_threads_get_their_own_answers(self, opened: Opened) -> None:
        def look(place: int) -> bool:
            company = COMPANIES[place % len(COMPANIES)]
            return ids(opened.search(company.name)[0])[0] == company.company_id

        with ThreadPoolExecutor(8) as pool:
            assert all(pool.map(look, range(80)))

    def test_closing_twice_is_fine_and_ends_requests(self, opened: Opened) -> None:
        opened.search(KNOWN[0])
        before = opened.requests
        opened.provider.close()
        opened.provider.close()
        assert [code(answer) for answer in opened.search(KNOWN[1])] == ["provider_closed"]
        assert opened.requests == before

    def test_every_request_is_spent_and_nothing_else(self, opened: Opened) -> None:
        budget = CallBudget(1000)
        for name in (*KNOWN, UNKNOWN, "", "A" * LARGE):
            opened.provider.search([name], budget.spend)
        assert budget.spent == opened.requests

    def test_no_name_is_shown(self, opened: Opened, caplog: pytest.LogCaptureFixture) -> None:
        with caplog.at_level(logging.DEBUG):
            answers = opened.search(f"{PLANTED_NAME} Ltd") + opened.search(PLANTED_NAME * 1000)
        assert_nothing_shown(caplog, answers)


class HttpProviderConformance(ProviderConformance):
    """What every provider over HTTP must do."""

    first_requests = 0
    """Requests that are made before the first name can be asked for."""

    def misbehave(self, opened: Opened, *faults: str, retry_after: float = 1.0) -> FaultyServer:
        """Let the next searches be answered so."""
        assert opened.server is not None
        if self.first_requests:
            opened.search(UNKNOWN)
        opened.server.plan = FaultPlan(next=list(faults), retry_after=retry_after)
        return opened.server

    def test_the_budget_is_never_exceeded(self, opened: Opened) -> None:
        budget = CallBudget(10)
        spent: list[BaseException] = []

        def look(name: str) -> None:
            try:
                answers = opened.provider.search([name], budget.spend)
                spent.extend(answer for answer in answers if isinstance(answer, BudgetSpent))
            except BudgetSpent as error:
                spent.append(error)

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(look, [f"{name} {number}" for number in range(6) for name in KNOWN]))
        assert opened.requests == budget.spent == 10
        assert len(spent) == 6 * len(KNOWN) - (10 - self.first_requests)

    def test_a_spent_budget_makes_no_request(self, opened: Opened) -> None:
        with pytest.raises(BudgetSpent):
            opened.search(KNOWN[0], budget=0)
        assert opened.requests == 0

    @pytest.mark.parametrize(
        ("fault", "expected"),
        [
            (HttpFault.BROKEN, "server_error"),
            (HttpFault.UNAVAILABLE, "server_error"),
            (HttpFault.CLOSE, "unreachable"),
            (HttpFault.CUT, "unreachable"),
            (HttpFault.HALF, "bad_answer"),
            (HttpFault.HTML, "bad_answer"),
            (HttpFault.HUGE, "bad_answer"),
            (HttpFault.EMPTY, "bad_answer"),
            (HttpFault.REDIRECT, "bad_answer"),
            (HttpFault.HANG, "timeout"),
            (HttpFault.DRIP, "timeout"),
        ],
    )
    def test_what_may_pass_is_transient(self, opened: Opened, fault: HttpFault, expected: str) -> None:
        server = self.misbehave(opened, fault)
        before = server.counts.requests
        answer, again = opened.search(KNOWN[0])[0], opened.search(KNOWN[0])[0]
        assert code(answer) == expected
        assert isinstance(answer, rm.TransientError)
        assert ids(again)[0] == "C1", "it is asked again"
        assert server.counts.requests - before == 2, "no request is repeated in secret"

    def test_a_server_that_drips_is_left_in_time(self, opened: Opened) -> None:
        """A client that counts from byte to byte would read on for hours."""
        server = self.misbehave(opened, HttpFault.DRIP)
        assert [code(answer) for answer in opened.search(KNOWN[0])] == ["timeout"]
        assert 0 < server.counts.dripped < 100

    def test_a_rejected_name_is_permanent(self, opened: Opened) -> None:
        self.misbehave(opened, HttpFault.REJECTED)
        (answer,) = opened.search(KNOWN[0])
        assert code(answer) == "rejected"
        assert not answer.retryable  # type: ignore[union-attr]

    def test_a_server_that_is_away_is_unreachable(self, opened: Opened) -> None:
        assert opened.server is not None
        opened.server.stop()
        assert [code(answer) for answer in opened.search(KNOWN[0])] == ["unreachable"]

    @pytest.mark.parametrize("fault", [HttpFault.RATE_LIMITED, HttpFault.RATE_LIMITED_UNTIL])
    def test_retry_after_is_honoured(self, opened: Opened, fault: HttpFault) -> None:
        server = self.misbehave(opened, fault, retry_after=120)
        (first,) = opened.search(KNOWN[0])
        before = server.counts.requests
        opened.clock.now += 100
        (second,) = opened.search(KNOWN[1])
        assert isinstance(first, rm.RateLimited)
        assert isinstance(second, rm.RateLimited)
        assert code(first) == code(second) == "rate_limited"
        assert 118 <= first.retry_after <= 120
        assert 18 <= second.retry_after <= 20
        assert server.counts.requests == before, "until then it is not asked"
        opened.clock.now += 21
        server._wait_until = 0.0
        assert ids(opened.search(KNOWN[1])[0])[0] == "C2"

    @pytest.mark.parametrize("fault", [HttpFault.UNAUTHORIZED, HttpFault.FORBIDDEN])
    def test_a_refused_token_switches_it_off_for_the_run(self, opened: Opened, fault: HttpFault) -> None:
        server = self.misbehave(opened, fault)
        answers = opened.search(KNOWN[0])
        before = server.counts.requests
        answers += [answer for name in KNOWN for answer in opened.search(name)]
        assert all(isinstance(answer, ProviderOff) for answer in answers)
        assert server.counts.requests == before, "no further request is made"

    def test_a_new_run_asks_again(self, opened: Opened) -> None:
        self.misbehave(opened, HttpFault.UNAUTHORIZED)
        opened.search(KNOWN[0])
        opened.provider.begin_run()  # type: ignore[attr-defined]
        assert ids(opened.search(KNOWN[0])[0])[0] == "C1"

    def test_redirects_are_not_followed(self, opened: Opened) -> None:
        server = self.misbehave(opened, HttpFault.REDIRECT)
        opened.search(KNOWN[0])
        assert not [request for request in server.requests if request.path == "/elsewhere"]

    def test_closing_ends_a_request_that_hangs(self, opened: Opened) -> None:
        arrived = arrivals(self.misbehave(opened, HttpFault.HANG))
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(opened.search, KNOWN[0])
            assert arrived.wait(10)
            opened.provider.close()
            assert code(waiting.result(10)[0]) == "provider_closed"

    @pytest.mark.parametrize("fault", [*HttpFault, ""])
    def test_no_name_and_no_token_is_shown(
        self, opened: Opened, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, fault: str
    ) -> None:
        page = f"<html>{PLANTED_NAME} {PLANTED_TOKEN}</html>".encode()
        monkeypatch.setattr("demos.companies.faulty_server.PAGE", page)
        self.misbehave(opened, fault)
        with caplog.at_level(logging.DEBUG):
            answers = opened.search(f"{PLANTED_NAME} Ltd") + opened.search(f"{PLANTED_NAME} GmbH")
        assert [record for record in caplog.records if record.name == "httpx2"] or fault, "its log is there"
        assert_nothing_shown(caplog, answers)


def assert_nothing_shown(caplog: pytest.LogCaptureFixture, answers: Sequence[Answer]) -> None:
    """Neither the planted name nor the planted token is in a log or in an error."""
    ours = [record for record in caplog.records if record.name.startswith(("rowmill", "httpx2"))]
    shown = texts_of(answers)
    shown += [record.getMessage() for record in caplog.records if record.levelno >= logging.INFO]
    shown += [f"{record.getMessage()} {record.args} {record.__dict__}" for record in ours]
    text = "\n".join(shown)
    assert PLANTED_NAME not in text
    assert PLANTED_TOKEN not in text
