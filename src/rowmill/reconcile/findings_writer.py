"""What happens to the findings of a run: planned only, or recorded and corrected."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from sqlalchemy import Connection

from rowmill.model.errors import ReconciliationBusy
from rowmill.reconcile import findings, runs
from rowmill.reconcile.correct import Corrector
from rowmill.reconcile.declaration import ReconciliationSpec
from rowmill.reconcile.findings import Name, NewFinding, OpenFinding
from rowmill.reconcile.item import key_text
from rowmill.reconcile.merge import Suspect
from rowmill.reconcile.report import Finding, Reconciled
from rowmill.store.port import Store


class FindingsPlan:
    """Counts what would be corrected. Reads which findings are open, and writes nothing."""

    def __init__(self, declared: ReconciliationSpec, store: Store, report: Reconciled, corrector: Corrector) -> None:
        self._declared = declared
        self._store = store
        self._report = report
        self._corrector = corrector
        self._left = declared.cap

    async def take(self, found: Sequence[Finding], in_flight: Sequence[Suspect]) -> list[Finding]:
        """Process one page of findings. Return them with what is stored about each."""
        known: dict[Name, OpenFinding] = {}
        for kind, keys in _by_kind((finding.kind, finding.text) for finding in found).items():
            look = partial(
                findings.open_findings,
                name=self._declared.name,
                kind=kind,
                keys=keys,
                again_after=self._declared.again_after,
            )
            known |= await self._store.run(look, write=False)
        complete = [_with(finding, known.get((finding.kind, finding.text))) for finding in found]
        due = [finding for finding in complete if _is_due(known.get((finding.kind, finding.text)))]
        chosen = self._choose(due)
        self._report.planned += len(chosen)
        return complete

    def _choose(self, due: Sequence[Finding]) -> list[Finding]:
        """Choose the findings to correct now, up to the cap. The others wait for the next run."""
        able = [finding for finding in due if self._corrector.of(finding.kind) is not None]
        chosen = able if self._left is None else able[: self._left]
        if self._left is not None:
            self._left -= len(chosen)
        self._report.remaining += len(able) - len(chosen)
        return chosen

    async def close(self, kinds: Sequence[str]) -> None:
        """Do nothing: a plan closes no findings."""


@dataclass(slots=True)
class PageResult:
    """The counts of one transaction. They are added to the report after its commit."""

    corrected: int = 0
    failed: int = 0


class FindingsWriter(FindingsPlan):
    """Records, corrects and closes findings. Each page is one transaction: the findings, their corrections, and the
    record of these."""

    run: int = 0

    async def take(self, found: Sequence[Finding], in_flight: Sequence[Suspect]) -> list[Finding]:
        declared, report, result = self._declared, self._report, PageResult()
        entries = {(one.kind, one.text): _new_finding(one) for one in found}
        in_flight_keys = _by_kind((declared.rules[one.rule].kind, key_text(one.key)) for one in in_flight)
        async with self._store.engine.begin() as tx:
            await tx.run_sync(self._hold)
            stored: dict[Name, OpenFinding] = {}
            if entries:
                stored = await tx.run_sync(
                    findings.record, declared.name, self.run, list(entries.values()), declared.again_after
                )
            for kind, keys in in_flight_keys.items():
                await tx.run_sync(findings.keep_open, declared.name, self.run, kind, keys)
            complete = [_with(one, stored[one.kind, one.text]) for one in found]
            chosen = self._choose([one for one in complete if stored[one.kind, one.text].due])
            for kind in dict.fromkeys(one.kind for one in chosen):
                group = [one for one in chosen if one.kind == kind]
                done, failed = await self._corrector.correct(group, tx)
                if done:
                    await tx.run_sync(findings.mark_corrected, [stored[one.kind, one.text].id for one in done])
                result.corrected += len(done)
                result.failed += failed
            if result.corrected:
                await tx.run_sync(self._hold, result.corrected)
        report.planned += len(chosen)
        report.corrected += result.corrected
        report.failed += result.failed
        if self._left is not None:
            self._left += len(chosen) - result.corrected  # failed corrections do not count against the cap
        if result.corrected:
            await self._corrector.after(dict.fromkeys(one.kind for one in chosen), self._store)
        return complete

    def _hold(self, connection: Connection, corrected: int = 0) -> None:
        """Renew the run's lease, as the fence of the transaction. Raises ReconciliationBusy if another run took
        over."""
        if not runs.hold(connection, self.run, self._declared.lease, corrected):
            raise ReconciliationBusy(
                f"this run of reconciliation {self._declared.name} was taken over by another: it was silent for longer "
                f"than its lease of {self._declared.lease:g} seconds"
            )

    async def close(self, kinds: Sequence[str]) -> None:
        """Close open findings of these kinds that this run did not find again."""
        declared = self._declared

        def close(connection: Connection, kind: str) -> int:
            self._hold(connection)
            return findings.close(connection, declared.name, self.run, kind)

        def close_undeclared(connection: Connection) -> int:
            self._hold(connection)
            return findings.close_undeclared(connection, declared.name, [rule.kind for rule in declared.rules])

        for kind in kinds:
            while closed := await self._store.run(partial(close, kind=kind)):
                self._report.closed += closed
        self._report.closed += await self._store.run(close_undeclared)


def _is_due(stored: OpenFinding | None) -> bool:
    return stored is None or stored.due


def _with(finding: Finding, stored: OpenFinding | None) -> Finding:
    if stored is None:
        return finding
    return replace(finding, new=stored.new, found_at=stored.found_at, corrected_at=stored.corrected_at)


def _new_finding(finding: Finding) -> NewFinding:
    return NewFinding(finding.kind, finding.text, ", ".join(finding.present), ", ".join(finding.absent))


def _by_kind(names: Iterable[Name]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for kind, key in names:
        found.setdefault(kind, []).append(key)
    return found
