"""What a provider is asked, and what it answers. One conformance suite holds all of them to it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import rowmill as rm
from rowmill_systems.parts.values import storable

LONGEST_NAME = 500
"""Characters of a name that is looked up. Registers know of no longer ones."""
SpendCall = Callable[[], None]
"""Called by a provider before each request to its service. Raises `BudgetSpent` if the run has no calls left."""


@dataclass(frozen=True, slots=True)
class CompanyCandidate:
    """A company that may be meant by a name."""

    company_id: str
    name: str
    other_names: tuple[str, ...] = ()
    """Former names, translations, trade names."""
    provider_score: float | None = None
    """What the provider says of the match, from 0 to 1. Whether it is accepted is decided by the names."""
    details: Mapping[str, str] = field(default_factory=dict)
    """For a person who decides: address, register number, status."""


Answer = Sequence[CompanyCandidate] | rm.errors.WorkError
"""Candidates for a name, the best first; none: the provider knows no such company, which is an answer. An error: it
could not say."""


class BudgetSpent(rm.TransientError):
    """The run has no calls left. The name is not tried, and costs no attempt."""

    code = "budget_spent"

    def __init__(self, message: str = "", *, retry_after: float | None = None) -> None:
        """`retry_after` is in how many seconds there are calls again, if that is known."""
        super().__init__(message)
        self.retry_after = retry_after


class CallNotCounted(rm.TransientError):
    """The database could not count a call, so it was not made. The name costs no attempt."""

    code = "call_not_counted"

    def __init__(self, message: str = "", *, retry_after: float) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class ProviderOff(rm.TransientError):
    """The provider refused our token in this run: it is not asked again before the next one."""

    code = "provider_off"


class ProviderClosed(rm.TransientError):
    """The provider was closed. Open a new one."""

    code = "provider_closed"


class NameUnusable(rm.PermanentError):
    """The name can't be looked up: it is blank, or longer than any name of a company."""

    code = "name_unusable"


def usable_name(name: str) -> str:
    """Return a name as it is sent: in one line, without what no service stores. Raises NameUnusable."""
    if len(name) > LONGEST_NAME * 4:  # mostly spaces, or no name at all
        raise NameUnusable(f"the name has {len(name):,} characters", code="name_too_long")
    text = " ".join(str(storable(name)).split())
    if not text:
        raise NameUnusable("the name is blank", code="blank_name")
    if len(text) > LONGEST_NAME:
        raise NameUnusable(f"the name has more than {LONGEST_NAME} characters", code="name_too_long")
    return text


class CompanyProvider(Protocol):
    """A source of companies. Thread-safe: several batches may be looked up at once."""

    name: str
    """A short word: stored as the source of what it answers."""
    batch_size: int
    """How many names one request carries, at most."""

    def search(self, names: Sequence[str], spend: SpendCall) -> Sequence[Answer]:
        """Look up to `batch_size` names up, in one request. Return an answer for each, in their order.

        `names` are as people wrote them. `spend` is called before every request. Raises nothing but what `spend`
        raises; no result is taken without a look at its name.
        """

    def close(self) -> None:
        """Release connections. Idempotent."""


@runtime_checkable
class RunAware(Protocol):
    """A provider that remembers something for the length of a run, such as a token that was refused."""

    def begin_run(self) -> None:
        """Forget what held for the run before. `ProviderChain` calls it when it sees a budget for the first time."""


@runtime_checkable
class ConcurrentProvider(Protocol):
    """A provider that may be asked by several threads of one lookup at once."""

    concurrency: int
    """How many requests of one lookup may be under way."""
