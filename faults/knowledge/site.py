"""Where a run of the lab is: its database, its stores, its files, and the system on them.

A lab has a minute for what takes hours elsewhere: leases, waits, grace periods and the times of stale work are as much
shorter. As an event meets in that minute what it would meet in hours, it may fail more often.
"""

import os
import random
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

import rowmill as rm
from faults.knowledge.ledger import DeedLedger
from faults.knowledge.plan import PlanFile
from faults.knowledge.stores import MisbehavingStorage, MisbehavingVectors
from rowmill.worker import WorkerSettings
from rowmill_systems.knowledge import queues
from rowmill_systems.knowledge.knowledge import Knowledge
from rowmill_systems.knowledge.settings import KnowledgeSettings
from rowmill_systems.parts.objects.open import open_storage
from rowmill_systems.parts.vectors.open import open_vectors
from systems.tests.knowledge.harness import HashEmbedder, PlainReaders

FOLDER_VARIABLE, DATABASE_VARIABLE = "FAULTS_KNOWLEDGE_FOLDER", "FAULTS_KNOWLEDGE_DATABASE"
VECTORS_VARIABLE, STORAGE_VARIABLE = "FAULTS_KNOWLEDGE_VECTORS", "FAULTS_KNOWLEDGE_STORAGE"
LEASE = 2.0
UPLOAD_SECONDS = 8.0
"""Longer than any client is frozen: what a client stores after its upload has been cleaned up is only reported."""
STALE_SECONDS = 10.0
GRACE = 2.0
COMPARISON_LEASE = 10.0
ATTEMPTS = 40
WORKER = WorkerSettings(poll_base=0.05, poll_max=0.5, grace=3.0, heartbeat=0.7, rescue_every=0.7, rescue_most=2000)


@dataclass(frozen=True)
class KnowledgeSite:
    """Names everything that the processes of a run share."""

    folder: Path
    database: str
    vectors: str
    storage: str

    @classmethod
    def by_environment(cls) -> Self:
        get = os.environ.__getitem__
        return cls(Path(get(FOLDER_VARIABLE)), get(DATABASE_VARIABLE), get(VECTORS_VARIABLE), get(STORAGE_VARIABLE))

    def environment(self) -> dict[str, str]:
        return {
            FOLDER_VARIABLE: str(self.folder),
            DATABASE_VARIABLE: self.database,
            VECTORS_VARIABLE: self.vectors,
            STORAGE_VARIABLE: self.storage,
        }

    @property
    def plan(self) -> PlanFile:
        return PlanFile(self.folder / "plan.json")

    def settings(self, *, grace: float) -> KnowledgeSettings:
        return KnowledgeSettings(
            database_url=self.database,
            vectors=self.vectors,
            storage=self.storage,
            ocr="off",
            chunk_tokens=32,
            lease_seconds=LEASE,
            upload_seconds=UPLOAD_SECONDS,
            stale_minutes=STALE_SECONDS / 60,
            grace_seconds=grace,
            reconcile_cap=10_000,
            alert_above=1_000_000,
            schedules=False,
            dispatch_seconds=WORKER.poll_max,
        )

    def knowledge(self, ledger: DeedLedger | None = None, *, grace: float = GRACE) -> Knowledge:
        """Return the system. With a ledger, its stores misbehave by the plan."""
        settings = self.settings(grace=grace)
        storage, vectors = open_storage(settings.storage), open_vectors(settings.vectors)
        made = Knowledge(
            settings,
            storage=storage if ledger is None else MisbehavingStorage(storage, self.plan),
            vectors=vectors if ledger is None else MisbehavingVectors(vectors, self.plan, ledger),
            embedder=HashEmbedder(),
        )
        made.mill.settings, made.readers = WORKER, PlainReaders()
        comparison = made.consistency.reconciliation
        comparison.declared = replace(comparison.declared, again_after=LEASE, lease=COMPARISON_LEASE)
        return made


def shorten_waits() -> None:
    """Let events and clean-ups of this process wait for moments, and fail more often."""
    queues.RETRY = rm.Retry(attempts=ATTEMPTS, backoff=rm.exponential(0.2, cap=2.0), jitter=0.5)
    queues.REMOVAL_RETRY = queues.RETRY


LETTERS = "bcdfghjklmnpqrtvwxz"


def new_word(chance: random.Random) -> str:
    """Return a word that no other document has, without an ending that a stemmer would cut."""
    return "zq" + "".join(chance.choices(LETTERS, k=14))


def text_with(word: str, passages: int) -> str:
    """Return a text of about so many passages, each with the word: whatever is found of it is found by that."""
    line = " ".join([f"{word} {word} {word} of cranes and whales"] * 4)
    return "\n\n".join(f"# Part {number} of {word}\n\n{line}." for number in range(passages))
