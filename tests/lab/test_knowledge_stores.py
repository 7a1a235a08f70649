"""The stores of the lab misbehave as planned, and its auditor sees what is not as it was marked."""

from collections.abc import AsyncIterator
from pathlib import Path
from uuid import UUID

import pytest

from faults.knowledge import ledger, stores
from faults.knowledge.auditor import Auditor
from faults.knowledge.ledger import Deed, DeedLedger
from faults.knowledge.plan import Fault, PlanFile, StorePlan
from faults.knowledge.site import KnowledgeSite
from faults.knowledge.stores import MisbehavingStorage, MisbehavingVectors
from faults.knowledge.witness import create_witness
from rowmill_systems.knowledge.bases import create_kb
from rowmill_systems.knowledge.documents import request_deletion
from rowmill_systems.knowledge.knowledge import Knowledge
from rowmill_systems.knowledge.names import collection_of
from rowmill_systems.parts.objects.errors import NetworkFailed
from rowmill_systems.parts.objects.open import open_storage
from rowmill_systems.parts.vectors.errors import VectorsUnavailable
from rowmill_systems.parts.vectors.open import open_vectors
from systems.tests.knowledge.harness import drain, put
from systems.tests.parts.vectors.points import document, listed, points

DOC = document(1)


@pytest.fixture(autouse=True)
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have each call go wrong while a fault lasts."""
    monkeypatch.setattr(stores, "SHARES", dict.fromkeys(Fault, 1.0))


@pytest.fixture
def plan(tmp_path: Path) -> PlanFile:
    return PlanFile(tmp_path / "plan.json")


@pytest.fixture
async def vectors(tmp_path: Path, plan: PlanFile) -> AsyncIterator[MisbehavingVectors]:
    made = MisbehavingVectors(open_vectors(str(tmp_path / "v.db")), plan, DeedLedger(tmp_path / "v.ledger"))
    await made.create("kb_1", 8)
    yield made
    await made.close()


async def test_an_outage_does_nothing(vectors: MisbehavingVectors, plan: PlanFile) -> None:
    plan.write(StorePlan(vectors=Fault.OUTAGE))
    with pytest.raises(VectorsUnavailable):
        await vectors.put("kb_1", points(DOC, 3))
    plan.write(StorePlan())
    assert await vectors.count("kb_1", DOC) == {}


async def test_a_lost_answer_belongs_to_what_was_done(vectors: MisbehavingVectors, plan: PlanFile) -> None:
    plan.write(StorePlan(vectors=Fault.LOST_ANSWERS))
    with pytest.raises(VectorsUnavailable):
        await vectors.put("kb_1", points(DOC, 3))
    plan.write(StorePlan())
    assert sum((await vectors.count("kb_1", DOC)).values()) == 3


async def test_a_lie_is_about_what_was_not_done(vectors: MisbehavingVectors, plan: PlanFile) -> None:
    await vectors.put("kb_1", points(DOC, 3))
    plan.write(StorePlan(vectors=Fault.LIES))
    await vectors.delete("kb_1", DOC)
    await vectors.put("kb_1", points(document(2), 3))
    assert await vectors.drop("kb_1")
    plan.write(StorePlan())
    assert [found.document for found in await listed(vectors.documents())] == [DOC]


async def test_a_listing_breaks_off(
    vectors: MisbehavingVectors, plan: PlanFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(stores.SHARES, Fault.BROKEN_OFF, 0.0)
    for number in range(stores.ITEMS_BEFORE + 2):
        await vectors.put("kb_1", points(document(number), 1))
    plan.write(StorePlan(vectors=Fault.BROKEN_OFF))
    with pytest.raises(VectorsUnavailable):
        await listed(vectors.documents())


async def test_a_file_is_kept_though_the_answer_is_lost(tmp_path: Path, plan: PlanFile) -> None:
    storage = MisbehavingStorage(open_storage(str(tmp_path / "files")), plan)
    async with storage.receive() as incoming:
        await incoming.write(b"bytes")
        plan.write(StorePlan(objects=Fault.LOST_ANSWERS))
        with pytest.raises(NetworkFailed):
            await incoming.keep("kb-1", DOC)
    plan.write(StorePlan())
    assert len(await listed(storage.keys())) == 1
    await storage.close()


@pytest.fixture
async def audited(tmp_path: Path) -> AsyncIterator[Knowledge]:
    """A system with the witness, on stores that do as they are told."""
    site = KnowledgeSite(tmp_path, f"sqlite:///{tmp_path}/k.db", str(tmp_path / "v.db"), str(tmp_path / "files"))
    knowledge = site.knowledge()
    await knowledge.migrate()
    async with knowledge.opened():
        await knowledge.mill.run(create_witness)
        yield knowledge


async def found_by(knowledge: Knowledge, path: Path) -> list[tuple[UUID, str]]:
    """Return what a new auditor finds, and says in a ledger."""
    await Auditor(knowledge, DeedLedger(path)).look()
    return [(UUID(said.document), said.what) for said in ledger.read(path.parent) if said.deed is Deed.FOUND]


async def test_the_auditor_sees_marks_that_are_not_true(audited: Knowledge, tmp_path: Path) -> None:
    kb_id = await create_kb(audited, "Birds")
    ready, deleted = await put(audited, kb_id, "zqready"), await put(audited, kb_id, "zqdeleted")
    await drain(audited)
    await request_deletion(audited, deleted)
    await drain(audited)
    assert await found_by(audited, tmp_path / "1.ledger") == []
    await audited.vectors.delete(collection_of(kb_id), ready)
    await audited.vectors.put(collection_of(kb_id), points(deleted, 2, dimensions=audited.embedder.dimensions))
    assert sorted(await found_by(audited, tmp_path / "2.ledger")) == sorted(
        [(ready, "was marked ready with 0 points of 1"), (deleted, "was marked deleted with 2 points")]
    )
