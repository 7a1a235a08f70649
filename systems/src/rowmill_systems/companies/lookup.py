"""Look names up with the providers, and decide whether an answer is good enough."""

import logging
import threading
import time
import unicodedata
import weakref
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import rowmill as rm
from rowmill_systems.companies.company_ids import is_company_id
from rowmill_systems.companies.models import INTERNAL, PERSON, TIERS
from rowmill_systems.companies.providers.port import (
    LONGEST_NAME,
    Answer,
    BudgetSpent,
    CompanyCandidate,
    CompanyProvider,
    ConcurrentProvider,
    NameUnusable,
    ProviderOff,
    RunAware,
)
from rowmill_systems.parts.names.companies import (
    CompanyMatch,
    MatchVerdict,
    analyze_company,
    compare_companies,
    normalize_company,
)

log = logging.getLogger("rowmill")
MOST_SHOWN = 10
"""Candidates that are kept for a person."""
ROUNDING = 1e-9
"""Scores are fractions: 0.95 - 0.9 is a little less than 0.05."""
NORMAL = "normal"
"""The reason of names with the same normal form."""
SEVERAL = "providers"
"""The source of a "no match" that no single provider gave."""
RESERVED = frozenset((INTERNAL, PERSON, SEVERAL, "cache", "queue", "none", *TIERS))
"""Words that tell something else than a provider where the source of an answer is stored."""
LONGEST_PROVIDER = 40
VERDICTS = (MatchVerdict.DIFFERENT, MatchVerdict.UNSURE, MatchVerdict.SAME)


class CallBudget:
    """The calls to providers that one run may make. Thread-safe: never exceeded, however many threads spend it."""

    def __init__(self, calls: int) -> None:
        self.calls = calls
        self._spent = 0
        self._lock = threading.Lock()

    @property
    def run(self) -> "CallBudget":
        """The budget of the whole run: this one, or the one that this is a part of."""
        return self

    @property
    def spent(self) -> int:
        return self._spent

    @property
    def left(self) -> int:
        return self.calls - self._spent

    def spend(self) -> None:
        """Count one call. Raises BudgetSpent if there is none left."""
        with self._lock:
            if self._spent >= self.calls:
                raise BudgetSpent(f"all {self.calls} calls of this run are spent")
            self._spent += 1


class LookupOutcome(StrEnum):
    """How a lookup of one name ended."""

    ACCEPTED = "accepted"
    UNSURE = "unsure"
    """There are candidates, and none is clearly the one: a person decides."""
    NO_MATCH = "no_match"
    """Every provider that was asked knows no such company."""
    FAILED = "failed"
    """No provider could say. `error` has the reason."""


@dataclass(frozen=True, slots=True)
class JudgedCandidate:
    """A candidate with how well its best name matches."""

    candidate: CompanyCandidate
    match: CompanyMatch
    provider: str = ""
    name: str = ""
    """Which of its names matches best."""


@dataclass(frozen=True, slots=True)
class LookupDecision:
    """What the providers say of one name."""

    outcome: LookupOutcome
    provider: str | None = None
    company_id: str | None = None
    company_name: str | None = None
    confidence: float | None = None
    candidates: tuple[JudgedCandidate, ...] = ()
    """The best first."""
    error: rm.errors.WorkError | None = None


