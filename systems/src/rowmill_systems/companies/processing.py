"""Look the names of a batch of requests up, and write all that follows from the answers in one transaction."""

import asyncio
import random
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

import rowmill as rm
from rowmill_systems.companies.known_answers import known_answers
from rowmill_systems.companies.lookup import SEVERAL, LookupDecision, LookupOutcome
from rowmill_systems.companies.mappings import CachedAnswer, CompanyMappingRepository, batched
from rowmill_systems.companies.providers.port import BudgetSpent, CallNotCounted, ProviderClosed, ProviderOff
from rowmill_systems.companies.reviews import record_review
from rowmill_systems.companies.runs import CURRENT_RUN, PAUSE_SECONDS, BatchBudget, RunInProgress
from rowmill_systems.companies.settings import CompaniesSettings
from rowmill_systems.companies.write_back import ResolvedName, write_back

if TYPE_CHECKING:
    from rowmill_systems.companies.companies import Companies

NAMES_AT_ONCE = 10
"""Names whose answers are stored together: as many paid answers a killed process may lose, at the most. A provider that
takes more names in one call is asked for that many."""
SPREAD_SECONDS = 60.0
"""Over how long names come back that wait for the calls of the next hour."""
BLANK = "blank_name"
LOOKUP_CRASHED = "lookup_crashed"
NO_PROVIDER = "no_provider"
COSTS_NOTHING = (
    rm.RateLimited, rm.errors.ProviderRefused, rm.errors.Limited, ProviderOff, BudgetSpent, CallNotCounted,
    ProviderClosed,
)  # fmt: skip
"""Errors that say nothing of the name: no attempt is spent. All others cost one."""


@dataclass(frozen=True, slots=True)
class AnsweredRequest:
    """A request with its answer."""

    lease: rm.Lease[rm.Record]
    decision: LookupDecision
    known: bool
    """Whether the answer was there already."""


def handle(companies: "Companies", batch_size: int) -> None:
    """Register the handler of requests. Again with another size: the next worker takes that one."""

    @companies.queue.batch_handler(size=batch_size)
    async def look_up_requests(batch: rm.Batch[rm.Record]) -> None:
        await process_batch(companies, batch)


async def process_batch(companies: "Companies", batch: rm.Batch[rm.Record]) -> None:
    """Answer requests. Those whose lease is gone by then are somebody else's, and nothing is written for them."""
    run = CURRENT_RUN.get()
    with companies.standing.current() if run is None else nullcontext(run) as used:
        await _process(companies, batch, used)


async def _process(companies: "Companies", batch: rm.Batch[rm.Record], run: RunInProgress) -> None:
    names = [lease.row.normalized_name for lease in batch if lease.row.normalized_name]
    known = await companies.mill.run(partial(_known, settings=companies.settings, names=names), write=False)
    asked = [lease for lease in batch if lease.row.normalized_name and lease.row.normalized_name not in known]
    decisions = await _ask(companies, run, asked)
    answered = [
        AnsweredRequest(lease, known[lease.row.normalized_name], known=True)
        for lease in batch
        if lease.row.normalized_name in known
    ]
    answered += [AnsweredRequest(*pair, known=False) for pair in zip(asked, decisions, strict=True)]
    _stop_if_useless(run, decisions)
    outcomes: dict[Any, rm.Outcome] = {lease.key: rm.Dead(BLANK) for lease in batch if not lease.row.normalized_name}
    outcomes |= {each.lease.key: outcome_of(each, run, companies.salts.temp_id) for each in answered}
    async with batch.settling(outcomes) as tx:
        ours = {lease.key for lease in tx.leases}
        for lost in tx.lost:
            outcomes.pop(lost.key, None)
        mine = [each for each in answered if each.lease.key in ours]
        connection = await tx.connection()
        written = await connection.run_sync(record_answers, companies, mine)
    _count(run, mine)
    run.tally.rows_written += written


async def _ask(
    companies: "Companies", run: RunInProgress, leases: Sequence[rm.Lease[rm.Record]]
) -> list[LookupDecision]:
    """Look names up, and store the answers as they come: whoever takes the requests of a killed process finds them."""
    decisions: list[LookupDecision] = []
    at_once = max(NAMES_AT_ONCE, min((each.batch_size for each in run.chain.providers), default=1))
    for some in batched(leases, at_once):
        found = await _ask_for(run, some)
        decisions += found
        answers = [
            CachedAnswer(
                lease.row.normalized_name,
                decision.company_id,
                decision.provider or SEVERAL,
                1.0 if decision.confidence is None else decision.confidence,
            )
            for lease, decision in zip(some, found, strict=True)
            if decision.outcome in (LookupOutcome.ACCEPTED, LookupOutcome.NO_MATCH)
        ]
        if answers:
            await companies.mill.run(partial(_cache, settings=companies.settings, answers=answers))
    return decisions


def _known(connection: sa.Connection, settings: CompaniesSettings, names: Sequence[str]) -> dict[str, LookupDecision]:
    return known_answers(CompanyMappingRepository(connection, settings), names)


def _cache(connection: sa.Connection, settings: CompaniesSettings, answers: Sequence[CachedAnswer]) -> None:
    CompanyMappingRepository(connection, settings).cache_answers(answers)


