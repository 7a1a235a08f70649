"""A run: the providers, the calls that it may make, and what it did."""

import time
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass

from rowmill_systems.companies.lookup import CallBudget, ProviderChain
from rowmill_systems.companies.providers.port import BudgetSpent, CompanyProvider
from rowmill_systems.companies.settings import CompaniesSettings

OpenProviders = Callable[[], Sequence[CompanyProvider]]
"""Opens the providers of a run, which closes them. Providers that are given as a list stay open."""

PAUSE_SECONDS = 60.0
"""How long requests wait that a run could not try. The next run finds them due."""
STANDING_SECONDS = 3600.0
"""A worker that never ends begins a new run, with a new budget, every hour: as often as the schedule does."""


@dataclass(slots=True)
class RunTally:
    """What the answers of a run were."""

    done: int = 0
    """Requests that were answered with a company, from a provider or from what was known."""
    no_match: int = 0
    unsure: int = 0
    known: int = 0
    """Of the answered ones, those whose answer was known already: no call was made."""
    rows_written: int = 0
    """Rows of target tables that got a real id."""


class RunInProgress:
    """One run of the queue. `until` is the time at which it ends by itself, on the monotonic clock."""

    def __init__(
        self, chain: ProviderChain, budget: CallBudget, *, until: float | None = None, owns_chain: bool = False
    ) -> None:
        self.chain, self.budget, self.until = chain, budget, until
        self._owns_chain = owns_chain
        self.tally = RunTally()
        self.stop_reason: str | None = None
        self.on_stop: Callable[[], None] = lambda: None
        self._paused_until = 0.0

    def stop(self, reason: str, seconds: float | None = None) -> None:
        """Ask providers no more, because of this code: until the end of the run, or for so many seconds in a run that
        goes on."""
        self.stop_reason = reason
        self._paused_until = time.monotonic() + (self.pause_seconds if seconds is None else seconds)
        self.on_stop()

    @property
    def stopped(self) -> bool:
        if self.stop_reason is None:
            return False
        if self.until is not None and time.monotonic() >= self._paused_until:
            self.stop_reason = None
            return False
        return True

    @property
    def pause_seconds(self) -> float:
        """How long requests wait that this run does not try."""
        return PAUSE_SECONDS if self.until is None else max(self.until - time.monotonic(), 1.0)

    @property
    def remaining_pause(self) -> float:
        return max(self._paused_until - time.monotonic(), 1.0)

    def close(self) -> None:
        """Close the providers that were opened for this run."""
        if self._owns_chain:
            self.chain.close()


class BatchBudget(CallBudget):
    """The budget of a run, as one batch spends it. A cancelled batch makes no further call: its thread can't be
    stopped, and its answers would be written nowhere."""

    def __init__(self, run: CallBudget) -> None:
        super().__init__(run.calls)
        self._run, self.cancelled = run, False

    @property
    def run(self) -> CallBudget:
        return self._run

    @property
    def spent(self) -> int:
        return self._run.spent

    @property
    def left(self) -> int:
        return 0 if self.cancelled else self._run.left

    def spend(self) -> None:
        if self.cancelled:
            raise BudgetSpent("the batch was cancelled")
        self._run.spend()


CURRENT_RUN: ContextVar[RunInProgress | None] = ContextVar("companies_run", default=None)
"""The run whose worker calls the handler. Tasks inherit it."""


class StandingRuns:
    """The runs of a worker that never ends, one after another."""

    def __init__(self, begin: "Callable[[float], RunInProgress]") -> None:
        self._begin = begin
        self._run: RunInProgress | None = None

    def current(self) -> RunInProgress:
        """Return the run of this hour. A new one opens the providers anew: one that was off is asked again."""
        if self._run is None or (self._run.until or 0.0) <= time.monotonic():
            self.close()
            self._run = self._begin(time.monotonic() + STANDING_SECONDS)
        return self._run

    def close(self) -> None:
        if self._run is not None:
            self._run.close()
            self._run = None


def begin_run(
    settings: CompaniesSettings, providers: Sequence[CompanyProvider] | OpenProviders, *, until: float | None = None
) -> RunInProgress:
    """Return a new run, with all of its calls left."""
    opened = providers() if callable(providers) else providers
    chain = ProviderChain(opened, accept_score=settings.accept_score, accept_gap=settings.accept_gap)
    return RunInProgress(chain, CallBudget(settings.eqc_run_budget), until=until, owns_chain=callable(providers))
