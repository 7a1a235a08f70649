"""A reconciliation of a mill: what an application declares and runs."""

import asyncio

from sqlalchemy import Connection

from rowmill.mill_port import MillPort
from rowmill.reconcile import runs
from rowmill.reconcile.declaration import Progress, ReconciliationSpec
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

    async def run(self, *, execute: bool = False, progress: Progress | None = None) -> Reconciled:
        """Compare everything once. Return a report.

        Without `execute`, nothing is written: it is a plan. With it, findings are recorded and corrected, and resolved
        ones are closed. Raises ReconciliationBusy while another process executes it, and InventoryError if an inventory
        is not in order.
        """
        async with self._mill.opened() as store:
            with reachable(self._mill.url):
                await store.run(schema.check_version, write=False)
                run = Run(self.declared, store, self._mill.events, progress)
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

    def __repr__(self) -> str:
        return f"<Reconciliation {self.name}>"
