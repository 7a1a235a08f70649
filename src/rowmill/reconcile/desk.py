"""Where the findings of a run end up: on a plan, or written down and corrected."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from sqlalchemy import Connection

from rowmill.model.errors import ReconciliationBusy
from rowmill.reconcile import findings as book
from rowmill.reconcile import runs
from rowmill.reconcile.correct import Corrector
from rowmill.reconcile.declaration import ReconciliationSpec
from rowmill.reconcile.findings import Entry, Name, Noted
from rowmill.reconcile.item import key_text
from rowmill.reconcile.merge import Suspect
from rowmill.reconcile.report import Finding, Reconciled
from rowmill.store.port import Store


class FindingsPlan:
    """Reads which findings are open already, writes nothing."""

    def __init__(self, declared: ReconciliationSpec, store: Store, report: Reconciled, corrector: Corrector) -> None:
        self._declared = declared
        self._store = store
        self._report = report
        self._corrector = corrector
        self._left = declared.cap

    async def take(self, found: Sequence[Finding], in_flight: Sequence[Suspect]) -> list[Finding]:
        """Take a page of findings in; answers them with what is known of each."""
        known: dict[Name, Noted] = {}
        for kind, keys in _by_kind((finding.kind, finding.text) for finding in found).items():
            look = partial(
                book.known, name=self._declared.name, kind=kind, keys=keys, again_after=self._declared.again_after
            )
            known |= await self._store.run(look, write=False)
        complete = [_with(finding, known.get((finding.kind, finding.text))) for finding in found]
        due = [finding for finding in complete if _is_due(known.get((finding.kind, finding.text)))]
        chosen = self._choose(due)
        self._report.planned += len(chosen)
        return complete

    def _choose(self, due: Sequence[Finding]) -> list[Finding]:
        """Those that are corrected now. The rest of what could be is left to the next run."""
        able = [finding for finding in due if self._corrector.of(finding.kind) is not None]
        chosen = able if self._left is None else able[: self._left]
        if self._left is not None:
            self._left -= len(chosen)
        self._report.remaining += len(able) - len(chosen)
        return chosen

    async def close(self, kinds: Sequence[str]) -> None:
        """A plan closes nothing."""


@dataclass(slots=True)
class PageResult:
    """What one transaction did; counted once it is committed."""

    corrected: int = 0
    failed: int = 0


class FindingsWriter(FindingsPlan):
    """Writes down, corrects, closes. A page is one transaction: findings, corrections, and that they were made."""

    run: int = 0

    async def take(self, found: Sequence[Finding], in_flight: Sequence[Suspect]) -> list[Finding]:
        declared, report, tally = self._declared, self._report, PageResult()
        entries = {(one.kind, one.text): _entry(one) for one in found}
        flying = _by_kind((declared.rules[one.rule].kind, key_text(one.key)) for one in in_flight)
        async with self._store.engine.begin() as tx:
            await tx.run_sync(self._hold)
            noted: dict[Name, Noted] = {}
            if entries:
                noted = await tx.run_sync(
                    book.note, declared.name, self.run, list(entries.values()), declared.again_after
                )
            for kind, keys in flying.items():
                await tx.run_sync(book.keep, declared.name, self.run, kind, keys)
            complete = [_with(one, noted[one.kind, one.text]) for one in found]
            chosen = self._choose([one for one in complete if noted[one.kind, one.text].due])
            for kind in dict.fromkeys(one.kind for one in chosen):
                group = [one for one in chosen if one.kind == kind]
                done, failed = await self._corrector.correct(group, tx)
                if done:
                    await tx.run_sync(book.corrected, [noted[one.kind, one.text].id for one in done])
                tally.corrected += len(done)
                tally.failed += failed
            if tally.corrected:
                await tx.run_sync(self._hold, tally.corrected)
        report.planned += len(chosen)
        report.corrected += tally.corrected
        report.failed += tally.failed
        if self._left is not None:
            self._left += len(chosen) - tally.corrected  # what was not done leaves room for others
        if tally.corrected:
            await self._corrector.after(dict.fromkeys(one.kind for one in chosen), self._store)
        return complete

    def _hold(self, connection: Connection, corrected: int = 0) -> None:
        """The fence: nothing is written by a run that was taken over."""
        if not runs.hold(connection, self.run, self._declared.lease, corrected):
            raise ReconciliationBusy(
                f"this run of reconciliation {self._declared.name} was taken over by another: it was silent for longer "
                f"than its lease of {self._declared.lease:g} seconds"
            )

    async def close(self, kinds: Sequence[str]) -> None:
        """Close what earlier runs found and this one did not, of these kinds."""
        declared = self._declared

        def close(connection: Connection, kind: str) -> int:
            self._hold(connection)
            return book.close(connection, declared.name, self.run, kind)

        def close_forgotten(connection: Connection) -> int:
            self._hold(connection)
            return book.close_forgotten(connection, declared.name, [rule.kind for rule in declared.rules])

        for kind in kinds:
            while closed := await self._store.run(partial(close, kind=kind)):
                self._report.closed += closed
        self._report.closed += await self._store.run(close_forgotten)


def _is_due(noted: Noted | None) -> bool:
    return noted is None or noted.due


def _with(finding: Finding, noted: Noted | None) -> Finding:
    if noted is None:
        return finding
    return replace(finding, new=noted.new, found_at=noted.found_at, corrected_at=noted.corrected_at)


def _entry(finding: Finding) -> Entry:
    return Entry(finding.kind, finding.text, ", ".join(finding.present), ", ".join(finding.absent))


def _by_kind(names: Iterable[Name]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for kind, key in names:
        found.setdefault(kind, []).append(key)
    return found
