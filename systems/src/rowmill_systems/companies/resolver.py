"""Answer company names with ids, from the first of several rungs that knows: the ladder.

    with engine.begin() as connection:
        resolver = CompanyIdResolver(connection, settings, salt=salt, providers=chain)
        for resolution in resolver.resolve(["Acme Ltd", CompanyRow("Beta GmbH", plan_code="P0815")]):
            resolution.company_id, resolution.rung, resolution.confidence

1. internal mappings, by plan code, account number, hard-coded override, account name, company name;
2. the cache: what providers said of the name before;
3. the providers, synchronously, within a budget of calls;
4. the queue: the name gets a temporary id, which is replaced when the name has been looked up in the background.

All in the caller's transaction. A rung that fails is logged and counted, and the next one is tried. While providers are
asked, the transaction waits for `settings.eqc_sync_seconds` at the most. On SQLite nobody else writes meanwhile:
`prefetch_answers` asks them before the transaction begins.
"""

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date
from functools import lru_cache, partial
from typing import TypeVar

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from rowmill_systems.companies.company_ids import LONGEST_COMPANY_ID
from rowmill_systems.companies.lookup import CallBudget, LookupDecision, LookupOutcome, ProviderChain
from rowmill_systems.companies.mappings import (
    BATCH,
    LONGEST_ALIAS,
    CachedAnswer,
    CompanyMappingRepository,
    KnownName,
    MappedId,
    alias_of,
    batched,
)
from rowmill_systems.companies.models import TIERS, MatchType, tables_of
from rowmill_systems.companies.providers.port import BudgetSpent
from rowmill_systems.companies.reviews import record_review
from rowmill_systems.companies.settings import CompaniesSettings
from rowmill_systems.companies.temp_ids import LONGEST_RAW_NAME

log = logging.getLogger("rowmill")
T = TypeVar("T")

MAPPINGS, CACHE, QUEUE, NONE = "mappings", "cache", "queue", "none"
READING = (MAPPINGS, CACHE)
"""Rungs that write nothing."""
"""Rungs besides the tiers of mappings and the names of providers."""
LONGEST_RUNG = 40
NAMES_TO_PROVIDERS = 100
"""Names that the providers are asked for at once. When none of them is answered, the others are not asked."""
NORMAL_FORMS = 65_536
"""Normal forms that are remembered. To find one takes a hundredth of the time to make one."""
DEADLOCK = "40P01"
UNFINISHED = (DEADLOCK, "40001")
"""Errors of PostgreSQL after which the same statement may succeed: a deadlock, a serialization failure."""


@dataclass(frozen=True, slots=True)
class CompanyRow:
    """A name, and what else is known of it."""

    name: str | None
    plan_code: str | None = None
    account_number: str | None = None
    account_name: str | None = None


@dataclass(slots=True)
class Resolution:
    """The answer to one row. Rows that are equal share one."""

    company_id: str | None
    """None: the row names no company."""
    rung: str
    """Which rung answered: plan_code, account_number, hardcode, account_name, company_name, cache, the name of a
    provider, queue, or none."""
    confidence: float | None = None
    temporary: bool = False
    reason: str = ""
    """mapped, cached, resolved, accepted; for temporary ids no_match, unsure, enqueued, already_open, already_done,
    already_failed, queue_failed; without an id blank_name, name_too_long."""


@dataclass(slots=True)
class ResolutionCounts:
    """How many distinct rows each rung answered, and how often a rung failed."""

    rungs: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    failures: Counter[tuple[str, str]] = field(default_factory=Counter)
    """By rung and code."""

    @property
    def names(self) -> int:
        return self.rungs.total()


GivenRow = str | None | CompanyRow
Tiers = tuple[dict[str, MappedId], ...]
NO_TIERS: Tiers = tuple({} for _ in TIERS)
PLAN_CODE, ACCOUNT_NUMBER, HARDCODE, ACCOUNT_NAME, COMPANY_NAME = range(len(TIERS))
RowCodes = tuple[str, str, str]
"""Aliases of plan code, account number and account name."""
STANDING = {
    "new": "enqueued",
    "pending": "already_open",
    "processing": "already_open",
    "done": "already_done",
    "failed": "already_failed",
}
"""Reasons, by what became of a request."""


@lru_cache(NORMAL_FORMS)
def _normal_form(name: str) -> str:
    return alias_of("company_name", name)


