"""A run: one pass over the inventories, a second look at the suspects, then findings, page by page.

Nothing is written before the pass is over. An inventory that turns out to be out of order, or to have given too few
things, may be wrong about keys that were passed long ago.
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
from rowmill.reconcile.desk import FindingsPlan, FindingsWriter
from rowmill.reconcile.merge import Pass, Suspect
from rowmill.reconcile.recheck import look_again
from rowmill.reconcile.report import Finding, Reconciled
from rowmill.reconcile.rules import RunClock
from rowmill.reconcile.spool import Spool
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
        """Look, and say what would be done."""
        report = Reconciled(self._declared.name, False, await self._store.run(runs.now, write=False))
        corrector = Corrector(self._declared.correct, self._events, self._declared.name)
        await self._look(report, FindingsPlan(self._declared, self._store, report, corrector))
        report.ended_at = await self._store.run(runs.now, write=False)
        return report

    async def execute(self) -> Reconciled:
        """Look, write down, correct, close."""
        number, started = await self._begin()
        report = Reconciled(self._declared.name, True, started, number)
        corrector = Corrector(self._declared.correct, self._events, self._declared.name)
        desk = FindingsWriter(self._declared, self._store, report, corrector)
        desk.run = number
        try:
            async with self._held(number):
                await self._look(report, desk)
                spoiled = {one.inventory for one in report.spoiled}
                # What a spoiled inventory did not show is not mended.
                await desk.close([one.kind for one in self._declared.rules if not spoiled.intersection(one.involved)])
        except BaseException as error:
            await self._failed(number, report, code_of(error))
            raise
        report.ended_at = await self._store.run(partial(self._end, number=number, report=report))
        self._tell(report)
        return report

    async def _begin(self) -> tuple[int, datetime]:
        name, lease = self._declared.name, self._declared.lease

        def work(connection: Connection) -> tuple[int | None, datetime, list[runs.RunView]]:
            number = runs.begin(connection, name, lease)
            return number, runs.now(connection), runs.history(connection, name, 1)

        number, started, last = await self._store.run(work)
        if number is None:
            by = f" by process {last[0].pid} on {last[0].host}, since {last[0].started_at}" if last else ""
            raise ReconciliationBusy(f"reconciliation {name} is being run{by}. One run at a time: try again after it")
        return number, started

    @asynccontextmanager
    async def _held(self, number: int) -> AsyncIterator[None]:
        """Hold the run while it goes on. That it was lost is noticed by whoever writes."""

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

    async def _look(self, report: Reconciled, desk: FindingsPlan) -> None:
        declared, clock = self._declared, self._declared.clock(report.started_at)
        with Spool() as spool:
            going = Pass(declared.inventories, declared.rules, clock, spool.add, self._progress)
            observed = await going.run(self._store)
            report.observed = observed.counts
            for one in observed.spoiled:
                report.spoil(one)
            for page in spool.pages():
                worth = [one for one in page if not observed.unfounded.intersection(declared.rules[one.rule].absent)]
                report.unfounded += len(page) - len(worth)
                await self._page(worth, clock, report, desk)
        for spoiled in report.spoiled:
            self._events.inventory_unreadable(declared.name, spoiled.inventory, spoiled.code, spoiled.upto)

    async def _page(self, suspects: list[Suspect], clock: RunClock, report: Reconciled, desk: FindingsPlan) -> None:
        declared = self._declared
        in_flight = [one for one in suspects if one.in_flight]
        standing = [one for one in suspects if not one.in_flight]
        if declared.recheck:
            looked = await look_again(self._store, declared.inventories, declared.rules, clock, standing)
            standing, in_flight = looked.standing, in_flight + looked.in_flight
            report.cleared += looked.cleared
            report.unfounded += looked.unseen
            for spoiled in looked.spoiled:
                report.spoil(spoiled)
        report.in_flight += len(in_flight)
        for finding in await desk.take([self._finding(one, clock) for one in standing], in_flight):
            if report.executed and report.drift < LOGGED:
                self._events.finding(declared.name, finding.told())
            report.count(finding)

    def _finding(self, suspect: Suspect, clock: RunClock) -> Finding:
        rule = self._declared.rules[suspect.rule]
        times = {name: clock.time_of(name, facts) for name, facts in suspect.here.items()}
        return Finding(rule.kind, suspect.key, rule.present, rule.absent, times, suspect.here)

    def _end(self, connection: Connection, number: int, report: Reconciled) -> datetime:
        told = [{"inventory": one.inventory, "code": one.code, "upto": one.upto} for one in report.spoiled]
        ended = runs.end(
            connection, number, report.outcome, findings=report.drift, remaining=report.remaining,
            closed=report.closed, kinds=report.counts, spoiled=told,
        )  # fmt: skip
        if not ended:
            raise ReconciliationBusy(f"this run of reconciliation {self._declared.name} was taken over by another")
        return runs.now(connection)

    async def _failed(self, number: int, report: Reconciled, code: str) -> None:
        """Say so in the history, so that the next run need not wait. Without a database, its lease will."""
        told = [{"inventory": "", "code": code, "upto": None}]
        with suppress(Disconnected, DBAPIError, TimeoutError):
            async with asyncio.timeout(SIGN_OFF_SECONDS):
                await self._store.run(
                    lambda c: runs.end(c, number, "failed", findings=report.drift, kinds=report.counts, spoiled=told)
                )

    def _tell(self, report: Reconciled) -> None:
        declared, ended = self._declared, report.ended_at or report.started_at
        self._events.reconciled(
            declared.name, run=report.run, drift=report.drift, kinds=report.counts, new=report.new,
            corrected=report.corrected, remaining=report.remaining, closed=report.closed,
            spoiled=[one.inventory for one in report.spoiled],
            seconds=round((ended - report.started_at).total_seconds(), 3),
        )  # fmt: skip
        if report.drift > declared.alert_above:
            self._events.alert(
                ALERT, "ERROR", reconciliation=declared.name, drift=report.drift, kinds=report.counts
            )  # fmt: skip
