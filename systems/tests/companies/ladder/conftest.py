"""Databases with the tables of companies, and providers that answer what a test says."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pytest
import sqlalchemy as sa
from pydantic import SecretStr

import rowmill as rm
from rowmill_systems.companies.lookup import (
    CallBudget,
    JudgedCandidate,
    LookupDecision,
    LookupOutcome,
    ProviderChain,
)
from rowmill_systems.companies.models import SCHEMA, CompaniesTables, tables_of
from rowmill_systems.companies.providers.port import BudgetSpent, CompanyCandidate
from rowmill_systems.companies.settings import CompaniesSettings
from rowmill_systems.parts.names.companies import CompanyMatch, MatchReason, MatchVerdict
from tests.support.databases import Prepare

SALT = "planted-salt-4711"


def engine_of(url: str) -> sa.Engine:
    """An engine as a pipeline of somebody makes it: with the defaults of SQLAlchemy."""
    return sa.create_engine(url.replace("postgresql:", "postgresql+psycopg:"))


def install(url: str) -> None:
    engine = engine_of(url)
    with engine.begin() as connection:
        if connection.dialect.name == "postgresql":
            connection.exec_driver_sql(f"CREATE SCHEMA {SCHEMA}")
        tables_of(connection.dialect.name).metadata.create_all(connection)
    engine.dispose()


@pytest.fixture(scope="session")
def prepare() -> Prepare:
    return install


@pytest.fixture
def engine(database_url: str) -> Iterator[sa.Engine]:
    engine = engine_of(database_url)
    yield engine
    engine.dispose()


@pytest.fixture
def connection(engine: sa.Engine) -> Iterator[sa.Connection]:
    with engine.connect() as connection:
        yield connection


@pytest.fixture
def tables(connection: sa.Connection) -> CompaniesTables:
    return tables_of(connection.dialect.name)


@pytest.fixture
def settings(database_url: str) -> CompaniesSettings:
    return CompaniesSettings(database_url=database_url, temp_id_salt=SecretStr(SALT))


def accepted(company_id: str, provider: str = "eqc", confidence: float = 0.95) -> LookupDecision:
    return LookupDecision(LookupOutcome.ACCEPTED, provider, company_id, "A company", confidence)


def no_match(provider: str = "eqc") -> LookupDecision:
    return LookupDecision(LookupOutcome.NO_MATCH, provider)


def unsure(*company_ids: str, provider: str = "eqc") -> LookupDecision:
    match = CompanyMatch(0.8, MatchVerdict.UNSURE, (MatchReason("core", agrees=True, detail="acme"),))
    candidates = [
        CompanyCandidate(each, f"Acme {each}", ("Old Acme",), details={"city": "Köln"}) for each in company_ids
    ]
    return LookupDecision(
        LookupOutcome.UNSURE, provider, candidates=tuple(JudgedCandidate(each, match) for each in candidates)
    )


def failed(error: rm.errors.WorkError, provider: str = "eqc") -> LookupDecision:
    return LookupDecision(LookupOutcome.FAILED, provider, error=error)


class PreparedChain(ProviderChain):
    """Answers each name with what the test prepared, and spends a call for each."""

    def __init__(self, decisions: dict[str, LookupDecision]) -> None:
        super().__init__([], accept_score=0.9, accept_gap=0.05)
        self.decisions = decisions
        self.asked: list[str] = []

    def look_up(
        self, names: Sequence[str], budget: CallBudget, *, seconds: float | None = None
    ) -> list[LookupDecision]:
        return [self._decide(name, budget) for name in names]

    def _decide(self, name: str, budget: CallBudget) -> LookupDecision:
        try:
            budget.spend()
        except BudgetSpent as error:
            return failed(error)
        self.asked.append(name)
        return self.decisions.get(name, no_match())


@dataclass
class Statements:
    """Statements that an engine was sent, without savepoints."""

    texts: list[str] = field(default_factory=list)


@pytest.fixture
def statements(engine: sa.Engine) -> Statements:
    found = Statements()

    @sa.event.listens_for(engine, "before_cursor_execute")
    def keep(connection: object, cursor: object, statement: str, *_: object) -> None:
        if "SAVEPOINT" not in statement and "BEGIN" not in statement:
            found.texts.append(statement)

    return found