@dataclass(slots=True)
class PrefetchedAnswers:
    """What providers said of names, by normalised name. `prefetch_answers` makes it."""

    decisions: dict[str, LookupDecision] = field(default_factory=dict)
    failures: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Names without an answer, by provider and code."""


def ask_providers(
    chain: ProviderChain, names: Mapping[str, str], budget: CallBudget, seconds: float | None = None
) -> PrefetchedAnswers:
    """Look up raw names, given by normalised names. With `seconds`, what has no answer by then is left out."""
    found = PrefetchedAnswers()
    until = None if seconds is None else time.monotonic() + seconds
    for some in batched(names.items(), NAMES_TO_PROVIDERS):
        left = None if until is None else until - time.monotonic()
        if left is not None and left <= 0:
            break
        try:
            decisions = chain.look_up([raw for _, raw in some], budget, seconds=left)
        except Exception as error:  # the chain promises to raise nothing; the pipeline goes on if it does
            found.failures["providers", type(error).__name__] += len(some)
            break
        before = len(found.decisions)
        for (name, _), decision in zip(some, decisions, strict=False):
            if decision.outcome is not LookupOutcome.FAILED:
                found.decisions[name] = decision
                continue
            code = decision.error.code if decision.error is not None else "failed"
            if code != BudgetSpent.code:  # is no failure
                found.failures[_provider(decision), code] += 1
        if len(found.decisions) == before:
            break
    return found


class CompanyIdResolver:
    """Resolves names to company ids in the caller's transaction. Not thread-safe, as its connection is not."""

    def __init__(
        self,
        connection: sa.Connection | Session,
        settings: CompaniesSettings,
        *,
        salt: str | None = None,
        providers: ProviderChain | None = None,
        batch_size: int = BATCH,
        keep_counts: bool = True,
        prefetched: PrefetchedAnswers | None = None,
    ) -> None:
        """`providers` are asked within `settings.eqc_sync_budget` calls and `settings.eqc_sync_seconds`, over the life
        of the resolver. `prefetched` is what they said before the transaction began.

        `keep_counts`: add the counts by rung to today's in the database.
        """
        self.mappings = CompanyMappingRepository(connection, settings, salt=salt)
        # Without a salt, or with another one, it fails here and not in the middle of a pipeline: ids of another salt
        # would never be replaced.
        self.mappings.temp_id("salt")
        self.mappings.check_salt()
        self.settings = settings
        self.providers = providers
        self._prefetched = prefetched or PrefetchedAnswers()
        self._seconds_left = settings.eqc_sync_seconds
        self.budget = CallBudget(settings.eqc_sync_budget)
        self.batch_size = batch_size
        self.counts = ResolutionCounts()
        self._keep_counts = keep_counts
        self._unsaved: Counter[str] = Counter()
        self._connection = self.mappings.connection
        self._has_written = False
        self._wrote_in: sa.Transaction | None = None
        """The transaction in which an earlier batch of rows has written."""

    def resolve(self, rows: Iterable[GivenRow]) -> list[Resolution]:
        """Return an answer for each row, in their order. Raises nothing that the database or a provider does.

        Names that it writes stay locked until the transaction ends. Call it once in a transaction, or with rows that
        are sorted by name over all calls: two transactions with crossed orders lock each other out.
        """
        given = list(rows)
        answers: dict[GivenRow, Resolution] = {}
        for some in batched(dict.fromkeys(given), self.batch_size):
            answers |= self._resolve_batch(some)
        self._save_counts()
        return [answers[row] for row in given]

    def resolve_batches(self, rows: Iterable[GivenRow]) -> Iterator[list[Resolution]]:
        """Yield the answers of some thousand rows at a time, in their order: for more rows than fit into memory."""
        for some in batched(rows, self.batch_size):
            yield self.resolve(some)

    def _resolve_batch(self, rows: Sequence[GivenRow]) -> dict[GivenRow, Resolution]:
        found, left, names = self._by_mappings(rows)
        if left:
            settled = self._unmapped(left)
            for row, name in names.items():
                if row not in found:
                    found[row] = settled[name]
        if self._has_written:
            self._has_written, self._wrote_in = False, self._connection.get_transaction()
        self._count(found.values())
        return found

    def _by_mappings(
        self, rows: Sequence[GivenRow]
    ) -> tuple[dict[GivenRow, Resolution], dict[str, str], dict[GivenRow, str]]:
        """Return the answers of mappings, the raw names by normalised ones that have none, and the normalised names of
        all rows. Of several spellings, the first is kept."""
        names: dict[GivenRow, str] = {}
        codes: dict[GivenRow, RowCodes] = {}
        found: dict[GivenRow, Resolution] = {}
        left: dict[str, str] = {}
        for row in rows:
            names[row] = _normalized(row)
            if isinstance(row, CompanyRow) and (given := _codes(row)):
                codes[row] = given
        tiers = self._mapped(names.values(), codes.values())
        hardcoded, by_name = tiers[HARDCODE], tiers[COMPANY_NAME]
        # This runs for every row: a function for each step would take as long as the database.
        for row, name in names.items():
            mapped = hardcoded.get(name) if hardcoded else None
            rung = "hardcode"
            if mapped is None:
                mapped, rung = by_name.get(name), "company_name"
            if row in codes:
                mapped, rung = _by_codes(codes[row], tiers, mapped, rung)
            if mapped is not None:
                found[row] = Resolution(mapped[0], rung, mapped[1], False, "mapped")
            elif name:
                left.setdefault(name, _raw(row))
            else:
                found[row] = Resolution(None, NONE, reason="name_too_long" if _is_too_long(row) else "blank_name")
        return found, left, names

    def _mapped(self, names: Iterable[str], codes: Iterable[RowCodes]) -> Tiers:
        aliases = set(names).union(*codes)
        aliases.discard("")
        if not aliases:
            return NO_TIERS
        return self._attempt(MAPPINGS, len(aliases), lambda: self.mappings.find_mapped(aliases), NO_TIERS)

    def _unmapped(self, left: dict[str, str]) -> dict[str, Resolution]:
        """Answer raw names, by their normalised names, that have no mapping."""
        settled: dict[str, Resolution] = {}
        known = self._known(left)
        unrecorded: dict[str, dict[str, str]] = {}
        """By reason: names whose temporary ids no request has yet."""
        for name, what in known.items():
            answer = self._known_answer(name, what)
            settled[name] = answer
            if answer.temporary and what.request_status is None:
                unrecorded.setdefault(answer.reason, {})[name] = left[name]
        decisions = self._looked_up({name: raw for name, raw in left.items() if name not in settled})
        for name, decision in decisions.items():
            answer = self._decided_answer(name, decision)
            settled[name] = answer
            if answer.temporary:
                unrecorded.setdefault(answer.reason, {})[name] = left[name]
        self._store_decisions(left, decisions | self._paid_in_vain(known))
        for reason, names in unrecorded.items():
            self._attempt(QUEUE, len(names), partial(self.mappings.record_answered, names, reason), None)
        settled |= self._enqueued({name: raw for name, raw in left.items() if name not in settled})
        return settled

    def _known(self, names: Mapping[str, str]) -> dict[str, KnownName]:
        nothing: dict[str, KnownName] = {}
        return self._attempt(CACHE, len(names), lambda: self.mappings.find_known(names), nothing) if names else nothing

    def _known_answer(self, name: str, known: KnownName) -> Resolution:
        cached = known.cached
        if cached is not None and cached.company_id is not None:
            return Resolution(cached.company_id, CACHE, cached.confidence, reason="cached")
        if known.resolved_company_id is not None:
            return Resolution(known.resolved_company_id, CACHE, known.resolved_confidence, reason="resolved")
        if known.request_status is not None and known.request_status != "done":
            return self._temporary(name, QUEUE, STANDING[known.request_status])
        if cached is not None:
            return self._temporary(name, CACHE, "unsure" if cached.confidence > 0 else "no_match")
        return self._temporary(name, QUEUE, STANDING["done"])

    def _paid_in_vain(self, known: Mapping[str, KnownName]) -> dict[str, LookupDecision]:
        """Return what was asked ahead for names that somebody has requested meanwhile: whoever takes the requests finds
        the answers, and asks nobody again."""
        ahead = self._prefetched.decisions
        return {
            name: ahead[name]
            for name, what in known.items()
            if name in ahead and what.cached is None and what.resolved_company_id is None
        }

    def unknown(self, rows: Iterable[GivenRow]) -> dict[str, str]:
        """Return the names that neither mappings nor the cache know, as they are written, by normalised names. Changes
        nothing."""
        left: dict[str, str] = {}
        for some in batched(rows, self.batch_size):
            _, unmapped, _ = self._by_mappings(some)
            known = self._known(unmapped)
            left |= {name: raw for name, raw in unmapped.items() if name not in known}
        return left

    def _looked_up(self, names: Mapping[str, str]) -> dict[str, LookupDecision]:
        """Return the decisions that the providers came to, by normalised name."""
        ahead = self._prefetched
        decided = {name: ahead.decisions[name] for name in names if name in ahead.decisions}
        self._count_failures(ahead.failures)
        ahead.failures.clear()
        left = {name: raw for name, raw in names.items() if name not in decided}
        if self.providers is None or not left or self._seconds_left <= 0:
            return decided
        began = time.monotonic()
        found = ask_providers(self.providers, left, self.budget, self._seconds_left)
        self._seconds_left -= time.monotonic() - began
        self._count_failures(found.failures)
        return decided | found.decisions

    def _count_failures(self, failures: Mapping[tuple[str, str], int]) -> None:
        for (provider, code), number in failures.items():
            self._failed(provider, number, code)

    def _decided_answer(self, name: str, decision: LookupDecision) -> Resolution:
        rung = _provider(decision)[:LONGEST_RUNG]
        if _is_accepted(decision):
            return Resolution(decision.company_id, rung, decision.confidence, reason="accepted")
        return self._temporary(name, rung, "unsure" if decision.outcome is LookupOutcome.UNSURE else "no_match")

    def _store_decisions(self, raw_names: Mapping[str, str], decisions: Mapping[str, LookupDecision]) -> None:
        """Cache what the providers said, and keep what a person has to decide."""
        if not decisions:
            return
        answers = [
            CachedAnswer(name, decision.company_id, _provider(decision), decision.confidence or 1.0)
            if _is_accepted(decision)
            else CachedAnswer(name, None, _provider(decision), _best_score(decision))
            for name, decision in decisions.items()
        ]
        self._attempt("cache_write", len(answers), lambda: self.mappings.cache_answers(answers), None)
        unsure = [name for name, decision in decisions.items() if decision.outcome is LookupOutcome.UNSURE]
        if unsure:
            self._attempt("review", len(unsure), lambda: self._record_reviews(unsure, raw_names, decisions), None)

    def _record_reviews(
        self, names: Iterable[str], raw_names: Mapping[str, str], decisions: Mapping[str, LookupDecision]
    ) -> None:
        tables = self.mappings.tables
        for name in sorted(names):  # in one order: two pipelines with the same names do not lock each other out
            raw, decision = raw_names[name], decisions[name]
            record_review(self._connection, tables, normalized_name=name, raw_name=raw, decision=decision)

    def _enqueued(self, names: Mapping[str, str]) -> dict[str, Resolution]:
        if not names:
            return {}
        placed = self._attempt(QUEUE, len(names), lambda: self.mappings.open_requests(names), None)
        if placed is None:
            return {name: self._temporary(name, NONE, "queue_failed") for name in names}
        return {name: self._temporary(name, QUEUE, STANDING[placed.get(name, "new")]) for name in names}

    def _temporary(self, name: str, rung: str, reason: str) -> Resolution:
        return Resolution(self.mappings.temp_id(name), rung, temporary=True, reason=reason)

    def _attempt(self, rung: str, names: int, work: Callable[[], T], otherwise: T) -> T:
        """Do the work of a rung in a savepoint. If it fails, count it, and return `otherwise`.

        The caller's transaction goes on either way.
        """
        for last in (False, True):
            try:
                with savepoint(self._connection):
                    done = work()
                self._has_written |= rung not in READING
                return done
            except Exception as error:
                code = error_code(error)
                if last or code not in UNFINISHED or (code == DEADLOCK and self._holds_names):
                    self._failed(rung, names, code)
                    break
        return otherwise

    @property
    def _holds_names(self) -> bool:
        """Whether this transaction has names of earlier rows locked. The other one waits for them: to try again can't
        help, and may fail both."""
        return self._wrote_in is not None and self._wrote_in is self._connection.get_transaction()

    def _failed(self, rung: str, names: int, code: str) -> None:
        self.counts.failures[rung, code] += 1
        self._unsaved[f"{rung}_failed"[:LONGEST_RUNG]] += 1
        log.warning(
            "rung_failed rung=%s code=%s names=%d",
            rung, code, names, extra={"rowmill": {"rung": rung, "code": code, "names": names}},
        )  # fmt: skip

    def _count(self, answers: Iterable[Resolution]) -> None:
        rungs = Counter(answer.rung for answer in answers)
        self.counts.rungs += rungs
        self._unsaved += rungs
        self.counts.reasons += Counter(answer.reason for answer in answers)

    def _save_counts(self) -> None:
        if not self._keep_counts or not self._unsaved:
            return
        unsaved = self._unsaved.copy()

        def save() -> bool:
            self.mappings.count_rungs(unsaved)
            return True

        if self._attempt("counts", 0, save, False):
            self._unsaved.clear()


