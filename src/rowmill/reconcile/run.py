"""A run: one pass over the inventories, a second look at suspects, then findings, page by page.

Nothing is written before the pass is over. An inventory that turns out to be unsorted, or to have returned too few
items, may be wrong about keys that were passed long ago.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from functools import partial

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from rowmill.model.errors import ReconciliationBusy, code_of
from rowmill.observe.events import Events
from rowmill.reconcile import runs
from rowmill.reconcile.correct import Corrector
from rowmill.reconcile.declaration import Progress, ReconciliationSpec
from rowmill.reconcile.findings_writer import FindingsPlan, FindingsWriter
from rowmill.reconcile.merge import Pass, Suspect
from rowmill.reconcile.recheck import recheck
from rowmill.reconcile.report import Finding, Reconciled
from rowmill.reconcile.rules import RunClock
from rowmill.reconcile.spool import Spool
from rowmill.store.clock import database_now
from rowmill.store.port import Disconnected, Store

ALERT = "RECONCILIATION_DRIFT"
LOGGED = 1000
"""Findings that a run logs one by one."""
SIGN_OFF_SECONDS = 5.0


class Run:
    """One run of a reconciliation."""

    def __init__(self, declared: ReconciliationSpec, store: Store, events: Events, progress: Progress | None) -> None:
        self._declared = declared
        self._store = store
        self._events = events
        self._progress = progress

    async def plan(self) -> Reconciled:
        """Compare, and report what would be corrected."""
        report = Reconciled(self._declared.name, False, await self._store.run(database_now, write=False))
        corrector = Corrector(self._declared.correct, self._events, self._declared.name)
        await self._compare(report, FindingsPlan(self._declared, self._store, report, corrector))
        report.ended_at = await self._store.run(database_now, write=False)
        return report

    async def execute(self) -> Reconciled:
        """Compare, record findings, correct them, and close resolved ones."""
        number, started = await self._begin()
        report = Reconciled(self._declared.name, True, started, number)
        corrector = Corrector(self._declared.correct, self._events, self._declared.name)
        writer = FindingsWriter(self._declared, self._store, report, corrector)
        writer.run = number
        try:
            async with self._held(number):
                await self._compare(report, writer)
                unreadable = {one.inventory for one in report.unreadable}
                # A finding is not resolved because an unreadable inventory did not list it.
                await writer.close(
                    [one.kind for one in self._declared.rules if not unreadable.intersection(one.involved)]
                )
        except BaseException as error:
            await self._failed(number, report, code_of(error))
            raise
        report.ended_at = await self._store.run(partial(self._end, number=number, report=report))
        self._emit(report)
        return report

    async def _begin(self) -> tuple[int, datetime]:
        name, lease = self._declared.name, self._declared.lease

        def work(connection: Connection) -> tuple[int | None, datetime, list[runs.RunView]]:
            number = runs.begin(connection, name, lease)
            return number, database_now(connection), runs.history(connection, name, 1)

        number, started, last = await self._store.run(work)
        if number is None:
            by = f" by process {last[0].pid} on {last[0].host}, since {last[0].started_at}" if last else ""
            raise ReconciliationBusy(f"reconciliation {name} is being run{by}. One run at a time: try again after it")
        return number, started

    @asynccontextmanager
    async def _held(self, number: int) -> AsyncIterator[None]:
        """Renew the run's lease in the background. A lost lease is detected by the next transaction that writes."""

        async def renew() -> None:
            while True:
                await asyncio.sleep(self._declared.lease / 3)
                with suppress(Disconnected, DBAPIError):
                    if not await self._store.run(lambda c: runs.hold(c, number, self._declared.lease)):
                        return

        task = asyncio.create_task(renew(), name=f"rowmill holds reconciliation {self._declared.name}")
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def _compare(self, report: Reconciled, writer: FindingsPlan) -> None:
        declared, clock = self._declared, self._declared.clock(report.started_at)
        with Spool() as spool:
            going = Pass(declared.inventories, declared.rules, clock, spool.add, self._progress)
            observed = await going.run(self._store)
            report.observed = observed.counts
            for one in observed.unreadable:
                report.add_unreadable(one)
            for page in spool.pages():
                conclusive = [
                    one for one in page if not observed.inconclusive.intersection(declared.rules[one.rule].absent)
                ]
                report.inconclusive += len(page) - len(conclusive)
                await self._page(conclusive, clock, report, writer)
        for unreadable in report.unreadable:
            self._events.inventory_unreadable(declared.name, unreadable.inventory, unreadable.code, unreadable.upto)

    async def _page(self, suspects: list[Suspect], clock: RunClock, report: Reconciled, writer: FindingsPlan) -> None:
        declared = self._declared
        in_flight = [one for one in suspects if one.in_flight]
        standing = [one for one in suspects if not one.in_flight]
        if declared.recheck:
            rechecked = await recheck(self._store, declared.inventories, declared.rules, clock, standing)
            standing, in_flight = rechecked.standing, in_flight + rechecked.in_flight
            report.cleared += rechecked.cleared
            report.inconclusive += rechecked.unseen
            for unreadable in rechecked.unreadable:
                report.add_unreadable(unreadable)
        report.in_flight += len(in_flight)
        for finding in await writer.take([self._finding(one, clock) for one in standing], in_flight):
            if report.executed and report.drift < LOGGED:
                self._events.finding(declared.name, finding.as_log())
            report.count(finding)

    def _finding(self, suspect: Suspect, clock: RunClock) -> Finding:
        rule = self._declared.rules[suspect.rule]
        times = {name: clock.time_of(name, facts) for name, facts in suspect.here.items()}
        return Finding(rule.kind, suspect.key, rule.present, rule.absent, times, suspect.here)

    def _end(self, connection: Connection, number: int, report: Reconciled) -> datetime:
        listed = [{"inventory": one.inventory, "code": one.code, "upto": one.upto} for one in report.unreadable]
        ended = runs.end(
            connection, number, report.outcome, findings=report.drift, remaining=report.remaining,
            closed=report.closed, kinds=report.counts, unreadable=listed,
        )  # fmt: skip
        if not ended:
            raise ReconciliationBusy(f"this run of reconciliation {self._declared.name} was taken over by another")
        return database_now(connection)

    async def _failed(self, number: int, report: Reconciled, code: str) -> None:
        """Record that the run failed, so that the next one need not wait. Without a database connection, its lease
        expires."""
        listed = [{"inventory": "", "code": code, "upto": None}]
        with suppress(Disconnected, DBAPIError, TimeoutError):
            async with asyncio.timeout(SIGN_OFF_SECONDS):
                await self._store.run(
                    lambda c: runs.end(
                        c, number, "failed", findings=report.drift, kinds=report.counts, unreadable=listed
                    )
                )

    def _emit(self, report: Reconciled) -> None:
        declared, ended = self._declared, report.ended_at or report.started_at
        self._events.reconciled(
            declared.name, run=report.run, drift=report.drift, kinds=report.counts, new=report.new,
            corrected=report.corrected, remaining=report.remaining, closed=report.closed,
            unreadable=[one.inventory for one in report.unreadable],
            seconds=round((ended - report.started_at).total_seconds(), 3),
        )  # fmt: skip
        if report.drift > declared.alert_above:
            self._events.alert(
                ALERT, "ERROR", reconciliation=declared.name, drift=report.drift, kinds=report.counts
            )  # fmt: skip
