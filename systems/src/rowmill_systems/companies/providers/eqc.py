"""The EQC service: an enterprise query centre that is searched by keyword."""

import re
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import rowmill as rm
from rowmill_systems.companies.providers.asking import CompanyService
from rowmill_systems.companies.providers.port import Answer, BudgetSpent, CompanyCandidate, SpendCall, usable_name
from rowmill_systems.companies.providers.user_agent import user_agent
from rowmill_systems.parts.services.errors import REFUSED

SEARCH_PATH = "/kg-api-hfd/api/search/"
KEYWORD = "key"
TOKEN_HEADER = "token"  # noqa: S105
MOST_CANDIDATES = 20
LONGEST_TEXT = 500
MATCH_TYPES = {"全称精确匹配": 1.0, "模糊匹配": 0.8, "拼音": 0.6}
"""What EQC calls a match by the full name, a similar name, and the sound."""
ID_KEYS = ("companyId", "company_id")
NAME_KEYS = ("companyFullName", "company_full_name", "companyName", "company_name", "name")
OTHER_NAME_KEYS = (
    "companyFormerName", "company_former_name", "companyEnName", "company_en_name", "companyShortName",
    "company_short_name", "alias", "aliases",
)  # fmt: skip
DETAIL_KEYS = {
    "unite_code": "register number", "uniteCode": "register number", "registered_status": "status",
    "registeredStatus": "status", "business_status": "status", "province": "province", "address": "address",
    "est_date": "founded", "estDate": "founded", "type": "found by",
}  # fmt: skip
ERROR_KEYS = ("error", "message", "msg")
SEVERAL_NAMES = re.compile(r"[;；、|]")
"""Between former names. Commas are part of names: Co., Ltd."""
MARKUP = re.compile(r"</?[a-z]+>", re.IGNORECASE)
"""Found words may be marked: <em>…</em>."""


class EqcProvider:
    """Searches EQC, a name a request, up to `concurrency` requests at once. Thread-safe.

    After a 401 or 403, or an answer that says that the token has expired, every later name gets `ProviderOff` and no
    request is made, until `begin_run` is called: `ProviderChain` does so for every new budget. `CompanyService` lists
    the codes of other errors. No request is repeated: the queue tries again later.
    """

    batch_size = 1

    def __init__(
        self,
        base_url: str,
        token: str,
        *,
        name: str = "eqc",
        timeout_seconds: float = 10.0,
        search_path: str = SEARCH_PATH,
        keyword: str = KEYWORD,
        token_header: str = TOKEN_HEADER,
        contact: str = "",
        concurrency: int = 1,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`keyword` is the name of the parameter that carries the name, and `token_header` of the header that carries
        the token. Raises DeclarationError if the address or the token can't be used."""
        self.name, self.concurrency = name, concurrency
        if not token:
            problem = "WDH_EQC_TOKEN is empty: set it, or leave eqc out of WDH_PROVIDERS"
            raise rm.errors.DeclarationError(name, [problem], kind="provider")
        self._path, self._keyword = search_path, keyword
        headers = {token_header: token, "User-Agent": user_agent(contact), "Referer": f"{base_url.rstrip('/')}/"}
        self._service = CompanyService(
            name,
            base_url,
            headers=headers,
            seconds=timeout_seconds,
            address_setting="WDH_EQC_BASE_URL",
            token_setting="WDH_EQC_TOKEN",
            clock=clock,
        )

    def begin_run(self) -> None:
        """Ask again, if the token was refused in the run before."""
        self._service.begin_run()

    def search(self, names: Sequence[str], spend: SpendCall) -> Sequence[Answer]:
        """Look names up, one request for each. Raises BudgetSpent if not even the first can be looked up."""
        answers: list[Answer] = []
        for place, name in enumerate(names):
            try:
                answers.append(self._search(name, spend))
            except BudgetSpent as error:
                if not answers:
                    raise
                return [*answers, *[error] * (len(names) - place)]  # what was paid for is not lost
            except rm.errors.WorkError as error:
                answers.append(error)
        return answers

    def close(self) -> None:
        """Release connections. Idempotent."""
        self._service.close()

    def _search(self, name: str, spend: SpendCall) -> Sequence[CompanyCandidate]:
        answer = self._service.ask("GET", self._path, spend, params={self._keyword: usable_name(name)})
        if answer is None:
            return []
        items = self._items(answer)
        found = [candidate for item in items if (candidate := _candidate(item)) is not None]
        if items and not found:
            raise self._service.bad_answer("answers with companies that have no id or no name")
        return found[:MOST_CANDIDATES]

    def _items(self, answer: Any) -> list[Any]:
        if isinstance(answer, dict):
            self._check_success(answer)
        inner = answer.get("data", answer) if isinstance(answer, dict) else answer
        if isinstance(inner, dict) and "list" in inner:
            inner = [] if inner["list"] is None else inner["list"]
        if not isinstance(inner, list):
            raise self._service.bad_answer("answers with something else than a list")
        return inner

    def _check_success(self, answer: Mapping[str, Any]) -> None:
        """Raise the error that an answer with status 200 tells. Its text is not shown: it may quote the token or the
        name."""
        code = _text(answer.get("code", answer.get("status")))
        number = int(code) if code.isdecimal() and len(code) <= 3 else 0
        failed = bool(answer.get("error")) or answer.get("success") in (False, "false") or number >= 400
        if not failed:
            return
        told = " ".join(str(answer[key]) for key in ERROR_KEYS if answer.get(key)).casefold()
        if number in REFUSED or "token" in told:
            raise self._service.switch_off(f"{self.name} says that the token is not valid")
        raise self._service.bad_answer("answers with an error")


def _candidate(item: Any) -> CompanyCandidate | None:
    if not isinstance(item, dict):
        return None
    company_id, name = _first(item, ID_KEYS), _first(item, NAME_KEYS)
    if not company_id or not name or len(company_id) > 100:
        return None
    others = [text for key in OTHER_NAME_KEYS for text in _texts(item.get(key))]
    details = {label: text for key, label in DETAIL_KEYS.items() if (text := _text(item.get(key)))}
    return CompanyCandidate(
        company_id,
        name,
        tuple(dict.fromkeys(other for other in others if other != name)),
        MATCH_TYPES.get(details.get("found by", "")),
        details,
    )


def _first(item: Mapping[str, Any], keys: Sequence[str]) -> str:
    return next((text for key in keys if (text := _text(item.get(key)))), "")


def _texts(value: Any) -> list[str]:
    values = value if isinstance(value, list) else SEVERAL_NAMES.split(value) if isinstance(value, str) else []
    return [text for each in values if (text := _text(each))]


def _text(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int):
        return ""
    text = " ".join(MARKUP.sub("", str(value)).split())
    return text if len(text) <= LONGEST_TEXT else ""
