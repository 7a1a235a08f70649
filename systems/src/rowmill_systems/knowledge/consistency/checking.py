"""Compare the stores: what disagrees is reported, and mended by events where it can be."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

import rowmill as rm
from rowmill import reconcile
from rowmill_systems.knowledge.consistency.corrections import Corrections
from rowmill_systems.knowledge.consistency.database import database_inventory
from rowmill_systems.knowledge.consistency.kinds import KINDS_BY_NAME
from rowmill_systems.knowledge.consistency.rules import DATABASE, OBJECTS, VECTORS, rules
from rowmill_systems.knowledge.consistency.stores import BELIEVE_EMPTY, StoreInventories
from rowmill_systems.knowledge.events.failing import fail_documents_of_dead_events
from rowmill_systems.knowledge.logs import log_event

if TYPE_CHECKING:
    from rowmill_systems.knowledge.knowledge import Knowledge

NAME = "knowledge"
AGAIN_AFTER = rm.days(1)
"""A finding that is still open after this time is corrected once more: its event may be dead."""
CLEAN, UNREACHABLE, FINDINGS = 0, 3, 5
Progress = Callable[[int], None]
"""Called now and then with the number of items that were compared."""


class Consistency:
    """The comparison of the database and the two stores."""

    def __init__(self, knowledge: "Knowledge") -> None:
        self._knowledge = knowledge
        self._started_at: datetime | None = None
        stores, settings = StoreInventories(knowledge), knowledge.settings
        self.reconciliation = knowledge.mill.reconciliation(
            NAME,
            inventories={
                DATABASE: database_inventory(knowledge),
                VECTORS: stores.vectors(),
                OBJECTS: stores.objects(),
            },
            rules=rules(self._model_in_use),
            correct=Corrections(knowledge).by_kind(),
            cap=settings.reconcile_cap,
            alert_above=settings.alert_above,
            grace=settings.grace_seconds,
            again_after=AGAIN_AFTER,
        )

    def _model_in_use(self) -> tuple[str, int, datetime] | None:
        """Return the model of this process, if it was opened."""
        if self._started_at is None:
            return None
        return self._knowledge.embedder.name, self._knowledge.embedder.dimensions, self._started_at

    async def check(
        self, *, execute: bool, believe_empty: bool = False, only: Sequence[str] | None = None,
        progress: Progress | None = None,
    ) -> "ConsistencyReport":  # fmt: skip
        """Compare everything once. `believe_empty` says that a store that lists nothing has lost everything."""
        await self._open_model()
        token = BELIEVE_EMPTY.set(believe_empty)
        try:
            if execute:
                while await self._knowledge.mill.run(fail_documents_of_dead_events):
                    pass
            return ConsistencyReport(await self.reconciliation.run(execute=execute, only=only, progress=progress))
        finally:
            BELIEVE_EMPTY.reset(token)

    async def _open_model(self) -> None:
        """Open the model, to know its name. Without it, the stores are compared all the same."""
        self._started_at = None
        with suppress(LookupError, rm.errors.DeclarationError):
            await self._knowledge.open_embedder()
            self._started_at = self._knowledge.started_at


@dataclass(frozen=True, slots=True)
class ConsistencyReport:
    """What a comparison found and did."""

    run: reconcile.Reconciled

    @property
    def findings(self) -> int:
        return self.run.drift

    @property
    def unreachable(self) -> list[str]:
        """The stores that could not be read to their end. Nothing is concluded from what they did not list."""
        return [one.inventory for one in self.run.unreadable]

    @property
    def exit_code(self) -> int:
        """Return 3 if a store could not be read, 5 if there are findings, 0 if all is as it should be."""
        return UNREACHABLE if self.unreachable else FINDINGS if self.findings else CLEAN

    def as_dict(self) -> dict[str, Any]:
        """Return the report for JSON: counts, kinds, ids and times, no names."""
        run = self.run
        ended = run.ended_at
        return {
            "clean": self.exit_code == CLEAN,
            "executed": run.executed,
            "run": run.run,
            "started_at": run.started_at,
            "ended_at": ended,
            "compared": dict(run.observed),
            "findings": self.findings,
            "kinds": {
                name: {"count": count, "mending": KINDS_BY_NAME[name].mending.value}
                for name, count in sorted(run.counts.items())
            },
            "listed": [finding.as_log() for finding in run.findings],
            "in_flight": run.in_flight,
            "planned": run.planned,
            "corrected": run.corrected,
            "failed": run.failed,
            "remaining": run.remaining,
            "closed": run.closed,
            "unreachable": [
                {"store": one.inventory, "code": one.code, "upto": one.upto, "message": one.message}
                for one in run.unreadable
            ],
        }


async def check(
    knowledge: "Knowledge", *, execute: bool, believe_empty: bool = False, progress: Progress | None = None
) -> ConsistencyReport:
    """Compare the database and the stores once. Without `execute`, nothing is written.

    With it, findings are recorded, mended by events up to the cap, and closed once they are resolved. An empty store is
    unreadable if many documents should be in it, unless `believe_empty`. Raises ReconciliationBusy while another
    process executes it.
    """
    return await knowledge.consistency.check(execute=execute, believe_empty=believe_empty, progress=progress)


async def check_on_schedule(knowledge: "Knowledge") -> ConsistencyReport | None:
    """`check` for schedules: return None if another process does it just now."""
    try:
        return await check(knowledge, execute=True)
    except rm.errors.ReconciliationBusy:
        log_event("consistency.busy")
        return None


async def history(knowledge: "Knowledge", limit: int = 20) -> list[reconcile.RunView]:
    """Return the last executed comparisons with their findings by kind, newest first."""
    return await knowledge.consistency.reconciliation.history(limit)


async def open_findings(
    knowledge: "Knowledge", kind: str | None = None, *, after: tuple[str, str] | None = None, limit: int = 100
) -> list[reconcile.RecordedFinding]:
    """Return findings that are still open, by kind and key. `after` is what the page before ended with."""
    return await knowledge.consistency.reconciliation.findings(kind, after=after, limit=limit)
