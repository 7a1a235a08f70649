"""A local EQC that misbehaves. Run: `python -m demos.companies.eqc_server --port 8200`."""

import argparse
import csv
import json
import signal
import threading
from pathlib import Path

from demos.companies.faulty_server import FaultPlan, FaultyServer, GivenReply, GivenRequest
from demos.companies.registry import CompanyRegistry, RegisteredCompany
from rowmill_systems.parts.names.folding import folded

PATH = "/kg-api-hfd/api/search/"
TOKEN = "demo-token"
WRONG, NO_MATCH, EXPIRED = "wrong", "no_match", "expired"
"""Further faults: another company, none, and an answer with status 200 which says that the token has expired."""
EXACT, SIMILAR = "全称精确匹配", "模糊匹配"


class EqcServer(FaultyServer):
    """Answers searches by keyword as EQC does."""

    def __init__(
        self, companies: CompanyRegistry, plan: FaultPlan | None = None, *, port: int = 0, token: str = TOKEN
    ) -> None:
        super().__init__(plan, port=port)
        self.companies, self.token = companies, token
        self._answers: dict[int, str] = {}

    def names(self, request: GivenRequest) -> list[str]:
        return [request.parameters["key"]] if "key" in request.parameters else []

    def arrived(self, request: GivenRequest, names: list[str]) -> str:
        fault = super().arrived(request, names)
        if fault in (WRONG, NO_MATCH, EXPIRED):  # answers of the usual form
            self.misbehaved(fault)
            self._answers[id(request)] = fault
            return ""
        return fault

    def reply(self, request: GivenRequest) -> GivenReply:
        if request.headers.get("token") != self.token:
            self.counts.wrong_tokens += 1
            return GivenReply({"error": "TokenExpired"}, 401)
        if request.path != PATH or "key" not in request.parameters:
            return GivenReply({"error": "no such page"}, 404)
        name = request.parameters["key"]
        match self._answers.pop(id(request), ""):
            case "expired":
                return GivenReply({"error": "TokenExpired"})
            case "no_match":
                return GivenReply({"list": []})
            case "wrong":
                return GivenReply({"list": [_item(RegisteredCompany("999999999", "Entirely Different Holding"), name)]})
        return GivenReply({"list": [_item(company, name) for _, company in self.companies.search(name)]})


def _item(company: RegisteredCompany, name: str) -> dict[str, str | None]:
    return {
        "companyId": company.company_id,
        "companyFullName": company.name,
        "companyFormerName": company.former_name or None,
        "unite_code": company.register_number or None,
        "type": EXACT if folded(name) == folded(company.name) else SIMILAR,
    }


def read_companies(path: Path) -> list[RegisteredCompany]:
    """Read a CSV file with the columns company_id, name, former_name."""
    with path.open(encoding="utf-8", newline="") as file:
        return [
            RegisteredCompany(row["company_id"], row["name"], row.get("former_name") or "")
            for row in csv.DictReader(file)
        ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--companies", type=Path, required=True, help="CSV with company_id, name, former_name")
    parser.add_argument("--token", default=TOKEN)
    parser.add_argument("--plan", type=json.loads, default={}, help="how to misbehave, in JSON")
    given = parser.parse_args()
    companies = CompanyRegistry(read_companies(given.companies))
    ended = threading.Event()
    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, lambda *_: ended.set())
    with EqcServer(companies, FaultPlan.from_json(given.plan), port=given.port, token=given.token) as server:
        print(json.dumps({"url": server.url}), flush=True)
        ended.wait()


if __name__ == "__main__":
    main()