def rung_counts(connection: sa.Connection, since: date | None = None) -> list[tuple[date, str, int]]:
    """Return how many names each rung answered, by day and rung."""
    table = tables_of(connection.dialect.name).rung_counts
    wanted = sa.select(table.c.day, table.c.rung, sa.func.sum(table.c.names)).group_by(table.c.day, table.c.rung)
    if since is not None:
        wanted = wanted.where(table.c.day >= since)
    rows = connection.execute(wanted.order_by(table.c.day, table.c.rung))
    return [(day, rung, int(names)) for day, rung, names in rows]


@contextmanager
def savepoint(connection: sa.Connection) -> Iterator[None]:
    """Run the block in a savepoint of the caller's transaction."""
    if connection.dialect.name == "sqlite":
        if not connection.in_transaction():
            connection.exec_driver_sql("SELECT 1").close()  # SQLAlchemy begins; an engine of Rowmill sends BEGIN then
        driver = connection.connection.driver_connection
        if driver is not None and not driver.in_transaction:
            # Python's driver opens a transaction at the first change only. A savepoint outside of one is a transaction
            # itself: to release it would commit.
            connection.exec_driver_sql("BEGIN IMMEDIATE")
    with connection.begin_nested():
        yield


def error_code(error: Exception) -> str:
    """Return a code for an error. Its text may contain names, and is not shown."""
    origin = error.orig if isinstance(error, DBAPIError) else error
    return str(getattr(origin, "sqlstate", None) or getattr(origin, "sqlite_errorname", None) or type(origin).__name__)


