"""Any service of the Reconciliation API 0.2, which OpenRefine uses: Wikidata, OpenCorporates, mirrors of GLEIF."""

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import rowmill as rm
from rowmill_systems.companies.providers.asking import CompanyService, ServiceRejected
from rowmill_systems.companies.providers.port import (
    Answer,
    BudgetSpent,
    CompanyCandidate,
    NameUnusable,
    SpendCall,
    usable_name,
)
from rowmill_systems.companies.providers.user_agent import user_agent

MOST_CANDIDATES = 10
BATCH = 20
"""Queries in one request, if the service does not say how many it accepts."""
MOST_BATCH = 50
LONGEST_TEXT = 500
FULL_SCORE = 100.0


@dataclass(frozen=True, slots=True)
class ReconciliationManifest:
    """What a service says of itself, as far as it is used."""

    batch_size: int
    view_url: str
    """An address with {{id}} in it, for people. Empty: there is none."""


class ReconciliationProvider:
    """Searches a service of the Reconciliation API 0.2, many names a request. Thread-safe.

    Its manifest is read once, by a request that counts like others. A batch that the service rejects is sent again by
    halves, so that one bad name fails no other. After a 401 or 403 it is not asked before `begin_run`.
    """

    def __init__(
        self,
        name: str,
        url: str,
        *,
        type: str | None = None,
        properties: Mapping[str, str] | None = None,
        batch_size: int | None = None,
        limit: int = MOST_CANDIDATES,
        timeout_seconds: float = 20.0,
        contact: str = "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`type` and `properties` go with every query: the id of a type of the service, such as Q4830453 (business) of
        Wikidata; values by ids of properties, such as a country. `batch_size` is a ceiling: the service's own holds
        too."""
        self.name = name
        self._query: dict[str, Any] = {"limit": limit}
        if type:
            self._query["type"] = type
        if properties:
            self._query["properties"] = [{"pid": key, "v": value} for key, value in properties.items()]
        self._ceiling = batch_size or MOST_BATCH
        self.batch_size = min(BATCH, self._ceiling)
        """As many as the service takes, once its manifest was read."""
        self._service = CompanyService(
            name,
            url,
            headers={"User-Agent": user_agent(contact)},
            seconds=timeout_seconds,
            address_setting="WDH_RECONCILIATION",
            clock=clock,
        )
        self._manifest: ReconciliationManifest | None = None
        self._reading = threading.Lock()

    def begin_run(self) -> None:
        """Ask again, if the service refused us in the run before."""
        self._service.begin_run()

    def search(self, names: Sequence[str], spend: SpendCall) -> Sequence[Answer]:
        """Look names up, in as few requests as the service allows. Raises BudgetSpent if none can be looked up."""
        answers: dict[int, Answer] = {}
        asked: list[tuple[int, str]] = []
        for place, name in enumerate(names):
            try:
                asked.append((place, usable_name(name)))
            except NameUnusable as error:
                answers[place] = error
        spent: BudgetSpent | None = None
        try:
            if asked:
                manifest = self._read_manifest(spend)
                size = self.batch_size
                for start in range(0, len(asked), size):
                    self._ask(asked[start : start + size], spend, manifest, answers)
        except BudgetSpent as error:
            if not answers:
                raise
            spent = error
        except rm.errors.WorkError as error:  # the manifest could not be read
            answers |= {place: error for place, _ in asked}
        if spent is not None:
            answers = {place: answers.get(place, spent) for place in range(len(names))}
        return [answers[place] for place in range(len(names))]

    def close(self) -> None:
        """Release connections. Idempotent."""
        self._service.close()

    def _ask(
        self,
        asked: Sequence[tuple[int, str]],
        spend: SpendCall,
        manifest: ReconciliationManifest,
        answers: dict[int, Answer],
    ) -> None:
        """Send one batch, and add an answer for each of its names. Raises BudgetSpent alone."""
        queries = {f"q{place}": {"query": name, **self._query} for place, name in asked}
        form = {"queries": json.dumps(queries, ensure_ascii=False)}
        try:
            content = self._service.ask("POST", "", spend, data=form)
            if not isinstance(content, dict):
                # A 404 is a wrong address here: names are in the form, not in the address.
                raise self._service.bad_answer("has no answers: look at WDH_RECONCILIATION")
        except BudgetSpent:
            raise
        except ServiceRejected as error:
            if len(asked) == 1:
                answers[asked[0][0]] = error
                return
            middle = len(asked) // 2
            self._ask(asked[:middle], spend, manifest, answers)
            self._ask(asked[middle:], spend, manifest, answers)
            return
        except rm.errors.WorkError as error:
            answers |= {place: error for place, _ in asked}
            return
        for place, _ in asked:
            answers[place] = self._answer(content.get(f"q{place}"), manifest)

    def _answer(self, content: Any, manifest: ReconciliationManifest) -> Answer:
        result = content.get("result") if isinstance(content, dict) else None
        if not isinstance(result, list):
            return self._service.bad_answer("has no result for one of the names")
        found = [candidate for item in result if (candidate := _candidate(item, manifest)) is not None]
        if result and not found:
            return self._service.bad_answer("answers with companies that have no id or no name")
        return found

    def _read_manifest(self, spend: SpendCall) -> ReconciliationManifest:
        with self._reading:  # threads that come meanwhile wait for the one that reads
            if self._manifest is None:
                content = self._service.ask("GET", "", spend)
                if not isinstance(content, dict) or not isinstance(content.get("name"), str):
                    raise self._service.bad_answer("has no manifest: look at WDH_RECONCILIATION")
                self._manifest = _manifest(content)
                self.batch_size = min(self._manifest.batch_size, self._ceiling)
            return self._manifest


def _manifest(content: Mapping[str, Any]) -> ReconciliationManifest:
    said, view = content.get("batchSize"), content.get("view")
    size = min(said, MOST_BATCH) if isinstance(said, int) and not isinstance(said, bool) and said > 0 else BATCH
    url = view.get("url") if isinstance(view, dict) else None
    return ReconciliationManifest(size, url if isinstance(url, str) and url.startswith(("http:", "https:")) else "")


def _candidate(item: Any, manifest: ReconciliationManifest) -> CompanyCandidate | None:
    if not isinstance(item, dict):
        return None
    company_id, name = _text(item.get("id")), _text(item.get("name"))
    if not company_id or not name or len(company_id) > 100:
        return None
    details = {"description": _text(item.get("description")), "type": ", ".join(_types(item.get("type")))}
    if manifest.view_url:
        details["page"] = manifest.view_url.replace("{{id}}", company_id)
    score = item.get("score")
    # The API says "the higher, the better", and nothing of a scale; most services end at 100.
    shared = score / FULL_SCORE if isinstance(score, int | float) and 0 <= score <= FULL_SCORE else None
    return CompanyCandidate(company_id, name, (), shared, {label: text for label, text in details.items() if text})


def _types(given: Any) -> list[str]:
    """Types are objects, or their ids alone."""
    names = [each.get("name") or each.get("id") if isinstance(each, dict) else each for each in _listed(given)]
    return [name for name in names if isinstance(name, str)]


def _listed(given: Any) -> list[Any]:
    return given if isinstance(given, list) else []


def _text(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int):
        return ""
    text = " ".join(str(value).split())
    return text if len(text) <= LONGEST_TEXT else ""
