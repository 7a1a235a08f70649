"""A local service of the Reconciliation API 0.2 over companies, which misbehaves on demand."""

import json
from typing import Any

from demos.companies.faulty_server import FaultPlan, FaultyServer, GivenReply, GivenRequest
from demos.companies.registry import CompanyRegistry

BATCH_SIZE = 10
COMPANY = {"id": "company", "name": "Company"}


class ReconciliationServer(FaultyServer):
    """Answers batches of queries in one POST, as the specification says."""

    def __init__(
        self,
        companies: CompanyRegistry,
        plan: FaultPlan | None = None,
        *,
        port: int = 0,
        batch_size: int | None = BATCH_SIZE,
    ) -> None:
        super().__init__(plan, port=port)
        self.companies, self.batch_size = companies, batch_size
        self.rejected_names: set[str] = set()
        """A batch with one of them is answered 400."""
        self.failing_names: set[str] = set()
        """They have no result in the answer of their batch."""

    def names(self, request: GivenRequest) -> list[str]:
        return [query["query"] for query in _queries(request).values()]

    def reply(self, request: GivenRequest) -> GivenReply:
        queries = _queries(request)
        if not queries:
            return GivenReply(self._manifest())
        if self.batch_size is not None and len(queries) > self.batch_size:
            return GivenReply({"status": "error"}, 413)
        if self.rejected_names & set(self.names(request)):
            return GivenReply({"status": "error"}, 400)
        return GivenReply({key: self._result(query) for key, query in queries.items()})

    def _manifest(self) -> dict[str, Any]:
        manifest: dict[str, Any] = {
            "versions": ["0.2"],
            "name": "Companies",
            "identifierSpace": "http://companies.example/id/",
            "schemaSpace": "http://companies.example/schema/",
            "defaultTypes": [COMPANY],
            "view": {"url": "http://companies.example/id/{{id}}"},
        }
        return manifest | ({"batchSize": self.batch_size} if self.batch_size is not None else {})

    def _result(self, query: dict[str, Any]) -> dict[str, Any]:
        if query["query"] in self.failing_names:
            return {"error": "no answer for this one"}
        if query.get("type", COMPANY["id"]) != COMPANY["id"]:
            return {"result": []}
        found = self.companies.search(query["query"], int(query.get("limit", 10)))
        return {
            "result": [
                {"id": each.company_id, "name": each.name, "score": score * 100, "match": score == 1, "type": [COMPANY]}
                for score, each in found
            ]
        }


def _queries(request: GivenRequest) -> dict[str, Any]:
    try:
        found = json.loads(request.parameters.get("queries", "{}"))
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
