"""Process the queue of names once: what a schedule, a sensor or a person starts."""

import asyncio
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, TypedDict

import sqlalchemy as sa

import rowmill as rm
from rowmill.worker import Report
from rowmill_systems.companies.companies import Companies
from rowmill_systems.companies.lookup_queue import CAP, LookupQueue, QueueStats
from rowmill_systems.companies.runs import CURRENT_RUN, RunInProgress
from rowmill_systems.companies.settings import BACKLOG_WARNING, CompaniesSettings
from rowmill_systems.companies.sweeping import SweepReport, sweep_targets
from rowmill_systems.companies.temp_id_filling import fill_temp_ids
from rowmill_systems.parts.clock import now

RUN_FINISHED = "Enrichment queue processed"
RUN_PLANNED = "Enrichment queue planned"


@dataclass(frozen=True, slots=True)
class LookupRun:
    """What a run of the queue did; with `plan_only`, what it would do."""

    plan_only: bool = False
    processed: int = 0
    """Requests that were tried."""
    done: int = 0
    """Requests that got their company."""
    no_match: int = 0
    """Requests whose company nobody knows. They are `done`, without a company."""
    unsure: int = 0
    """Requests that a person has to decide. They are `done`, without a company."""
    retried: int = 0
    failed: int = 0
    postponed: int = 0
    """Requests that were put back at no cost: budget spent, provider off, asked to wait."""
    known: int = 0
    """Answers that were there already."""
    rescued: int = 0
    """Requests that an interrupted run had left in `processing`."""
    calls: int = 0
    """Calls to providers."""
    rows_written: int = 0
    """Rows of target tables that got a real id."""
    due: int = 0
    """In a plan: requests that a run would take now."""
    stale: int = 0
    """In a plan: requests that a run would put back first."""
    stop_reason: str | None = None
    """The code why the run ended before the queue was empty: budget_spent, provider_off, rate_limited."""
    pending_count: int = 0
    processing_count: int = 0
    done_count: int = 0
    failed_count: int = 0
    counts_exact: bool = True
    backlog_high: bool = False

    def as_dict(self) -> dict[str, object]:
        return asdict(self)


class QueueCounts(TypedDict):
    """The counts of the queue, as fields of a `LookupRun`."""

    pending_count: int
    processing_count: int
    done_count: int
    failed_count: int
    counts_exact: bool
    backlog_high: bool


