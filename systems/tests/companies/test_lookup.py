"""Which candidate is accepted, and what is said if none is."""

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import rowmill as rm
from demos.companies.eqc_server import NO_MATCH, WRONG, EqcServer
from demos.companies.faulty_server import FaultPlan, HttpFault
from demos.companies.reconciliation_server import ReconciliationServer
from rowmill_systems.companies import lookup
from rowmill_systems.companies.lookup import CallBudget, LookupDecision, LookupOutcome, ProviderChain, judge_candidates
from rowmill_systems.companies.providers.eqc import EqcProvider
from rowmill_systems.companies.providers.file import FileProvider
from rowmill_systems.companies.providers.port import (
    Answer,
    BudgetSpent,
    CompanyCandidate,
    CompanyProvider,
    ProviderOff,
    SpendCall,
)
from rowmill_systems.companies.providers.reconciliation import ReconciliationProvider
from rowmill_systems.parts.names.companies import CompanyMatch, MatchVerdict
from systems.tests.companies.providers.conformance import COMPANIES, KNOWN, LARGE, PLANTED_NAME, REGISTRY, UNKNOWN

TOKEN = "token"
ACCEPTED, UNSURE, NO = LookupOutcome.ACCEPTED, LookupOutcome.UNSURE, LookupOutcome.NO_MATCH
FAILED = LookupOutcome.FAILED


def candidate(company_id: str, name: str, *others: str) -> CompanyCandidate:
    return CompanyCandidate(company_id, name, others)


class ListProvider:
    """Answers from a list, and remembers what it was asked. The chain is what is tested here."""

    def __init__(
        self,
        answers: dict[str, Answer | BaseException],
        name: str = "list",
        batch_size: int = 10,
        spends: bool = True,
    ) -> None:
        self.name, self.batch_size, self._answers, self._spends = name, batch_size, answers, spends
        self.batches: list[list[str]] = []
        self.runs = 0
        self.closed = 0

    def begin_run(self) -> None:
        self.runs += 1

    def search(self, names: Sequence[str], spend: SpendCall) -> Sequence[Answer]:
        if self._spends:
            spend()
        self.batches.append(list(names))
        found: list[Answer] = []
        for name in names:
            answer = self._answers.get(name, [])
            if isinstance(answer, BaseException) and not isinstance(answer, rm.errors.WorkError):
                raise answer
            found.append(answer)
        return found

    def close(self) -> None:
        self.closed += 1


def chain_of(*providers: CompanyProvider, score: float = 0.9, gap: float = 0.05) -> ProviderChain:
    return ProviderChain(providers, accept_score=score, accept_gap=gap)


def decide(chain: ProviderChain, *names: str, budget: int = 100) -> list[LookupDecision]:
    return chain.look_up(names, CallBudget(budget))