async def _ask_for(run: RunInProgress, leases: Sequence[rm.Lease[rm.Record]]) -> list[LookupDecision]:
    """Look names up in a thread. Whatever happens there, each name gets a decision."""
    if not run.chain.providers:
        run.stop(NO_PROVIDER)
    if run.stopped:
        return [_postponed(run) for _ in leases]
    budget = BatchBudget(run.budget)
    names = [lease.row.raw_name for lease in leases]
    try:
        decisions = await asyncio.to_thread(run.chain.look_up, names, budget)
    except asyncio.CancelledError:
        budget.cancelled = True
        raise
    except Exception as error:
        # Its text may have a name in it.
        crashed = rm.TransientError(code=f"{LOOKUP_CRASHED}_{type(error).__name__}")
        return [LookupDecision(LookupOutcome.FAILED, error=crashed)] * len(leases)
    if len(decisions) != len(leases):
        crashed = rm.TransientError(code=f"{LOOKUP_CRASHED}_count")
        return [LookupDecision(LookupOutcome.FAILED, error=crashed)] * len(leases)
    return list(decisions)


def _postponed(run: RunInProgress) -> LookupDecision:
    """Return the decision for a name that nobody is asked for, because the run is stopped.

    Once the calls of an hour are spent, it waits for the next hour: a large backlog would be taken and put back every
    minute. Not all of it comes back at the same moment.
    """
    reason, wait = run.stop_reason or "", run.remaining_pause
    if reason == BudgetSpent.code:
        wait += random.uniform(0, SPREAD_SECONDS)
    else:
        wait = min(wait, PAUSE_SECONDS)
    return LookupDecision(LookupOutcome.FAILED, error=rm.RateLimited(code=reason, retry_after=wait))


def _stop_if_useless(run: RunInProgress, decisions: Sequence[LookupDecision]) -> None:
    """End the run when its budget is spent or its provider is off, or when everything of a batch was refused for now:
    another batch would only make more calls in vain."""
    errors = [decision.error for decision in decisions if decision.outcome is LookupOutcome.FAILED]
    for error in errors:
        if isinstance(error, (BudgetSpent, ProviderOff)):
            run.stop(error.code, getattr(error, "retry_after", None))
            return
    if errors and len(errors) == len(decisions) and all(isinstance(error, COSTS_NOTHING) for error in errors):
        first = errors[0]
        if first is not None and not run.stopped:
            run.stop(first.code, getattr(first, "retry_after", None))


def outcome_of(answered: AnsweredRequest, run: RunInProgress, temp_id: Callable[[str], str]) -> rm.Outcome:
    """Return what becomes of a request.

    "No match" and "unsure" are answers: the request is done, without a company. The rows keep the temporary id.
    """
    decision, row = answered.decision, answered.lease.row
    if decision.outcome is LookupOutcome.FAILED:
        return outcome_of_failure(decision.error, run)
    return rm.Done(
        {
            "outcome": decision.outcome.value,
            "resolved_company_id": decision.company_id if decision.outcome is LookupOutcome.ACCEPTED else None,
            "resolved_by": decision.provider,
            "confidence": decision.confidence,
            "temp_id": row.temp_id or temp_id(row.normalized_name),
        }
    )


def outcome_of_failure(error: rm.errors.WorkError | None, run: RunInProgress) -> rm.RetryLater | rm.Dead:
    """Return when to try again. Only the code is kept: the text of an error may have a name in it."""
    if error is None:
        return rm.RetryLater(code="lookup_failed")
    if isinstance(error, COSTS_NOTHING):
        after = getattr(error, "retry_after", None)
        return rm.RetryLater(run.pause_seconds if after is None else after, error.code, count_attempt=False)
    return rm.RetryLater(code=error.code) if error.retryable else rm.Dead(error.code)


def record_answers(connection: sa.Connection, companies: "Companies", answered: Sequence[AnsweredRequest]) -> int:
    """Write what follows from answers: reviews, real ids in targets, callbacks. Return the rows of targets that were
    written."""
    resolutions: list[ResolvedName] = []
    replacements: dict[str, str] = {}
    for each in answered:
        decision, row = each.decision, each.lease.row
        if decision.outcome is LookupOutcome.UNSURE and not each.known:
            record_review(
                connection, companies.tables,
                normalized_name=row.normalized_name, raw_name=row.raw_name, decision=decision,
            )  # fmt: skip
        if decision.outcome is LookupOutcome.ACCEPTED and decision.company_id is not None:
            ids = companies.salts.temp_ids(row.normalized_name, row.temp_id)
            replacements |= dict.fromkeys(ids, decision.company_id)
            resolutions.append(
                ResolvedName(
                    row.id, row.raw_name, row.normalized_name, row.temp_id, decision.company_id, decision.provider,
                    decision.confidence, None,
                )
            )  # fmt: skip
    companies.call_back(connection, resolutions)
    return write_back(connection, companies.tables, replacements, companies.log).rows


def _count(run: RunInProgress, answered: Sequence[AnsweredRequest]) -> None:
    tally = run.tally
    for each in answered:
        tally.known += each.known
        match each.decision.outcome:
            case LookupOutcome.ACCEPTED:
                tally.done += 1
            case LookupOutcome.NO_MATCH:
                tally.no_match += 1
            case LookupOutcome.UNSURE:
                tally.unsure += 1
            case LookupOutcome.FAILED:
                pass