class ProviderChain:
    """Providers in the order in which they are asked. A name that one answers is not asked of the next.

    A candidate is accepted if its best name has at least `accept_score`, is the same by the verdict of the comparison,
    and is better by `accept_gap` than every other company of that provider, or the only one with exactly this name. A
    name that fits several companies of one provider is not asked of the next: it is the name that is not clear,
    whatever another provider makes of it.

    A run is a `CallBudget`: with a budget that it has not seen, a provider that refused our token is asked again. In
    the run that it refused it stays off, whatever other runs begin meanwhile.

    Raises DeclarationError if two providers have one name, or one has a name with another meaning.
    """

    def __init__(self, providers: Sequence[CompanyProvider], *, accept_score: float, accept_gap: float) -> None:
        self.providers = tuple(providers)
        self.accept_score = accept_score
        self.accept_gap = accept_gap
        self._runs = weakref.WeakKeyDictionary[CallBudget, Refusals]()
        _check_names(self.providers)
        self._lock = threading.Lock()

    def look_up(
        self, names: Sequence[str], budget: CallBudget, *, seconds: float | None = None
    ) -> list[LookupDecision]:
        """Return a decision for each name, in their order. Raises nothing: a failure is a decision too.

        Names with the same normal form are asked for once. After `seconds`, names without an answer fail with the code
        `timeout`. A request that is under way then ends by itself, and is not waited for.
        """
        until = None if seconds is None else time.monotonic() + seconds
        refusals = self._begin_run(budget.run)
        wanted: dict[str, NameLookup] = {}
        """By normal form."""
        forms = [_normal_form(name) for name in names]
        for name, form in zip(names, forms, strict=True):
            if form:
                wanted.setdefault(form, NameLookup(name))
        for provider in self.providers:
            waiting = deque(lookup for lookup in wanted.values() if not lookup.settled)
            self._ask_for_all(provider, waiting, ProviderTurn(budget, refusals, until))
        if not self.providers:  # nobody was asked, which is no proof that nobody knows
            for lookup in wanted.values():
                lookup.failures.append(("", rm.TransientError("no provider is set up", code="no_provider")))
        decisions = {form: lookup.decision() for form, lookup in wanted.items()}
        self._log_failures(wanted.values())
        return [decisions[form] if form else _unusable(name) for name, form in zip(names, forms, strict=True)]

    def close(self) -> None:
        """Close all providers. Idempotent."""
        for provider in self.providers:
            provider.close()

    def _begin_run(self, budget: CallBudget) -> "Refusals":
        """Return what providers refused in this run."""
        with self._lock:
            known = self._runs.get(budget)
            if known is not None:
                return known
            begun: Refusals = {}
            self._runs[budget] = begun
            for provider in self.providers:
                if isinstance(provider, RunAware):
                    provider.begin_run()
            return begun

    def _ask_for_all(self, provider: CompanyProvider, waiting: "deque[NameLookup]", turn: "ProviderTurn") -> None:
        """Ask for all names that wait, in batches: in several threads if the provider allows it, until the time is
        over."""
        names = list(waiting)
        for lookup in names:
            lookup.is_open = True

        def work() -> None:
            while batch := self._next_batch(provider, waiting):
                self._ask(provider, batch, turn)

        requests = -(-len(waiting) // max(provider.batch_size, 1))
        threads = min(provider.concurrency if isinstance(provider, ConcurrentProvider) else 1, requests)
        if threads <= 1 and turn.until is None:
            work()
            return
        # Not a pool: Python would wait for its threads at exit, however long a provider takes.
        workers = [threading.Thread(target=work, name=f"ask {provider.name}", daemon=True) for _ in range(threads)]
        try:
            for worker in workers:
                worker.start()
            for worker in workers:
                worker.join(turn.seconds_left)
        finally:
            waiting.clear()  # the others end with what they are asking for
        for lookup in names:
            if lookup.is_open:
                late = rm.TransientError(f"{provider.name} did not answer in time", code="timeout")
                lookup.failures.append((provider.name, late))

    def _next_batch(self, provider: CompanyProvider, waiting: "deque[NameLookup]") -> "list[NameLookup]":
        with self._lock:
            size = max(provider.batch_size, 1)  # it may shrink when the provider knows its service
            return [waiting.popleft() for _ in range(min(size, len(waiting)))]

    def _ask(self, provider: CompanyProvider, batch: "Sequence[NameLookup]", turn: "ProviderTurn") -> None:
        answers: Sequence[Answer]
        off = turn.refusals.get(provider.name)
        try:
            answers = [off] * len(batch) if off else provider.search([each.name for each in batch], turn.spend)
            if len(answers) != len(batch):
                raise rm.TransientError(
                    f"{provider.name} returned {len(answers)} answers for {len(batch)} names", code="bad_answer"
                )
        except rm.errors.WorkError as error:
            answers = [error] * len(batch)
        except Exception as error:
            # Of its text nothing is kept: it may have names in it.
            failure = rm.TransientError(f"{provider.name}: {type(error).__name__}", code="provider_broken")
            answers = [failure] * len(batch)
        for lookup, answer in zip(batch, answers, strict=True):
            if isinstance(answer, ProviderOff):
                turn.refusals[provider.name] = answer
            if isinstance(answer, rm.errors.WorkError):
                lookup.failures.append((provider.name, answer))
            else:
                self._judge(provider.name, lookup, answer)
            lookup.is_open = False

    def _judge(self, provider: str, lookup: "NameLookup", found: Sequence[CompanyCandidate]) -> None:
        candidates = [each for each in found if is_company_id(each.company_id)]
        if found and not candidates:
            error = rm.TransientError(f"{provider} answers with companies that have no usable id", code="bad_answer")
            lookup.failures.append((provider, error))
            return
        judged = judge_candidates(lookup.name, candidates, provider)
        lookup.judged += [each for each in judged if each.match.verdict is not MatchVerdict.DIFFERENT]
        good = [each for each in judged if self._is_good(each.match) and _forms_agree(lookup.name, each.name)]
        if not good:
            return
        exact = [each for each in good if _is_exact(each.match)]
        if len(exact) == 1:  # others may be as like as they want
            lookup.accepted = exact[0]
        elif len(judged) > 1 and good[0].match.score - judged[1].match.score < self.accept_gap - ROUNDING:
            lookup.ambiguous = len(good) > 1
        else:
            lookup.accepted = good[0]

    def _is_good(self, match: CompanyMatch) -> bool:
        return match.verdict is MatchVerdict.SAME and match.score >= self.accept_score

    def _log_failures(self, lookups: "Iterable[NameLookup]") -> None:
        counts = Counter((name, error.code) for lookup in lookups for name, error in lookup.failures)
        for (name, code), count in counts.items():
            log.warning(
                "provider %s failed for %d names: %s",
                name,
                count,
                code,
                extra={"provider": name, "code": code, "names": count},
            )


Refusals = dict[str, ProviderOff]
"""Providers that refused our token, by name."""


@dataclass(frozen=True, slots=True)
class ProviderTurn:
    """What providers may do for one lookup: the calls that they may make, and until when."""

    budget: CallBudget
    refusals: Refusals
    until: float | None = None
    """On the monotonic clock."""

    @property
    def seconds_left(self) -> float | None:
        return None if self.until is None else max(self.until - time.monotonic(), 0.0)

    def spend(self) -> None:
        """Count one call. Raises BudgetSpent if there is none left, or nobody waits for its answer any more."""
        if self.until is not None and time.monotonic() >= self.until:
            raise BudgetSpent("the time for this lookup is over")
        self.budget.spend()


@dataclass(slots=True)
class NameLookup:
    """A name on its way through the providers."""

    name: str
    accepted: JudgedCandidate | None = None
    ambiguous: bool = False
    """Several companies of one provider have that name."""
    judged: list[JudgedCandidate] = field(default_factory=list)
    """Candidates that are worth showing to a person."""
    failures: list[tuple[str, rm.errors.WorkError]] = field(default_factory=list)
    is_open: bool = False
    """A provider is to be asked, and has not answered yet."""

    @property
    def settled(self) -> bool:
        return self.accepted is not None or self.ambiguous

    def decision(self) -> LookupDecision:
        """Return what all providers together say.

        If one of them could not say, the name is not known to be unknown: the outcome is FAILED, so that it is tried
        again. The candidates of the others are kept with it.
        """
        shown = sorted(self.judged, key=lambda each: -each.match.score)[:MOST_SHOWN]
        if self.accepted is not None:
            company, match = self.accepted.candidate, self.accepted.match
            return LookupDecision(
                LookupOutcome.ACCEPTED,
                self.accepted.provider,
                company.company_id,
                company.name,
                match.score,
                tuple(shown),
            )
        best = shown[0] if shown else None
        provider, confidence = (best.provider, best.match.score) if best else (None, None)
        if self.failures:
            name, error = next((each for each in self.failures if each[1].retryable), self.failures[0])
            return LookupDecision(LookupOutcome.FAILED, name, candidates=tuple(shown), error=error)
        if best is not None:
            return LookupDecision(LookupOutcome.UNSURE, provider, confidence=confidence, candidates=tuple(shown))
        return LookupDecision(LookupOutcome.NO_MATCH)


def _check_names(providers: Sequence[CompanyProvider]) -> None:
    names = [provider.name for provider in providers]
    problems = [f"two providers have the name {name}" for name in sorted({n for n in names if names.count(n) > 1})]
    problems += [
        f"a provider can't have the name {name}: it means something else" for name in names if name in RESERVED
    ]
    problems += [
        f"the name of a provider has 1 to {LONGEST_PROVIDER} printable characters, and not {len(name)}"
        for name in names
        if not 0 < len(name) <= LONGEST_PROVIDER or not name.isprintable()
    ]
    if problems:
        raise rm.errors.DeclarationError("companies", problems, kind="providers of")


def judge_candidates(name: str, candidates: Sequence[CompanyCandidate], provider: str) -> list[JudgedCandidate]:
    """Compare each candidate by the best of its names. Return every company once, the best first."""
    best: dict[str, JudgedCandidate] = {}
    for candidate in candidates:
        names = (candidate.name, *candidate.other_names)
        match, matched = max(
            ((compare_companies(name, other), other) for other in names), key=lambda pair: _rank(pair[0])
        )
        known = best.get(candidate.company_id)
        if known is None or _rank(match) > _rank(known.match):
            best[candidate.company_id] = JudgedCandidate(candidate, match, provider, matched)
    return sorted(best.values(), key=lambda each: _rank(each.match), reverse=True)


def _forms_agree(one: str, other: str) -> bool:
    """Tell whether two names have a legal form in common, or one has none.

    In one alphabet, another form is another company: Alder AG, Alder Oy. In two, it may be a translation.
    """
    mine, theirs = analyze_company(one).forms, analyze_company(other).forms
    return not mine or not theirs or bool(mine & theirs) or _alphabet(one) != _alphabet(other)


def _alphabet(name: str) -> str:
    """Return the alphabet of the first letter beyond ASCII: "LATIN", "CYRILLIC", "CJK"."""
    names = (unicodedata.name(letter, "").split(" ")[0] for letter in name if letter.isalpha())
    return next((each for each in names if each not in ("LATIN", "FULLWIDTH")), "LATIN")


def _is_exact(match: CompanyMatch) -> bool:
    """Tell whether two names have the same normal form."""
    return any(reason.code == NORMAL and reason.agrees for reason in match.reasons)


def _rank(match: CompanyMatch) -> tuple[float, int]:
    return match.score, VERDICTS.index(match.verdict)


def _normal_form(name: str) -> str:
    """Return the normal form of a name that can be looked up; empty for others, which cost no request."""
    return normalize_company(name) if len(name) <= LONGEST_NAME else ""


def _unusable(name: str) -> LookupDecision:
    long = len(name) > LONGEST_NAME
    error = NameUnusable(
        f"the name has more than {LONGEST_NAME} characters" if long else "the name names nothing",
        code="name_too_long" if long else "blank_name",
    )
    return LookupDecision(LookupOutcome.FAILED, error=error)
