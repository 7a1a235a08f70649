"""Look names up with the providers, and decide whether an answer is good enough."""

import logging
import threading
import unicodedata
import weakref
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import rowmill as rm
from rowmill_systems.companies.company_ids import is_company_id
from rowmill_systems.companies.providers.port import (
    LONGEST_NAME,
    Answer,
    BudgetSpent,
    CompanyCandidate,
    CompanyProvider,
    NameUnusable,
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

    A run is a `CallBudget`: with a budget that it has not seen, a provider that refused our token is asked again.
    """

    def __init__(self, providers: Sequence[CompanyProvider], *, accept_score: float, accept_gap: float) -> None:
        self.providers = tuple(providers)
        self.accept_score = accept_score
        self.accept_gap = accept_gap
        self._runs = weakref.WeakSet[CallBudget]()
        self._lock = threading.Lock()

    def look_up(self, names: Sequence[str], budget: CallBudget) -> list[LookupDecision]:
        """Return a decision for each name, in their order. Raises nothing: a failure is a decision too.

        Names with the same normal form are asked for once.
        """
        self._begin_run(budget.run)
        wanted: dict[str, NameLookup] = {}
        """By normal form."""
        forms = [_normal_form(name) for name in names]
        for name, form in zip(names, forms, strict=True):
            if form:
                wanted.setdefault(form, NameLookup(name))
        for provider in self.providers:
            waiting = [lookup for lookup in wanted.values() if not lookup.settled]
            while waiting:
                batch = waiting[: max(provider.batch_size, 1)]  # it may shrink when the provider knows its service
                waiting = waiting[len(batch) :]
                self._ask(provider, batch, budget)
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

    def _begin_run(self, budget: CallBudget) -> None:
        with self._lock:
            if budget in self._runs:
                return
            self._runs.add(budget)
            for provider in self.providers:
                if isinstance(provider, RunAware):
                    provider.begin_run()

    def _ask(self, provider: CompanyProvider, batch: "Sequence[NameLookup]", budget: CallBudget) -> None:
        answers: Sequence[Answer]
        try:
            answers = provider.search([lookup.name for lookup in batch], budget.spend)
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
            if isinstance(answer, rm.errors.WorkError):
                lookup.failures.append((provider.name, answer))
            else:
                self._judge(provider.name, lookup, answer)

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