class CompanyEnrichmentService:
    """Processes the queue of a database."""

    def __init__(self, companies: Companies) -> None:
        self.companies = companies

    @classmethod
    def from_settings(cls, settings: CompaniesSettings) -> "CompanyEnrichmentService":
        """Return a service of its own for the database of the settings."""
        return cls(Companies(settings))

    def process_lookup_queue(self, batch_size: int | None = None, plan_only: bool = False) -> LookupRun:
        """Answer what is due, until nothing is, the budget of calls is spent, or the provider is off.

        With `plan_only`, change nothing and say what would be done. For code without an event loop; inside one, await
        `process_queue`.
        """
        work = partial(self.process_queue, batch_size, plan_only)
        return self.companies.mill.run_blocking(work, "process_lookup_queue()", "await service.process_queue()")

    async def process_queue(self, batch_size: int | None = None, plan_only: bool = False) -> LookupRun:
        """`process_lookup_queue` for code in an event loop."""
        companies = self.companies
        if batch_size is not None and batch_size < 1:
            raise rm.errors.BadRequest(f"batch_size must be 1 or more, not {batch_size}")
        if plan_only:
            found = await companies.mill.run(self._plan, write=False)
            self._log(RUN_PLANNED, found)
            return found
        companies.set_batch_size(batch_size or companies.settings.enrichment_batch_size)
        async with companies.opened():
            return await self._run()

    async def _run(self) -> LookupRun:
        companies = self.companies
        run = companies.begin_run()
        if not run.chain.providers:
            raise rm.errors.BadRequest(
                "no provider is set up, so nobody can be asked. Set WDH_EQC_BASE_URL and WDH_EQC_TOKEN, or "
                "WDH_COMPANIES_FILE with WDH_PROVIDERS=file"
            )
        before = CURRENT_RUN.set(run)
        try:
            reset = await self._prepare()
            report = await companies.mill.drain(
                [companies.queue.name], begun=lambda worker: setattr(run, "on_stop", worker.stop)
            )
            swept = await self._sweep()
            stats = await companies.mill.run(self._stats, write=False)
        finally:
            CURRENT_RUN.reset(before)
            run.close()
        found = self._found(run, report, stats, swept, reset)
        self._log(RUN_FINISHED, found)
        return found

    async def _prepare(self) -> int:
        """Put back what runs of before left, as far as no worker of Rowmill had it: those are rescued by the drain."""
        companies = self.companies
        fill = partial(fill_temp_ids, tables=companies.tables, salts=companies.salts)
        while await companies.mill.run(fill):  # a transaction for each batch: it may be a whole table
            pass
        return await companies.mill.run(lambda c: self._queue(c).reset_stale_processing(of_workers=False))

    async def _sweep(self) -> SweepReport:
        companies = self.companies

        def targets(connection: sa.Connection) -> bool:
            return connection.scalar(sa.select(sa.exists().select_from(companies.tables.targets))) or False

        if not await companies.mill.run(targets, write=False):
            return SweepReport()
        return await asyncio.to_thread(sweep_targets, companies)

    def _found(
        self, run: RunInProgress, report: Report, stats: QueueStats, swept: SweepReport, reset: int
    ) -> LookupRun:
        tally = run.tally
        retried, failed = report.settled.get("again", 0), report.dead
        return LookupRun(
            processed=tally.done + tally.no_match + tally.unsure + retried + failed,
            done=tally.done, no_match=tally.no_match, unsure=tally.unsure, known=tally.known,
            retried=retried, failed=failed, postponed=report.settled.get("park", 0), rescued=reset + report.rescued,
            calls=run.budget.spent, rows_written=tally.rows_written + swept.rows, stop_reason=run.stop_reason,
            **self._counts(stats),
        )  # fmt: skip

    def _counts(self, stats: QueueStats) -> "QueueCounts":
        return {
            "pending_count": stats.pending,
            "processing_count": stats.processing,
            "done_count": stats.done,
            "failed_count": stats.failed,
            "counts_exact": stats.exact,
            "backlog_high": stats.pending > self.companies.settings.enrichment_queue_warning_threshold,
        }

    def _queue(self, connection: sa.Connection) -> LookupQueue:
        return LookupQueue(connection, self.companies.settings, salts=self.companies.salts)

    def _stats(self, connection: sa.Connection) -> QueueStats:
        enough = max(CAP, self.companies.settings.enrichment_queue_warning_threshold)
        return self._queue(connection).get_queue_stats(at_most=enough)

    # served by: the claim index, and the index on running requests
    def _plan(self, connection: sa.Connection) -> LookupRun:
        c, dialect = self.companies.tables.requests.c, connection.dialect.name
        due = int(self._queue(connection).get_due_depth())
        is_stale = sa.and_(
            c.status == sa.literal_column("'processing'"),
            c.updated_at < now(dialect, -60.0 * self.companies.settings.enrichment_stale_minutes),
            sa.or_(c.lease.is_(None), c.lease < 0, c.leased_until < now(dialect)),
        )
        stale = connection.scalar(sa.select(sa.func.count()).select_from(sa.select(c.id).where(is_stale).subquery()))
        return LookupRun(plan_only=True, due=due, stale=stale or 0, **self._counts(self._stats(connection)))

    def _log(self, event: str, run: LookupRun) -> None:
        """Log the counts. No name is among them."""
        log = self.companies.log
        log.info(
            event,
            pending=run.pending_count, processing=run.processing_count, done=run.done_count, failed=run.failed_count,
            processed=run.processed, resolved=run.done, no_match=run.no_match, unsure=run.unsure, retried=run.retried,
            calls=run.calls, stop_reason=run.stop_reason,
        )  # fmt: skip
        if run.backlog_high:
            threshold = self.companies.settings.enrichment_queue_warning_threshold
            log.warning(BACKLOG_WARNING, pending=run.pending_count, threshold=threshold)

    def requeue_failed(self, *, error_code: str | None = None, where: "sa.ColumnElement[bool] | None" = None) -> int:
        """Put failed requests back, all or by a filter, with attempts at zero. Return how many.

        `error_code` is what `last_error` begins with; `where` a condition over the columns of `enrichment_requests`.
        """
        chosen: dict[str, Any] = {"state": "failed"}
        if error_code is not None:
            chosen["error_code"] = error_code
        if where is not None:
            chosen["where"] = where
        return self.companies.queue.requeue_sync(**chosen)
