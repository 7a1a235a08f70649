"""The demo: documents, killed workers, a deletion, damage, reconciliation twice, search."""

import asyncio
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx2

from demos.crew import Crew, crew_in
from demos.intake.odd import odd_files
from demos.knowledge.damage import Damage, damage
from demos.knowledge.facts import FACTS, write_facts
from demos.papers.make import make_papers
from demos.papers.paper import Paper
from demos.performing import OnProgress
from rowmill_systems.knowledge.knowledge import Knowledge
from rowmill_systems.knowledge.settings import KnowledgeSettings

API = "/api/v1"
CHECKS = f"{API}/admin/consistency/checks"
LONGEST = 600.0
LOOK_SECONDS = 0.3
KILL_EVERY = 50
"""Documents that are uploaded, and then done, between two kills: on a slow machine, a worker must get somewhere
first."""
LEASE_SECONDS = 3
"""A demo can't wait a minute for the events of a dead worker."""
OLD = 20
"""Documents of the knowledge base that is deleted meanwhile."""
EMAIL, PASSWORD = "operator@example.org", "a demo needs no secret"


@dataclass
class Result:
    documents: int = 0
    ready: int = 0
    failed: dict[str, str] = field(default_factory=dict)
    """Error codes of the files that can't be read, by name."""
    killed: int = 0
    taken_over: int = 0
    """Documents that were ready after a failed try."""
    passages: int = 0
    processing_seconds: float = 0.0
    damaged: dict[str, int] = field(default_factory=dict)
    found_first: dict[str, int] = field(default_factory=dict)
    found_second: dict[str, int] = field(default_factory=dict)
    orphans_removed: int = 0
    answers: dict[str, str] = field(default_factory=dict)
    """The first hit of each question."""
    asked: int = 0
    answered: int = 0
    """Questions whose document came first, or among the first three for numbers of papers."""
    seconds: float = 0.0
    problems: list[str] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        return not self.problems

    def as_dict(self) -> dict[str, Any]:
        return asdict(self) | {"holds": self.holds}


def run(folder: Path, *, clean: int, scans: int, database_url: str | None, on_progress: OnProgress) -> Result:
    """Run the demo in this folder. `on_progress` is called with the current step, the amount done, and the total."""
    begun, result = time.monotonic(), Result()
    on_progress("writing documents", 0, 1)
    papers = make_papers(folder / "papers", 1, clean=clean, scans=scans)
    odd = odd_files(folder / "papers", papers[0].path)
    environment = environment_of(folder, database_url)
    with crew_in("knowledge", folder, environment) as crew:
        on_progress("starting a server and two workers", 0, 1)
        crew.migrate()
        crew.run("users", "add", EMAIL, "--superuser", "--password-stdin", given=f"{PASSWORD}\n")
        with httpx2.Client(base_url=crew.serve(), trust_env=False, timeout=60) as client:
            log_in(client)
            work_through(client, crew, folder, papers, odd, result, on_progress)
            done = damage_and_mend(client, environment, result, on_progress)
            ask(client, [paper for paper in papers if paper.path.name not in done.lost.values()], result, on_progress)
    result.seconds = round(time.monotonic() - begun, 1)
    return result


def environment_of(folder: Path, database_url: str | None) -> dict[str, str]:
    return {
        "KNOWLEDGE_DATABASE_URL": database_url or f"sqlite:///{folder / 'knowledge.db'}",
        "KNOWLEDGE_STORAGE": str(folder / "objects"),
        "KNOWLEDGE_VECTORS": str(folder / "vectors.db"),
        "KNOWLEDGE_DISPATCH_SECONDS": "1",
        "KNOWLEDGE_LEASE_SECONDS": str(LEASE_SECONDS),
        "KNOWLEDGE_GRACE_SECONDS": "0",
        "ROWMILL_RESCUE_EVERY": "1",
        "ROWMILL_HEARTBEAT": "1",
    }


def log_in(client: httpx2.Client) -> None:
    answer = post(client, f"{API}/login", {"email": EMAIL, "password": PASSWORD})
    client.headers["authorization"] = f"Bearer {answer['token']}"


def post(client: httpx2.Client, path: str, given: Mapping[str, Any]) -> dict[str, Any]:
    answer = client.post(path, json=given)
    answer.raise_for_status()
    found: dict[str, Any] = answer.json()
    return found


def read(client: httpx2.Client, path: str, **query: Any) -> dict[str, Any]:
    answer = client.get(path, params=query)
    answer.raise_for_status()
    found: dict[str, Any] = answer.json()
    return found