def _raw(row: GivenRow) -> str:
    return (row.name if isinstance(row, CompanyRow) else row) or ""


def _normalized(row: GivenRow) -> str:
    """Return the normal form of a row's name. Empty if it is blank, meaningless or too long."""
    raw = row if row.__class__ is str else _raw(row)
    if len(raw) > LONGEST_RAW_NAME:
        return ""
    name = _normal_form(raw)
    return name if len(name) <= LONGEST_ALIAS else ""


def _is_too_long(row: GivenRow) -> bool:
    raw = _raw(row)
    return len(raw) > LONGEST_RAW_NAME or bool(_normal_form(raw))


def _codes(row: CompanyRow) -> RowCodes | None:
    """Return the aliases of plan code, account number and account name."""
    if row.plan_code is None and row.account_number is None and row.account_name is None:
        return None
    return (
        _alias("plan_code", row.plan_code),
        _alias("account_number", row.account_number),
        _alias("account_name", row.account_name),
    )


def _alias(match_type: MatchType, text: str | None) -> str:
    alias = alias_of(match_type, text) if text else ""
    return alias if len(alias) <= LONGEST_ALIAS else ""


def _by_codes(codes: RowCodes, tiers: Tiers, mapped: MappedId | None, rung: str) -> tuple[MappedId | None, str]:
    """Return the answer of the strongest tier, given what the name has by itself."""
    plan, number, account = codes
    for alias, tier in ((plan, PLAN_CODE), (number, ACCOUNT_NUMBER)):
        if alias in tiers[tier]:
            return tiers[tier][alias], TIERS[tier]
    if (mapped is None or rung == "company_name") and account in tiers[ACCOUNT_NAME]:
        return tiers[ACCOUNT_NAME][account], "account_name"
    return mapped, rung


def _provider(decision: LookupDecision) -> str:
    return decision.provider or "providers"


def _is_accepted(decision: LookupDecision) -> bool:
    return decision.outcome is LookupOutcome.ACCEPTED and 0 < len(decision.company_id or "") <= LONGEST_COMPANY_ID


def _best_score(decision: LookupDecision) -> float:
    """Above 0 if a person has to decide, which tells such a name from one that nobody knows."""
    if decision.outcome is not LookupOutcome.UNSURE:
        return 0.0
    return max((each.match.score for each in decision.candidates), default=0.0) or 0.01
