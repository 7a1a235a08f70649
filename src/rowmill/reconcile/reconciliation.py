"""A reconciliation of a mill: what an application declares and runs."""

import asyncio
from collections.abc import Collection

from sqlalchemy import Connection

from rowmill.mill_port import MillPort
from rowmill.model.errors import BadRequest
from rowmill.reconcile import findings, runs
from rowmill.reconcile.declaration import Progress, ReconciliationSpec
from rowmill.reconcile.findings import RecordedFinding
from rowmill.reconcile.report import Reconciled
from rowmill.reconcile.run import Run
from rowmill.reconcile.runs import RunView
from rowmill.store.open import reachable
from rowmill.store.own import schema


class Reconciliation:
    """Inventories of the same items, and rules about how they must agree."""

    def __init__(self, mill: MillPort, declared: ReconciliationSpec) -> None:
        self._mill = mill
        self.declared = declared

    @property
    def name(self) -> str:
        return self.declared.name

    async def run(
        self, *, execute: bool = False, only: Collection[str] | None = None, progress: Progress | None = None
    ) -> Reconciled:
        """Compare everything once. Return a report.

        Without `execute`, nothing is written: it is a plan. With it, findings are recorded and corrected, and resolved
        ones are closed. `only` limits a plan to these kinds of findings, and to the inventories that they need. Raises
        ReconciliationBusy while another process executes it, and InventoryError if an inventory is not in order.
        """
        if execute and only is not None:
            raise BadRequest("only=... is for plans: a run that is executed looks at everything")
        declared = self.declared if only is None else self.declared.only(only)
        async with self._mill.opened() as store:
            with reachable(self._mill.url):
                await store.run(schema.check_version, write=False)
                run = Run(declared, store, self._mill.events, progress)
                return await run.execute() if execute else await run.plan()

    def run_now(self, *, execute: bool = False) -> Reconciled:
        """`run` for code without a loop: cron jobs, Dagster ops, Celery tasks."""
        return asyncio.run(self.run(execute=execute))

    async def history(self, limit: int = 20) -> list[RunView]:
        """Return the last executed runs, newest first."""

        def work(connection: Connection) -> list[RunView]:
            schema.check_version(connection)
            return runs.history(connection, self.name, limit)

        async with self._mill.opened() as store:
            with reachable(self._mill.url):
                return await store.run(work, write=False)

    async def findings(
        self, kind: str | None = None, *, after: tuple[str, str] | None = None, limit: int = 100
    ) -> list[RecordedFinding]:
        """Return the findings that executed runs recorded and that are still open, by kind and key. `after` is the kind
        and the key that the page before ended with."""

        def work(connection: Connection) -> list[RecordedFinding]:
            schema.check_version(connection)
            return findings.recorded(connection, self.name, kind, after, limit)

        return await self._mill.run(work, write=False)

    def __repr__(self) -> str:
        return f"<Reconciliation {self.name}>"
