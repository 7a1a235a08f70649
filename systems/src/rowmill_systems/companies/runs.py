"""A run: the providers, the calls that it may make, and what it did."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

import sqlalchemy as sa

import rowmill as rm
from rowmill_systems.companies.lookup import CallBudget, ProviderChain
from rowmill_systems.companies.providers.port import BudgetSpent, CallNotCounted, CompanyProvider
from rowmill_systems.companies.settings import CompaniesSettings

OpenProviders = Callable[[], Sequence[CompanyProvider]]
"""Opens the providers of a run, which closes them. Providers that are given as a list stay open."""

PAUSE_SECONDS = 60.0
"""How long requests wait that a run could not try. The next run finds them due."""
FLEET_LIMIT = "companies_calls"
STANDING_SECONDS = 3600.0
"""A worker that never ends begins a new run every hour, as often as the schedule does."""


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


class FleetBudget(CallBudget):
    """The calls that all continuous workers of a database may make in an hour. The database counts them."""

    def __init__(self, calls: int, limit: rm.limits.Limit | None) -> None:
        super().__init__(calls)
        self._limit = limit

    def spend(self) -> None:
        """Count one call. Raises BudgetSpent if this hour has none left, and CallNotCounted if the database does not
        answer. Call it from a thread."""
        if self._limit is None:
            super().spend()
            return
        try:
            with self._limit.call():
                pass
        except rm.errors.Limited as error:
            raise BudgetSpent(f"all {self.calls} calls of this hour are spent", retry_after=error.retry_after) from None
        except rm.errors.WorkError:
            raise
        except (rm.RowmillError, sa.exc.SQLAlchemyError, OSError) as error:
            reason = f"the database could not count a call: {type(error).__name__}"
            raise CallNotCounted(reason, retry_after=PAUSE_SECONDS) from None
        with self._lock:
            self._spent += 1


def declare_fleet_limit(mill: rm.Mill, calls: int) -> rm.limits.Limit | None:
    """Declare the limit that continuous workers share. None: there are no calls to share."""
    if calls < 1:
        return None
    # What a killed process had taken counts: its call may have been made.
    budget = rm.limits.Budget(calls, per="hour", crashed="spent")
    return mill.limit(FLEET_LIMIT, budget=budget, breaker=None)


CURRENT_RUN: ContextVar[RunInProgress | None] = ContextVar("companies_run", default=None)
"""The run whose worker calls the handler. Tasks inherit it."""


class StandingRuns:
    """The runs of a worker that never ends, one after another. Thread-safe."""

    def __init__(self, begin: "Callable[[float], RunInProgress]") -> None:
        self._begin = begin
        self._run: RunInProgress | None = None
        self._users = Counter[RunInProgress]()
        self._lock = threading.Lock()

    @contextmanager
    def current(self) -> Iterator[RunInProgress]:
        """Use the run of this hour. A new one opens the providers anew: one that was off is asked again.

        A run whose hour is over stays open until everybody who uses it is done: a batch ends with the providers that it
        began with.
        """
        with self._lock:
            if self._run is None or (self._run.until or 0.0) <= time.monotonic():
                self._retire()
                self._run = self._begin(time.monotonic() + STANDING_SECONDS)
            run = self._run
            self._users[run] += 1
        try:
            yield run
        finally:
            with self._lock:
                self._users[run] -= 1
                if not self._users[run]:
                    del self._users[run]
                    if run is not self._run:
                        run.close()

    def close(self) -> None:
        with self._lock:
            self._retire()

    def _retire(self) -> None:
        run, self._run = self._run, None
        if run is not None and not self._users[run]:
            run.close()


def begin_run(
    settings: CompaniesSettings,
    providers: Sequence[CompanyProvider] | OpenProviders,
    *,
    budget: CallBudget | None = None,
    until: float | None = None,
) -> RunInProgress:
    """Return a new run, with all of its calls left. `budget` is its own, unless given."""
    opened = providers() if callable(providers) else providers
    chain = ProviderChain(opened, accept_score=settings.accept_score, accept_gap=settings.accept_gap)
    spent = CallBudget(settings.eqc_run_budget) if budget is None else budget
    return RunInProgress(chain, spent, until=until, owns_chain=callable(providers))
