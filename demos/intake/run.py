"""The demo: its input, what happens to it, and the checks at the end."""

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import httpx2

from demos.crew import crew_in
from demos.intake.odd import odd_files
from demos.papers.judging import Outcome, judge
from demos.papers.make import make_papers
from demos.papers.paper import Paper
from demos.performing import OnProgress
from rowmill_systems.intake.analysis import Evidence, Suggestion
from rowmill_systems.intake.fields.loading import load_catalogue

FILES = "/organizations/1/projects/1/files"
LONGEST = 600.0
LOOK_SECONDS = 0.3
STALE_SECONDS = 4
"""Seconds of a lease: a demo can't wait a quarter of an hour for the rows of a dead worker."""


@dataclass
class FileResult:
    """One file, and what became of it."""

    filename: str
    state: str
    kind: str | None
    pages: int | None
    scanned: bool
    error: str | None
    known: int = 0
    right: int = 0
    suggested: int = 0
    reused: bool = False


@dataclass
class Result:
    files: list[FileResult] = field(default_factory=list)
    killed: int = 0
    taken_over: int = 0
    """Files that a second worker read, because the first one was killed."""
    twice: int = 0
    """Suggestions that exist twice."""
    second_answer: int = 0
    """What the second of two people gets who decide on the same suggestion."""
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
    papers = make_papers(folder / "papers", 1, clean=clean, scans=scans)
    odd = odd_files(folder / "papers", papers[0].path)
    with crew_in("intake", folder, environment(folder, database_url)) as crew:
        on_progress("starting a server and two workers", 0, 1)
        crew.migrate()
        with httpx2.Client(base_url=crew.serve(), trust_env=False, timeout=30) as client:
            types = {paper.path.name: paper.doc_type for paper in papers}
            for path in sorted((folder / "papers").iterdir()):
                send(client, path, types.get(path.name))
            for _ in range(2):
                crew.work()
            total = len(papers) + len(odd)
            wait(client, lambda counts: counts["completed"] >= total // 3, on_progress)
            wait(client, lambda counts: counts["processing"] > 0, on_progress)
            crew.kill_a_worker()
            result.killed = 1
            wait(client, lambda counts: counts["completed"] + counts["failed"] == total, on_progress)
            look(client, papers, odd, result)
            decide(client, result)
    result.seconds = round(time.monotonic() - begun, 1)
    return result


def environment(folder: Path, database_url: str | None) -> dict[str, str]:
    return {
        "INTAKE_DATABASE_URL": database_url or f"sqlite:///{folder / 'intake.db'}",
        "INTAKE_STORAGE": str(folder / "files"),
        "INTAKE_WORKER_POLL_BASE_SECONDS": "0.1",
        "INTAKE_WORKER_POLL_MAX_SECONDS": "1",
        "INTAKE_WORKER_STALE_SECONDS": str(STALE_SECONDS),
        "ROWMILL_RESCUE_EVERY": "1",
        "ROWMILL_HEARTBEAT": "1",
    }


def send(client: httpx2.Client, path: Path, doc_type: str | None) -> None:
    with path.open("rb") as file:
        answer = client.post(FILES, files={"file": (path.name, file)}, data={"doc_type": doc_type or ""})
    answer.raise_for_status()


def wait(client: httpx2.Client, for_what: Callable[[Counter[str]], bool], on_progress: OnProgress) -> None:
    deadline = time.monotonic() + LONGEST
    while True:
        counts = Counter(client.get(FILES, params={"limit": 1}).json()["counts"])
        done = counts["completed"] + counts["failed"]
        on_progress("reading", done, counts.total())
        if for_what(counts) or done == counts.total():
            return
        if time.monotonic() > deadline:
            raise TimeoutError(f"not done after {LONGEST:.0f} s: {dict(counts)}")
        time.sleep(LOOK_SECONDS)


def look(client: httpx2.Client, papers: list[Paper], odd: dict[str, str], result: Result) -> None:
    """Compare each file with what is known about it."""
    catalogue = load_catalogue()
    known = {paper.path.name: paper for paper in papers}
    for listed in reversed(client.get(FILES, params={"limit": 500}).json()["files"]):
        file = client.get(f"{FILES}/{listed['id']}").json()
        name, state, error = file["filename"], file["processing_status"], file["processing_error"]
        found = [
            Suggestion(one["field_key"], one["value"], one["confidence"], Evidence(one["page"], one["quote"]))
            for one in file["suggestions"]
        ]
        read = FileResult(
            name, state, file["kind"], file["page_count"], name.startswith("scan-"), error,
            suggested=len(found), reused=file["reused_from"] is not None,
        )  # fmt: skip
        if name in known:
            verdicts = [one for one in judge(known[name], found, catalogue) if one.outcome is not Outcome.SPURIOUS]
            read.known, read.right = len(verdicts), sum(one.outcome is Outcome.RIGHT for one in verdicts)
        result.files.append(read)
        result.taken_over += file["processing_attempts"] > 1 and state == "completed"
        pairs = Counter((one.field, repr(one.value)) for one in found)
        result.twice += sum(number - 1 for number in pairs.values())
        wanted = odd.get(name, "completed")
        if wanted not in (state, (error or "").split(":")[0]):
            result.problems.append(f"{name} is {state} ({error}), not {wanted}")
    for kind, least in (("clean", 0.9), ("scanned", 0.8)):
        judged = [one for one in result.files if one.known and one.scanned == (kind == "scanned")]
        if judged and sum(one.right for one in judged) < least * sum(one.known for one in judged):
            result.problems.append(f"fewer than {least:.0%} of the fields of {kind} papers are right")
    if result.twice:
        result.problems.append(f"{result.twice} suggestions are there twice")
    copy = [one for one in result.files if one.filename.startswith("copy-of-") and not one.reused]
    twins = [one for one in result.files if one.reused]
    if copy and not twins:
        result.problems.append("the same bytes were analysed twice")


def decide(client: httpx2.Client, result: Result) -> None:
    """Apply a suggestion twice. The second time must report that it is decided."""
    files = client.get(FILES, params={"status": "completed"}).json()["files"]
    file = next(one for one in files if one["pending"])
    [suggestion, *_] = client.get(f"{FILES}/{file['id']}").json()["suggestions"]
    apply = f"{FILES}/{file['id']}/suggestions/{suggestion['id']}/apply"
    first, second = client.post(apply, json={"by": "ann"}), client.post(apply, json={"by": "bob"})
    result.second_answer = second.status_code
    if (first.status_code, second.status_code) != (200, 409):
        result.problems.append(f"two who decide hear {first.status_code} and {second.status_code}, not 200 and 409")
