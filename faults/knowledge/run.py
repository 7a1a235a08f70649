"""One run: a crew on fresh stores, faults, quiet, two comparisons, and the verdict."""

import asyncio
import os
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import sqlalchemy as sa

import rowmill as rm
from faults.fleet import FleetBroke
from faults.knowledge.auditor import Auditor
from faults.knowledge.checker import KnowledgeViolation, judge
from faults.knowledge.crew import Crew
from faults.knowledge.facts import Facts, collect
from faults.knowledge.ledger import REQUESTS, Deed, DeedLedger, read
from faults.knowledge.process import BROKEN_VARIABLE
from faults.knowledge.site import KnowledgeSite, shorten_waits
from faults.knowledge.torment import NEEDED, Torment
from faults.knowledge.witness import create_witness
from faults.scenario import SERVER
from rowmill_systems.knowledge.consistency import ConsistencyReport, check
from rowmill_systems.knowledge.models import KbUpload, OutboxEvent
from rowmill_systems.knowledge.queues import UNFINISHED_EVENTS
from tests.support.postgres import TemporaryPostgres, in_memory
from tests.support.seaweed import ACCESS_KEY, BUCKET, SECRET_KEY, SeaweedServer

BOUND = 120.0
"""Seconds after the last fault within which everything must be final."""
LOOK_SECONDS = 0.4
LONGER = 10
"""How many times as long a run may take, to reach its number of operations and to do all kinds of harm."""
StoreName = Literal["sqlite", "postgresql"]
ObjectsName = Literal["folder", "s3"]


@dataclass
class KnowledgeFinding:
    """The result of a run."""

    store: str
    objects: str
    seed: int
    dose: dict[str, int] = field(default_factory=dict)
    asked: int = 0
    acknowledged: dict[str, int] = field(default_factory=dict)
    """Requests by kind."""
    events: int = 0
    retried: int = 0
    """Events that failed at least once."""
    looks: int = 0
    """Marks that were looked at as soon as they were made."""
    comparisons: int = 0
    """That came to their end while faults went on."""
    corrected: int = 0
    """Findings of those."""
    left: dict[str, int] = field(default_factory=dict)
    """What the first comparison after the faults found and mended."""
    ready: int = 0
    seconds: float = 0.0
    without_dose: list[str] = field(default_factory=list)
    """Faults that should have happened and did not: such a run proves nothing."""
    violations: list[KnowledgeViolation] = field(default_factory=list)
    broke: str = ""
    """The error of a process that ended by itself."""

    @property
    def passed(self) -> bool:
        return not (self.violations or self.without_dose or self.broke)

    @property
    def noticed(self) -> bool:
        """Whether a rule was broken."""
        return bool(self.violations or self.broke)


def run(
    store: StoreName, objects: ObjectsName, *, seed: int, seconds: float, operations: int, broken: str = ""
) -> KnowledgeFinding:
    """Run the lab once."""
    shorten_waits()
    began, finding = time.monotonic(), KnowledgeFinding(store, objects, seed)
    try:
        with site_of(store, objects) as site:
            asyncio.run(Lab(site, finding).run(seconds, operations, broken))
    except FleetBroke as error:
        finding.broke = str(error)
    finding.seconds = round(time.monotonic() - began, 1)
    return finding


@contextmanager
def site_of(store: StoreName, objects: ObjectsName) -> Iterator[KnowledgeSite]:
    folder = Path(tempfile.mkdtemp(prefix="rowmill-faults-", dir=in_memory()))
    try:
        with storage_of(objects, folder) as storage:
            if store == "sqlite":
                yield KnowledgeSite(folder, f"sqlite:///{folder}/knowledge.db", str(folder / "vectors.db"), storage)
            else:
                with TemporaryPostgres(SERVER) as server:
                    yield KnowledgeSite(folder, server.url, server.url, storage)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def storage_of(objects: ObjectsName, folder: Path) -> Iterator[str]:
    if objects == "folder":
        yield str(folder / "files")
        return
    server = SeaweedServer(folder)
    os.environ |= {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY}
    try:
        server.start()
        yield f"s3://{BUCKET}/lab?endpoint_url={server.endpoint}&region=us-east-1"
    finally:
        server.kill()


