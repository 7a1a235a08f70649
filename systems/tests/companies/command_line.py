"""Commands of companies, called in this process: in a folder, on a database."""

import csv
import io
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from rowmill.cli.main import run
from rowmill_systems.companies.companies import Companies
from rowmill_systems.companies.lookup import JudgedCandidate, LookupDecision, LookupOutcome
from rowmill_systems.companies.providers.port import CompanyCandidate
from rowmill_systems.companies.reviews import record_review
from rowmill_systems.companies.temp_ids import normalize_for_temp_id
from rowmill_systems.parts.names.companies import CompanyMatch, MatchReason, MatchVerdict
from systems.tests.companies.harness import SALT, settings_for

KNOWN = "id,name\nC1,Acme Ltd\nC2,Globex GmbH\nC3,Initech Inc\n"
MATCH = CompanyMatch(
    0.8, MatchVerdict.UNSURE, (MatchReason("core", agrees=True, detail="acme"), MatchReason("region", agrees=False))
)


def unsure_of(*candidates: CompanyCandidate) -> LookupDecision:
    judged = tuple(JudgedCandidate(each, MATCH) for each in candidates)
    return LookupDecision(LookupOutcome.UNSURE, "file", candidates=judged)


def open_review(connection: sa.Connection, companies: Companies, name: str, *candidates: CompanyCandidate) -> int:
    """Ask for a name, and leave it to a person. Return the id of the review."""
    from rowmill_systems.companies.lookup_queue import LookupQueue

    queue = LookupQueue(connection, companies.settings, salts=companies.salts)
    queue.enqueue_many([name])
    normal, requests, reviews = normalize_for_temp_id(name), companies.tables.requests, companies.tables.reviews
    connection.execute(
        sa.update(requests).where(requests.c.normalized_name == normal).values(status="done", outcome="unsure")
    )
    given = candidates or (CompanyCandidate("C1", "Acme Ltd", ("Old Acme",), details={"city": "Köln"}),)
    record_review(connection, companies.tables, normalized_name=normal, raw_name=name, decision=unsure_of(*given))
    found: int = connection.scalars(sa.select(reviews.c.id).where(reviews.c.normalized_name == normal)).one()
    return found


class CommandLine:
    """Calls commands, and looks into their database."""

    def __init__(self, url: str, folder: Path, captured: pytest.CaptureFixture[str], patch: pytest.MonkeyPatch) -> None:
        self.url, self.folder, self._captured, self._patch = url, folder, captured, patch
        self.said = ""
        """What the last command wrote to stderr."""

    def run(self, *words: str, code: int = 0, given: bytes | None = None) -> str:
        """Return what the command prints."""
        if given is not None:
            self._patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given)))
        self._captured.readouterr()
        got = run(["systems", "companies", *words])
        out, self.said = self._captured.readouterr()
        assert got == code, (got, out, self.said)
        return out

    def json(self, *words: str, code: int = 0) -> Any:
        return json.loads(self.run(*words, "--json", code=code))

    def refused(self, *words: str, code: int = 2, given: bytes | None = None) -> str:
        """Return what the command says instead of doing it."""
        assert self.run(*words, code=code, given=given) == ""
        return self.said

    def write(self, name: str, text: str | bytes) -> str:
        (self.folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())
        return name

    def rows(self, name: str, delimiter: str = ",") -> list[list[str]]:
        with (self.folder / name).open(encoding="utf-8", newline="") as file:
            return list(csv.reader(file, delimiter=delimiter))

    @contextmanager
    def companies(self) -> Iterator[Companies]:
        companies = Companies(settings_for(self.url))
        try:
            yield companies
        finally:
            companies.engine.dispose()

    def work(self, work: Callable[[sa.Connection, Companies], Any]) -> Any:
        """Do something in one transaction."""
        with self.companies() as companies, companies.engine.begin() as connection:
            return work(connection, companies)

    def read(self, statement: str) -> Sequence[Any]:
        """Read with plain SQL. REQUESTS is the table of requests."""

        def read(connection: sa.Connection, companies: Companies) -> Sequence[Any]:
            named = statement.replace("REQUESTS", companies.tables.requests.fullname)
            return connection.execute(sa.text(named)).all()

        found: Sequence[Any] = self.work(read)
        return found

    def sql(self, *statements: str) -> None:
        def change(connection: sa.Connection, companies: Companies) -> None:
            for statement in statements:
                connection.exec_driver_sql(statement.replace("REQUESTS", companies.tables.requests.fullname))

        self.work(change)

    def review(self, name: str, *candidates: CompanyCandidate) -> int:
        found: int = self.work(lambda connection, companies: open_review(connection, companies, name, *candidates))
        return found

    def temp_id(self, name: str) -> str:
        with self.companies() as companies:
            return companies.salts.temp_id(normalize_for_temp_id(name))


def called(
    url: str, folder: Path, patch: pytest.MonkeyPatch, captured: pytest.CaptureFixture[str], **more: str
) -> CommandLine:
    """Set the environment of commands, and go to their folder."""
    for name, value in {"WDH_DATABASE_URL": url, "WDH_TEMP_ID_SALT": SALT, "COLUMNS": "200", **more}.items():
        patch.setenv(name, value)
    patch.chdir(folder)
    (folder / "known.csv").write_text(KNOWN)
    return CommandLine(url, folder, captured, patch)