def work_through(
    client: httpx2.Client,
    crew: Crew,
    folder: Path,
    papers: list[Paper],
    odd: dict[str, str],
    result: Result,
    on_progress: OnProgress,
) -> None:
    """Upload everything, kill workers again and again, and delete a knowledge base, until all is done."""
    kb_ids = {name: post(client, f"{API}/kbs", {"name": name})["id"] for name in ("Papers", "Handbook", "Old")}
    files = sorted((folder / "papers").iterdir())
    sent = [("Papers", path) for path in files] + [("Handbook", path) for path in write_facts(folder / "facts")]
    sent += [("Old", path) for path in files[:OLD]]
    began = time.monotonic()
    for _ in range(2):
        crew.work()
    for number, (name, path) in enumerate(sent):
        with path.open("rb") as file:
            client.post(f"{API}/kbs/{kb_ids[name]}/documents", files={"file": (path.name, file)}).raise_for_status()
        on_progress("uploading, while workers are killed", number + 1, len(sent))
        if number % KILL_EVERY == KILL_EVERY - 1:
            crew.kill_a_worker()
            result.killed += 1
    result.documents = len(sent)
    kept, next_kill, deleted = len(sent) - OLD, KILL_EVERY, False

    def look() -> bool:
        nonlocal deleted, next_kill
        counts = [read(client, f"{API}/kbs/{kb_ids[name]}")["documents"] for name in ("Papers", "Handbook")]
        done = sum(each.get("ready", 0) + each.get("failed", 0) for each in counts)
        on_progress("processing, while workers are killed", done, kept)
        if done >= kept // 2 and not deleted:
            client.delete(f"{API}/kbs/{kb_ids['Old']}").raise_for_status()
            deleted = True
        if next_kill <= done < kept:
            crew.kill_a_worker()
            result.killed, next_kill = result.killed + 1, done + KILL_EVERY
        return done == kept and deleted and is_quiet(client)

    wait(look)
    result.processing_seconds = round(time.monotonic() - began, 1)
    documents = [each for name in ("Papers", "Handbook") for each in list_documents(client, kb_ids[name])]
    result.ready = sum(each["status"] == "ready" for each in documents)
    result.failed = {each["filename"]: each["error_code"] for each in documents if each["status"] == "failed"}
    result.passages = sum(each["chunk_count"] or 0 for each in documents)
    result.taken_over = sum(each["status"] == "ready" and each["retry_count"] > 0 for each in documents)
    wanted = {name: code for name, code in odd.items() if code != "completed"}
    if result.failed != wanted:
        result.problems.append(f"failed are {result.failed}, not {wanted}")
    if client.get(f"{API}/kbs/{kb_ids['Old']}").status_code != 404:
        result.problems.append("the deleted knowledge base is still shown")
    if not result.killed:
        result.problems.append("it went so quickly that no worker was killed: give it more documents")


def list_documents(client: httpx2.Client, kb_id: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    after: str | None = ""
    while after is not None:
        page = read(client, f"{API}/kbs/{kb_id}/documents", after=after)
        found += page["documents"]
        after = page["next"]
    return found


def is_quiet(client: httpx2.Client) -> bool:
    """Return whether no event is left to be processed."""
    return bool(read(client, f"{API}/admin/outbox/stats")["pending_events"] == 0)


def wait(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LONGEST
    while not done():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not done after {LONGEST:.0f} s")
        time.sleep(LOOK_SECONDS)


def damage_and_mend(
    client: httpx2.Client, environment: Mapping[str, str], result: Result, on_progress: OnProgress
) -> Damage:
    """Damage the stores; compare, mend, remove orphans and what can't be mended; compare again."""
    on_progress("damaging the stores", 0, 1)
    kb_id = next(each["id"] for each in read(client, f"{API}/kbs")["knowledge_bases"] if each["name"] == "Papers")
    done = asyncio.run(damage_all(environment, UUID(kb_id)))
    result.damaged = dict(done.counts)
    on_progress("comparing the stores", 0, 1)
    first = post(client, CHECKS, {"execute": True})
    result.found_first = counts_of(first)
    wanted = done.findings
    found = {(each["kind"], each["key"]) for each in first["listed"]}
    if found != wanted:
        result.problems.append(
            f"{len(wanted - found)} damaged places were not found, {len(found - wanted)} others were"
        )
    on_progress("mending", 0, 1)
    wait(lambda: is_quiet(client))
    result.orphans_removed = post(client, f"{API}/admin/consistency/orphans/remove", {})["removed"]
    for document_id in done.lost:  # as the finding advises: nobody can bring the bytes back
        client.delete(f"{API}/documents/{document_id}").raise_for_status()
    wait(lambda: is_quiet(client))
    second = post(client, CHECKS, {"execute": True})
    result.found_second = counts_of(second)
    if not second["clean"]:
        result.problems.append(f"the second comparison found {result.found_second}")
    return done


async def damage_all(environment: Mapping[str, str], kb_id: UUID) -> Damage:
    os.environ |= environment
    knowledge = Knowledge(KnowledgeSettings())
    async with knowledge.opened():
        return await damage(knowledge, kb_id)


def counts_of(report: Mapping[str, Any]) -> dict[str, int]:
    return {kind: found["count"] for kind, found in report["kinds"].items()}


def ask(client: httpx2.Client, papers: list[Paper], result: Result, on_progress: OnProgress) -> None:
    """Ask for facts in other words, and for papers by their number."""
    questions = {fact.question: fact.filename for fact in FACTS}
    numbered = [paper for paper in papers if not paper.scan and paper.expected.get("invoice_number")]
    questions |= {f"invoice {paper.expected['invoice_number']}": paper.path.name for paper in numbered[:10]}
    for number, (question, filename) in enumerate(questions.items()):
        on_progress("asking", number + 1, len(questions))
        found = post(client, f"{API}/search", {"query": question, "limit": 3})
        names = [hit["filename"] for hit in found["hits"]]
        result.asked += 1
        result.answered += filename in names
        result.answers[question] = names[0] if names else "nothing"
        if found["degraded"]:
            result.problems.append(f"search was degraded: {found['degraded']}")
    if result.answered < 0.8 * result.asked:  # the small model misses some paraphrases
        result.problems.append(f"only {result.answered} of {result.asked} questions find their document")