class Lab:
    def __init__(self, site: KnowledgeSite, finding: KnowledgeFinding) -> None:
        self._site, self._finding = site, finding
        self._knowledge = site.knowledge(grace=0.0)

    async def run(self, seconds: float, operations: int, broken: str) -> None:
        await self._knowledge.migrate()
        async with self._knowledge.opened():
            await self._knowledge.mill.run(create_witness)
            auditor = Auditor(self._knowledge, DeedLedger(self._site.folder / "auditor.ledger"))
            environment = {BROKEN_VARIABLE: broken} if broken else {}
            with Crew(self._site, self._finding.seed, environment) as crew:
                await asyncio.to_thread(crew.wait_until_up)
                watch = asyncio.create_task(self._watch(auditor))
                try:
                    await self._torment(crew, seconds, operations)
                    crew.stop("client")
                    crew.stop("comparer")
                    await self._until_quiet(crew)
                    watch.cancel()
                    left = await self._mend(crew)
                    crew.stop("worker")
                finally:
                    watch.cancel()
                    with suppress(asyncio.CancelledError):
                        await watch
            facts = await collect(self._knowledge, self._site.folder, self._finding.seed)
        facts.left = left
        self._judge(facts, auditor)

    async def _torment(self, crew: Crew, seconds: float, operations: int) -> None:
        ledger = DeedLedger(self._site.folder / "torment.ledger")
        torment = Torment(self._site, crew, self._knowledge, ledger, self._finding.seed)
        began = time.monotonic()

        def over() -> bool:
            passed = time.monotonic() - began
            enough = self._asked() >= operations and all(torment.dose[name] for name in NEEDED)
            return passed > seconds and (enough or passed > seconds * LONGER)

        await torment.run(over)
        self._finding.dose = dict(sorted(torment.dose.items()))
        self._finding.without_dose = [name for name in NEEDED if not torment.dose[name]]

    def _asked(self) -> int:
        return sum(said.deed in REQUESTS and not said.ended for said in read(self._site.folder))

    async def _watch(self, auditor: Auditor) -> None:
        """Audit, also while sessions are terminated."""
        while True:
            with suppress(rm.errors.RowmillError, sa.exc.SQLAlchemyError):
                await auditor.look()
            await asyncio.sleep(LOOK_SECONDS)

    async def _until_quiet(self, crew: Crew) -> None:
        """Wait until nothing is under way, or the bound is over. The checker reports what is not."""
        deadline = time.monotonic() + BOUND
        while await self._knowledge.mill.run(under_way, write=False) and time.monotonic() < deadline:
            crew.look()
            await asyncio.sleep(LOOK_SECONDS)

    async def _mend(self, crew: Crew) -> int:
        """Compare the stores once to mend, and once more. Return what is found then."""
        first = await self._compare()
        self._finding.left = dict(first.run.counts)
        await self._until_quiet(crew)
        second = await self._compare()
        return second.findings + len(second.unreachable)

    async def _compare(self) -> ConsistencyReport:
        """Compare once a comparer that was killed counts as dead."""
        deadline = time.monotonic() + BOUND
        while True:
            try:
                return await check(self._knowledge, execute=True)
            except rm.errors.ReconciliationBusy:
                if time.monotonic() > deadline:
                    raise
            await asyncio.sleep(LOOK_SECONDS)

    def _judge(self, facts: Facts, auditor: Auditor) -> None:
        finding, deeds = self._finding, Counter(said.deed for said in facts.said if said.ended)
        finding.asked = sum(said.deed in REQUESTS and not said.ended for said in facts.said)
        finding.acknowledged = {str(deed): deeds[deed] for deed in REQUESTS}
        finding.events = len(facts.events)
        finding.retried = sum(event.attempts > 0 for event in facts.events.values())
        finding.looks = auditor.looked
        finding.comparisons = deeds[Deed.COMPARE]
        finding.corrected = sum(said.findings for said in facts.said if said.deed is Deed.COMPARE)
        finding.ready = sum(document.status == "ready" for document in facts.documents.values())
        finding.violations = judge(facts)


def under_way(connection: sa.Connection) -> int:
    events = sa.select(sa.func.count()).where(OutboxEvent.state.in_(UNFINISHED_EVENTS))
    uploads = sa.select(sa.func.count()).where(KbUpload.state.in_(("open", "removing")))
    return (connection.scalar(events) or 0) + (connection.scalar(uploads) or 0)
