"""C4: EQC, by a real HTTP server that misbehaves."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any

import pytest

import rowmill as rm
from demos.companies import faulty_server
from demos.companies.eqc_server import EXPIRED, NO_MATCH, WRONG, EqcServer
from demos.companies.faulty_server import FaultPlan, GivenReply, HttpFault
from rowmill_systems.companies.providers.eqc import EqcProvider
from rowmill_systems.companies.providers.port import BudgetSpent, CompanyCandidate, ProviderOff
from systems.tests.companies.providers.conformance import (
    KNOWN,
    PLANTED_TOKEN,
    REGISTRY,
    Clock,
    HttpProviderConformance,
    Opened,
    arrivals,
    code,
    ids,
)


@pytest.fixture
def eqc() -> Iterator[EqcServer]:
    with EqcServer(REGISTRY, token=PLANTED_TOKEN) as server:
        yield server


@pytest.fixture
def opened(eqc: EqcServer) -> Iterator[Opened]:
    clock = Clock()
    provider = EqcProvider(eqc.url, PLANTED_TOKEN, timeout_seconds=0.75, clock=clock)
    yield Opened(provider, clock, eqc)
    provider.close()


class TestEqc(HttpProviderConformance):
    """Held to what every provider over HTTP must do."""


@pytest.fixture
def answering(eqc: EqcServer, opened: Opened, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Opened]:
    """Let the server answer every search with this content."""

    def set_answer(content: Any, status: int = 200) -> Opened:
        monkeypatch.setattr(eqc, "reply", lambda request: GivenReply(content, status))
        return opened

    return set_answer


def test_the_request_is_as_eqc_expects_it(eqc: EqcServer, opened: Opened) -> None:
    opened.search("华为技术有限公司")
    (request,) = eqc.requests
    assert (request.method, request.path) == ("GET", "/kg-api-hfd/api/search/")
    assert request.parameters == {"key": "华为技术有限公司"}
    assert request.headers["token"] == PLANTED_TOKEN
    assert request.headers["referer"] == f"{eqc.url}/"
    assert "Rowmill" in request.headers["user-agent"]


def test_path_parameter_and_header_can_be_set(eqc: EqcServer) -> None:
    provider = EqcProvider(
        f"{eqc.url}/proxy/", "t", search_path="/find", keyword="q", token_header="X-Token", contact="me@example.org"
    )
    provider.search(["Siemens AG"], lambda: None)
    provider.close()
    (request,) = eqc.requests
    assert (request.path, request.parameters) == ("/proxy/find", {"q": "Siemens AG"})
    assert request.headers["x-token"] == "t"
    assert "me@example.org" in request.headers["user-agent"]


def test_a_404_is_an_answer(opened: Opened, eqc: EqcServer) -> None:
    eqc.plan = FaultPlan(next=[HttpFault.NOT_FOUND])
    assert opened.search(KNOWN[0]) == [[]]


@pytest.mark.parametrize("fault", [WRONG, NO_MATCH])
def test_what_the_server_says_is_handed_on(opened: Opened, eqc: EqcServer, fault: str) -> None:
    eqc.plan = FaultPlan(next=[fault])
    assert ids(opened.search(KNOWN[0])[0]) == (["999999999"] if fault == WRONG else [])


def test_an_expired_token_with_status_200_switches_it_off(opened: Opened, eqc: EqcServer) -> None:
    eqc.plan = FaultPlan(next=[EXPIRED])
    first, second = opened.search(KNOWN[0])[0], opened.search(KNOWN[1])[0]
    assert isinstance(first, ProviderOff)
    assert isinstance(second, ProviderOff)
    assert "WDH_EQC_TOKEN" in str(first)
    assert eqc.counts.requests == 1


@pytest.mark.parametrize(
    "content",
    [
        {"code": 401, "data": None},
        {"code": "403", "message": "no", "data": {"list": []}},
        {"status": 401, "data": []},
        {"success": False, "message": f"Token {PLANTED_TOKEN} has expired", "data": []},
        {"code": 500, "msg": "invalid token"},
        {"error": f"invalid token {PLANTED_TOKEN}"},
    ],
)
def test_a_refusal_with_status_200_switches_it_off(answering: Callable[..., Opened], content: Any) -> None:
    """C4."""
    opened = answering(content)
    answers = opened.search(KNOWN[0]) + opened.search(KNOWN[1])
    assert [code(answer) for answer in answers] == ["provider_off"] * 2
    assert opened.requests == 1
    assert PLANTED_TOKEN not in str(answers)


@pytest.mark.parametrize(
    "content",
    [
        {"success": False, "data": []},
        {"success": "false", "data": {"list": []}},
        {"success": False, "data": [{"companyId": "C1", "companyFullName": "Siemens AG"}]},
        {"code": 500, "data": []},
        {"code": "500", "data": []},
        {"status": 429, "data": []},
        {"error": "busy", "data": []},
    ],
)
def test_a_failure_with_status_200_is_no_answer(answering: Callable[..., Opened], content: Any) -> None:
    """C4: it is neither "no match" nor a match, and the next name is asked for."""
    opened = answering(content)
    answers = opened.search(KNOWN[0]) + opened.search(KNOWN[0])
    assert [code(answer) for answer in answers] == ["bad_answer"] * 2
    assert opened.requests == 2


@pytest.mark.parametrize("content", [{"code": 200, "success": True, "data": []}, {"code": "0", "data": {"list": None}}])
def test_a_success_with_a_code_is_an_answer(answering: Callable[..., Opened], content: Any) -> None:
    assert answering(content).search(KNOWN[0]) == [[]]


def test_a_wrong_token_switches_it_off(eqc: EqcServer) -> None:
    provider = EqcProvider(eqc.url, "wrong")
    answers = provider.search(KNOWN[:3], lambda: None)
    assert [code(answer) for answer in answers] == ["provider_off"] * 3
    assert eqc.counts.requests == 1
    provider.close()


def test_what_was_paid_for_is_not_lost_when_the_budget_ends(opened: Opened) -> None:
    answers = opened.search(KNOWN[0], KNOWN[1], KNOWN[2], budget=2)
    assert [ids(answer)[0] for answer in answers[:2]] == ["C1", "C2"]
    assert isinstance(answers[2], BudgetSpent)


def test_a_candidate_has_all_that_eqc_says(answering: Callable[..., Opened]) -> None:
    item = {
        "companyId": 614810477, "companyFullName": "<em>中国平安</em>保险（集团）股份有限公司", "type": "全称精确匹配",
        "unite_code": "91440300100012316L", "companyFormerName": "平安保险公司；深圳平安保险公司",
        "companyEnName": "Ping An Insurance (Group) Co., Ltd.", "registered_status": "存续", "le_rep": "somebody",
    }  # fmt: skip
    (found,) = answering({"list": [item]}).search("中国平安")
    assert found == [
        CompanyCandidate(
            "614810477",
            "中国平安保险（集团）股份有限公司",
            ("平安保险公司", "深圳平安保险公司", "Ping An Insurance (Group) Co., Ltd."),
            1.0,
            {"register number": "91440300100012316L", "status": "存续", "found by": "全称精确匹配"},
        )
    ]


@pytest.mark.parametrize(
    "content",
    [
        [{"company_id": "7", "company_full_name": "Acme"}],
        {"data": [{"companyId": "7", "companyName": "Acme"}]},
        {"data": {"list": [{"companyId": "7", "name": "Acme"}, {"companyId": None}, "text", None]}},
        {"error": None, "list": [{"companyId": "7", "companyFullName": "Acme"}]},
    ],
)
def test_other_forms_of_answers_are_understood(answering: Callable[..., Opened], content: Any) -> None:
    assert ids(answering(content).search("Acme")[0]) == ["7"]


@pytest.mark.parametrize("content", [{"list": []}, {"list": None}, {"data": []}, []])
def test_an_empty_list_is_an_answer(answering: Callable[..., Opened], content: Any) -> None:
    assert answering(content).search("Acme") == [[]]


@pytest.mark.parametrize(
    "content",
    [
        {"list": "text"},
        {"other": 1},
        {"list": [{"companyId": "7"}]},
        {"list": [{"companyFullName": "Acme"}]},
        {"list": [{"companyId": True, "companyFullName": "Acme"}]},
        {"list": [{"companyId": "7", "companyFullName": "x" * 2_000_000}]},
        {"list": [{"companyId": "7" * 101, "companyFullName": "Acme"}]},
        {"error": "something"},
    ],
)
def test_an_answer_that_makes_no_sense_is_not_taken_for_no_match(
    answering: Callable[..., Opened], content: Any
) -> None:
    assert [code(answer) for answer in answering(content).search("Acme")] == ["bad_answer"]


def test_a_503_with_retry_after_is_left_alone(opened: Opened, eqc: EqcServer, monkeypatch: pytest.MonkeyPatch) -> None:
    def unavailable(self: Any, fault: HttpFault, content: bytes) -> None:
        self._send(b"", 503, {"Retry-After": "30"})

    monkeypatch.setattr(faulty_server._Handler, "_misbehave", unavailable)
    eqc.plan = FaultPlan(next=[HttpFault.UNAVAILABLE])
    first, second = opened.search(KNOWN[0])[0], opened.search(KNOWN[0])[0]
    assert (code(first), code(second)) == ("server_error", "rate_limited")
    assert eqc.counts.requests == 1
    opened.clock.now += 31
    assert ids(opened.search(KNOWN[0])[0])[0] == "C1"


@pytest.mark.parametrize(
    "url",
    ["", "eqc.example", "ftp://eqc.example", "http://", "https://me:secret@eqc.example", "https://eqc.example?a=1",
     "http://host:99999", "http://[::1"],
)  # fmt: skip
def test_an_address_that_is_none_is_refused_at_once(url: str) -> None:
    with pytest.raises(rm.errors.DeclarationError, match="WDH_EQC_BASE_URL") as caught:
        EqcProvider(url, "token")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("token", ["", "two\nlines", "ümlaut-planted"])
def test_a_token_that_no_header_takes_is_refused_at_once(token: str) -> None:
    with pytest.raises(rm.errors.DeclarationError, match="WDH_EQC_TOKEN") as caught:
        EqcProvider("https://eqc.example", token)
    assert not token or token not in str(caught.value)


def test_the_token_is_not_shown_by_the_provider(opened: Opened) -> None:
    assert PLANTED_TOKEN not in repr(opened.provider)
    assert PLANTED_TOKEN not in str(vars(opened.provider))


def test_a_fork_makes_its_own_connections(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread of the parent is not in the child: waiting for it would never end."""
    opened.search(KNOWN[0])
    first = opened.provider._service._http._running  # type: ignore[attr-defined]
    monkeypatch.setattr(first, "pid", -1)
    assert ids(opened.search(KNOWN[0])[0])[0] == "C1"
    second = opened.provider._service._http._running  # type: ignore[attr-defined]
    assert second is not first
    monkeypatch.undo()
    first.stop()


def test_an_interrupted_search_ends_its_request(
    opened: Opened, eqc: EqcServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    eqc.plan = FaultPlan(next=[HttpFault.HANG])
    arrived = arrivals(eqc)
    seen: list[Future[Any]] = []

    def interrupted(self: Future[Any], timeout: float | None = None) -> Any:
        assert arrived.wait(10)
        seen.append(self)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Future, "result", interrupted)
        with pytest.raises(KeyboardInterrupt):
            opened.search(KNOWN[0])
    assert seen[0].cancelled()


def test_requests_are_what_the_server_saw(opened: Opened, eqc: EqcServer) -> None:
    opened.search(*KNOWN)
    assert eqc.counts.asked == eqc.counts.answered == dict.fromkeys(KNOWN, 1)