@pytest.fixture
def scored(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Give names their scores: these tests are about the decision."""

    def set_scores(**scores: float | tuple[float, MatchVerdict]) -> None:
        def compare(one: str, other: str) -> CompanyMatch:
            found = scores.get(other, 0.0)
            if isinstance(found, tuple):
                return CompanyMatch(*found)
            verdict = MatchVerdict.SAME if found >= 0.9 else MatchVerdict.DIFFERENT
            return CompanyMatch(found, MatchVerdict.UNSURE if 0.7 <= found < 0.9 else verdict)

        monkeypatch.setattr(lookup, "compare_companies", compare)

    return set_scores


def test_the_best_candidate_is_accepted_wherever_it_stands(scored: Callable[..., None]) -> None:
    scored(First=0.3, Right=0.97, Third=0.8)
    provider = ListProvider({"Xylo": [candidate("1", "First"), candidate("2", "Right"), candidate("3", "Third")]})
    (decision,) = decide(chain_of(provider), "Xylo")
    assert decision.outcome is ACCEPTED
    assert (decision.company_id, decision.company_name, decision.confidence) == ("2", "Right", 0.97)
    assert decision.provider == "list"
    assert [each.candidate.company_id for each in decision.candidates] == ["2", "3"], "the first is no candidate at all"


@pytest.mark.parametrize(
    ("best", "next_one", "expected"),
    [
        (0.9, 0.0, ACCEPTED),
        (0.89, 0.0, UNSURE),
        (1.0, 0.95, ACCEPTED),
        (0.95, 0.9, ACCEPTED),
        (1.0, 0.951, UNSURE),
        (1.0, 1.0, UNSURE),
        (0.9, 0.86, UNSURE),
        ((0.99, MatchVerdict.UNSURE), 0.0, UNSURE),
        ((0.99, MatchVerdict.DIFFERENT), 0.0, NO),
        (0.5, 0.4, NO),
    ],
)
def test_score_verdict_and_gap_decide(
    scored: Callable[..., None],
    best: float | tuple[float, MatchVerdict],
    next_one: float,
    expected: LookupOutcome,
) -> None:
    scored(Best=best, Next=next_one)
    provider = ListProvider({"Xylo": [candidate("2", "Next"), candidate("1", "Best")]})
    (decision,) = decide(chain_of(provider), "Xylo")
    assert decision.outcome is expected
    if expected is not ACCEPTED:
        assert decision.company_id is None
        assert decision.company_name is None


def test_the_same_company_twice_is_no_rival(scored: Callable[..., None]) -> None:
    scored(Best=0.97, Again=0.96)
    provider = ListProvider({"Xylo": [candidate("1", "Again"), candidate("1", "Best")]})
    (decision,) = decide(chain_of(provider), "Xylo")
    assert (decision.outcome, decision.company_id, decision.company_name) == (ACCEPTED, "1", "Best")


def test_other_names_count(scored: Callable[..., None]) -> None:
    scored(Now=0.2, Formerly=0.98)
    (decision,) = decide(chain_of(ListProvider({"Xylo": [candidate("1", "Now", "Formerly")]})), "Xylo")
    assert (decision.outcome, decision.company_name, decision.confidence) == (ACCEPTED, "Now", 0.98)


def test_the_wrong_company_is_not_taken() -> None:
    judged = judge_candidates("Siemens AG", [candidate("9", "Entirely Different Holding")], "eqc")
    assert judged[0].match.verdict is MatchVerdict.DIFFERENT


def test_the_next_provider_is_asked_for_what_is_left(scored: Callable[..., None]) -> None:
    scored(Good=1.0, Weak=0.8)
    first = ListProvider({"known": [candidate("1", "Good")], "weak": [candidate("2", "Weak")]}, "first")
    second = ListProvider({"Otter": [candidate("3", "Good")], "weak": [candidate("4", "Good")]}, "second")
    decisions = decide(chain_of(first, second), "known", "Otter", "nobody", "weak")
    assert second.batches == [["Otter", "nobody", "weak"]]
    assert [(each.outcome, each.provider, each.company_id) for each in decisions] == [
        (ACCEPTED, "first", "1"),
        (ACCEPTED, "second", "3"),
        (NO, None, None),
        (ACCEPTED, "second", "4"),
    ]


def test_a_name_of_two_companies_is_not_settled_by_another_provider(scored: Callable[..., None]) -> None:
    scored(Good=1.0, Same=0.99)
    first = ListProvider({"Xylo": [candidate("1", "Good"), candidate("2", "Same")]}, "first")
    second = ListProvider({"Xylo": [candidate("3", "Good")]}, "second")
    (decision,) = decide(chain_of(first, second), "Xylo")
    assert (decision.outcome, decision.provider) == (UNSURE, "first")
    assert [each.candidate.company_id for each in decision.candidates] == ["1", "2"]
    assert second.batches == []


def test_candidates_of_all_providers_are_shown_the_best_first(scored: Callable[..., None]) -> None:
    scored(**{f"N{number}": 0.70 + number / 100 for number in range(15)})
    found = [candidate(str(number), f"N{number}") for number in range(15)]
    chain = chain_of(ListProvider({"Xylo": found[:7]}, "first"), ListProvider({"Xylo": found[7:]}, "second"))
    (decision,) = decide(chain, "Xylo")
    assert (decision.outcome, decision.provider, decision.confidence) == (UNSURE, "second", 0.84)
    assert [each.candidate.company_id for each in decision.candidates] == [str(number) for number in range(14, 4, -1)]
    assert [each.provider for each in decision.candidates] == ["second"] * 8 + ["first"] * 2


TIMEOUT = rm.TransientError("no", code="timeout")
REJECTED = rm.PermanentError("no", code="rejected")


@pytest.mark.parametrize(
    ("first", "second", "expected", "code"),
    [
        (TIMEOUT, [candidate("1", "Good")], ACCEPTED, None),
        (TIMEOUT, [], FAILED, "timeout"),
        ([], TIMEOUT, FAILED, "timeout"),
        (TIMEOUT, [candidate("1", "Weak")], FAILED, "timeout"),
        ([candidate("1", "Weak")], TIMEOUT, FAILED, "timeout"),
        (REJECTED, TIMEOUT, FAILED, "timeout"),
        (REJECTED, [], FAILED, "rejected"),
        (ValueError(PLANTED_NAME), [], FAILED, "provider_broken"),
        (ValueError(PLANTED_NAME), [candidate("1", "Good")], ACCEPTED, None),
        ([], [], NO, None),
    ],
)
def test_what_could_not_be_observed_is_not_taken_for_absent(
    scored: Callable[..., None],
    caplog: pytest.LogCaptureFixture,
    first: Answer | BaseException,
    second: Answer | BaseException,
    expected: LookupOutcome,
    code: str | None,
) -> None:
    scored(Good=1.0, Weak=0.8)
    (decision,) = decide(
        chain_of(ListProvider({"Xylo": first}, "first"), ListProvider({"Xylo": second}, "second")), "Xylo"
    )
    assert decision.outcome is expected
    assert (decision.error.code if decision.error else None) == code
    if expected is FAILED:
        shown = [each.candidate.company_id for each in decision.candidates]
        assert shown == (["1"] if any(isinstance(each, list) and each for each in (first, second)) else [])
    assert PLANTED_NAME not in f"{decision.error!r} {caplog.text} {[record.__dict__ for record in caplog.records]}"


def test_a_provider_with_too_few_answers_has_answered_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    provider = ListProvider({})
    monkeypatch.setattr(provider, "search", lambda names, spend: [[]])
    assert [each.outcome for each in decide(chain_of(provider), "Xylo", "y")] == [FAILED, FAILED]


def test_failures_are_logged_by_code_and_count(caplog: pytest.LogCaptureFixture) -> None:
    names = [f"{PLANTED_NAME} {number}" for number in range(5)]
    with caplog.at_level(logging.DEBUG):
        decide(chain_of(ListProvider(dict.fromkeys(names, TIMEOUT), "eqc")), *names)
    assert [record.getMessage() for record in caplog.records] == ["provider eqc failed for 5 names: timeout"]
    assert (caplog.records[0].provider, caplog.records[0].code) == ("eqc", "timeout")  # type: ignore[attr-defined]


def test_batches_are_as_large_as_the_provider_takes() -> None:
    provider = ListProvider({}, batch_size=3)
    decisions = decide(chain_of(provider), *"abcdefgh")
    assert [len(batch) for batch in provider.batches] == [3, 3, 2]
    assert [each.outcome for each in decisions] == [NO] * 8


def test_spellings_of_one_name_are_asked_for_once(scored: Callable[..., None]) -> None:
    scored(Good=1.0)
    provider = ListProvider({"Acme Ltd": [candidate("1", "Good")]})
    decisions = decide(chain_of(provider), "Acme Ltd", "ACME  LTD.", "Otter", "Acme Limited")
    assert provider.batches == [["Acme Ltd", "Otter"]]
    assert [each.company_id for each in decisions] == ["1", "1", None, "1"]


@pytest.mark.parametrize(
    ("name", "code"),
    [("", "blank_name"), (" ", "blank_name"), ("---", "blank_name"), ("A" * LARGE, "name_too_long")],
)
def test_a_name_that_names_nothing_is_asked_of_nobody(name: str, code: str) -> None:
    provider = ListProvider({})
    (decision,) = decide(chain_of(provider), name)
    assert decision.outcome is FAILED
    assert decision.error is not None
    assert (decision.error.code, decision.error.retryable) == (code, False)
    assert provider.batches == []


def test_no_names_need_no_provider() -> None:
    assert decide(chain_of()) == []


def test_a_spent_budget_is_a_failure_and_a_file_still_answers(scored: Callable[..., None]) -> None:
    scored(Good=1.0)
    paid = ListProvider({}, "eqc", batch_size=1)
    free = ListProvider({"c": [candidate("1", "Good")]}, "file", spends=False)
    decisions = decide(chain_of(paid, free), "a", "b", "c", "d", budget=2)
    assert [each.outcome for each in decisions] == [NO, NO, ACCEPTED, FAILED]
    assert isinstance(decisions[3].error, BudgetSpent)
    assert paid.batches == [["a"], ["b"]]


def test_a_budget_is_a_run() -> None:
    provider = ListProvider({})
    chain = chain_of(provider)
    one, other = CallBudget(100), CallBudget(100)
    for budget in (one, one, other, one, other):
        chain.look_up(["Xylo"], budget)
    assert provider.runs == 2


def test_closing_closes_all() -> None:
    one, other = ListProvider({}, "one"), ListProvider({}, "other")
    chain_of(one, other).close()
    assert (one.closed, other.closed) == (1, 1)


def test_a_budget_is_never_exceeded_by_threads() -> None:
    budget = CallBudget(100)

    def spend(_: int) -> bool:
        try:
            budget.spend()
        except BudgetSpent:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(spend, range(500))) == 100
    assert (budget.spent, budget.left) == (100, 0)


def test_a_refusal_holds_for_its_run_whatever_other_runs_begin_meanwhile() -> None:
    """C4: the first run must not ask again because a second one has begun on the same providers."""
    provider = ListProvider({"Xylo": ProviderOff("refused")}, batch_size=1)
    chain, first, second = chain_of(provider), CallBudget(100), CallBudget(100)
    assert chain.look_up(["Xylo"], first)[0].outcome is FAILED
    provider._answers = {}
    assert chain.look_up(["Xylo"], second)[0].outcome is NO
    [decision] = chain.look_up(["Xylo"], first)
    assert (decision.outcome, type(decision.error)) == (FAILED, ProviderOff)
    assert (first.spent, second.spent) == (1, 1)


@pytest.mark.parametrize("name", ["internal", "person", "providers", "company_name", "", "x" * 41, "two\nlines"])
def test_a_provider_s_name_means_that_provider_and_nothing_else(name: str) -> None:
    with pytest.raises(rm.errors.DeclarationError):
        chain_of(ListProvider({}, name))


def test_two_providers_of_one_name_are_refused() -> None:
    with pytest.raises(rm.errors.DeclarationError, match="two providers have the name list"):
        chain_of(ListProvider({}), ListProvider({}))


class MeetingProvider(ListProvider):
    """Answers when `concurrency` requests are under way at once."""

    def __init__(self, concurrency: int, answers: dict[str, Answer | BaseException] | None = None) -> None:
        super().__init__(answers or {}, batch_size=1)
        self.concurrency = concurrency
        self._meeting = threading.Barrier(concurrency)

    def search(self, names: Sequence[str], spend: SpendCall) -> Sequence[Answer]:
        found = super().search(names, spend)
        self._meeting.wait(10)
        return found


def test_as_many_requests_are_under_way_as_the_provider_allows() -> None:
    names = [f"Company {number}" for number in range(12)]
    provider = MeetingProvider(4, {name: [candidate(name, name)] for name in names})
    decisions = decide(chain_of(provider), *names)
    assert [each.company_id for each in decisions] == names, "each has its own answer"


def test_a_budget_holds_for_requests_that_are_made_at_once() -> None:
    names = [f"Company {number}" for number in range(40)]
    provider = MeetingProvider(4)
    budget = CallBudget(20)
    decisions = chain_of(provider).look_up(names, budget)
    assert (budget.spent, len(provider.batches)) == (20, 20)
    assert [each.outcome for each in decisions].count(NO) == 20
    assert sum(isinstance(each.error, BudgetSpent) for each in decisions) == 20


def test_what_has_no_answer_in_time_fails_and_is_not_waited_for() -> None:
    """One request that hangs costs the answers of no other."""
    names = [f"Company {number}" for number in range(8)]
    leave = threading.Event()

    class HangingProvider(ListProvider):
        concurrency = 2

        def search(self, names: Sequence[str], spend: SpendCall) -> Sequence[Answer]:
            found = super().search(names, spend)
            assert names != ["Company 0"] or leave.wait(30)
            return found

    provider = HangingProvider({}, batch_size=1)
    budget = CallBudget(100)
    decisions = chain_of(provider).look_up(names, budget, seconds=1.0)
    leave.set()
    assert [each.outcome for each in decisions] == [FAILED, *[NO] * 7]
    assert decisions[0].error is not None
    assert (decisions[0].error.code, budget.spent) == ("timeout", 8)


# With real providers, on real servers.


@pytest.fixture
def eqc() -> Iterator[EqcServer]:
    with EqcServer(REGISTRY, token=TOKEN) as server:
        yield server


@pytest.fixture
def chain(eqc: EqcServer) -> Iterator[ProviderChain]:
    opened = chain_of(EqcProvider(eqc.url, TOKEN, timeout_seconds=0.75))
    yield opened
    opened.close()


def test_known_names_are_accepted_and_others_are_not(chain: ProviderChain, eqc: EqcServer) -> None:
    decisions = decide(chain, *KNOWN, UNKNOWN)
    assert [each.company_id for each in decisions] == [*(each.company_id for each in COMPANIES), None]
    assert decisions[-1].outcome is NO
    assert max(eqc.counts.asked.values()) == 1


@pytest.mark.parametrize("fault", [WRONG, NO_MATCH])
def test_another_company_is_no_match(chain: ProviderChain, eqc: EqcServer, fault: str) -> None:
    eqc.plan = FaultPlan(next=[fault])
    (decision,) = decide(chain, KNOWN[0])
    assert (decision.outcome, decision.company_id) == (NO, None)


def test_a_401_in_the_middle_of_a_batch_fails_the_rest_until_the_next_run(chain: ProviderChain, eqc: EqcServer) -> None:
    """C4."""
    eqc.plan = FaultPlan(next=["", "", HttpFault.UNAUTHORIZED])
    budget = CallBudget(100)
    decisions = chain.look_up(KNOWN, budget)
    assert [each.outcome for each in decisions] == [ACCEPTED, ACCEPTED, *[FAILED] * 5]
    assert all(isinstance(each.error, ProviderOff) for each in decisions[2:])
    assert eqc.counts.requests == budget.spent == 3
    assert chain.look_up(KNOWN[2:3], budget)[0].outcome is FAILED
    assert eqc.counts.requests == 3, "the same run"
    assert decide(chain, *KNOWN[2:])[0].outcome is ACCEPTED, "another run"


def test_a_401_stops_requests_that_are_made_at_once(eqc: EqcServer) -> None:
    """C4: each thread makes one more at the most."""
    names = [f"Company {number}" for number in range(40)]
    eqc.plan = FaultPlan(refuse_after=3)
    chain, budget = chain_of(EqcProvider(eqc.url, TOKEN, timeout_seconds=5, concurrency=4)), CallBudget(100)
    decisions = chain.look_up(names, budget)
    chain.close()
    assert 4 <= eqc.counts.requests == budget.spent <= 3 + 4
    assert sum(isinstance(each.error, ProviderOff) for each in decisions) == 37


def test_every_name_is_decided_whatever_the_server_does(chain: ProviderChain, eqc: EqcServer) -> None:
    faults = [HttpFault.BROKEN, HttpFault.HTML, HttpFault.HALF, HttpFault.CUT, HttpFault.CLOSE, ""]
    eqc.plan = FaultPlan(rates=dict.fromkeys(faults[:-1], 0.12), seed=7)
    waiting = list(KNOWN)
    for _ in range(50):
        decisions = decide(chain, *waiting)
        assert {each.outcome for each in decisions} <= {ACCEPTED, FAILED}
        waiting = [name for name, each in zip(waiting, decisions, strict=True) if each.outcome is FAILED]
        if not waiting:
            break
    assert waiting == []
    assert eqc.counts.faults.total() > 0
    assert set(eqc.counts.answered.values()) == {1}, "no name is looked up twice"


def test_all_three_kinds_of_providers_together(eqc: EqcServer, tmp_path: Path) -> None:
    path = tmp_path / "companies.csv"
    path.write_text(f"id,name\nF1,{KNOWN[0]}\n")
    with ReconciliationServer(REGISTRY) as service:
        providers: list[CompanyProvider] = [
            FileProvider(path),
            EqcProvider(eqc.url, TOKEN, timeout_seconds=2),
            ReconciliationProvider("gleif", service.url),
        ]
        eqc.plan = FaultPlan(always=HttpFault.UNAUTHORIZED)
        chain = chain_of(*providers)
        decisions = decide(chain, *KNOWN[:3])
        chain.close()
    assert [(each.provider, each.company_id) for each in decisions] == [
        ("file", "F1"),
        ("gleif", "C2"),
        ("gleif", "C3"),
    ]


def test_without_a_provider_no_name_is_known_to_be_unknown() -> None:
    chain = ProviderChain([], accept_score=0.9, accept_gap=0.05)
    [decision] = chain.look_up(["Acme Ltd"], CallBudget(5))
    assert decision.outcome is LookupOutcome.FAILED
    assert decision.error is not None
    assert decision.error.code == "no_provider"


@pytest.mark.parametrize(
    ("name", "known", "expected"),
    [
        ("Alder Software AG", "Alder Software Oy", UNSURE),
        ("Alder Software AG", "Alder Software", ACCEPTED),
        ("Alder Software", "Alder Software Oy", ACCEPTED),
        ("ПАО Газпром нефть", "Gazprom Neft PJSC", ACCEPTED),
    ],
)
def test_another_legal_form_is_left_to_a_person(name: str, known: str, expected: LookupOutcome) -> None:
    provider = ListProvider({name: [candidate("1", known)]})
    (decision,) = decide(chain_of(provider), name)
    assert decision.outcome is expected


def test_the_only_company_of_exactly_this_name_is_accepted_however_like_others_are() -> None:
    found = [candidate("1", "Alder Software Oy"), candidate("2", "Alder Software AG")]
    (decision,) = decide(chain_of(ListProvider({"ALDER SOFTWARE AG": found}), gap=0.5), "ALDER SOFTWARE AG")
    assert (decision.outcome, decision.company_id) == (ACCEPTED, "2")
