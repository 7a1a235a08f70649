"""The demo: its input, the misbehaving services, the harmed workers, and the checks at the end."""

import asyncio
import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import httpx2

from demos.crew import crew_in
from demos.entities.calm import calm_links
from demos.entities.mentions import Made, make_mentions
from demos.entities.world import make_world
from demos.performing import OnProgress

LONGEST = 1200.0
LOOK_SECONDS = 0.3
ATTEMPTS = 12
"""Attempts per stage. With so many random faults, three would sometimes be too few."""
CALLS_PER_SECOND, CALLS_AT_ONCE, CALL_SECONDS, RETRY_AFTER = 200, 8, 2, 2.0
FAULTS = {"429": 0.001, "500": 0.02, "hang": 0.001, "cut": 0.01, "html": 0.004, "short": 0.004}
LAGS = {"wikidata": {"maxlag": 0.001}}
OUTAGE_BEGINS = 20.0
WORKERS = 3
FINAL = ("COMPLETE", "FAILED")


@dataclass
class Result:
    entities: int = 0
    by_status: dict[str, int] = field(default_factory=dict)
    linked: int = 0
    without_link: int = 0
    otherwise: int = 0
    """Entities whose result differs from that with healthy services."""
    right: int = 0
    """Links to the thing that is meant."""
    wrong: int = 0
    missed: int = 0
    services: dict[str, Any] = field(default_factory=dict)
    """What each service observed."""
    stopped: list[int] = field(default_factory=list)
    """Exit codes of workers that were stopped during the run."""
    waited_for: list[str] = field(default_factory=list)
    """What entities waited for, according to `/enrichment/stats`."""
    seconds: float = 0.0
    problems: list[str] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        return not self.problems

    def as_dict(self) -> dict[str, Any]:
        return asdict(self) | {"holds": self.holds}


def run(
    folder: Path,
    *,
    entities: int,
    outage: float,
    database_url: str | None,
    on_progress: OnProgress,
) -> Result:
    """Run the demo in this folder. `on_progress` is called with the current step, the amount done, and the total."""
    begun, result = time.monotonic(), Result(entities)
    size = entities * 5 // 4
    mentions = make_mentions(make_world(size), entities)
    on_progress("finding out what is right", 0, 1)
    wanted = asyncio.run(calm_links(make_world(size), mentions))
    plan = {
        "rates": FAULTS, "by_service": LAGS, "retry_after": RETRY_AFTER,
        "outages": [("wikidata", OUTAGE_BEGINS, OUTAGE_BEGINS + outage)],
    }  # fmt: skip
    with services(size, plan) as url, crew_in("entities", folder, environment(folder, url, database_url)) as crew:
        on_progress("starting a server and workers", 0, entities)
        crew.migrate()
        with httpx2.Client(base_url=crew.serve(), trust_env=False, timeout=60) as client:
            send(client, mentions)
            for _ in range(WORKERS):
                crew.work()
            wait(client, entities // 4, result, on_progress)
            result.stopped.append(crew.stop_a_worker())
            wait(client, entities // 2, result, on_progress)
            result.stopped.append(crew.stop_a_worker())
            wait(client, entities, result, on_progress)
            look(client, mentions, wanted, result)
        result.services = httpx2.get(f"{url}/control/counts", trust_env=False).json()
    judge(result)
    result.seconds = round(time.monotonic() - begun, 1)
    return result


@contextmanager
def services(size: int, plan: dict[str, Any]) -> Iterator[str]:
    """Start the services in their own process. Return their address."""
    command = [sys.executable, "-m", "demos.entities.server", "--size", str(size), "--plan", json.dumps(plan)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield json.loads(process.stdout.readline())["url"]
    finally:
        process.kill()
        process.wait()


def environment(folder: Path, url: str, database_url: str | None) -> dict[str, str]:
    return {
        "ENTITIES_DATABASE_URL": database_url or f"sqlite:///{folder / 'entities.db'}",
        "ENTITIES_SOURCES": "wikidata,dbpedia",
        "ENTITIES_WIKIDATA_URL": f"{url}/w/api.php",
        "ENTITIES_DBPEDIA_LOOKUP_URL": f"{url}/lookup/api/search",
        "ENTITIES_DBPEDIA_SPOTLIGHT_URL": f"{url}/spotlight/en/candidates",
        "ENTITIES_DBPEDIA_DATA_URL": f"{url}/data",
        "ENTITIES_CONTACT": "demo@example.org",
        "ENTITIES_MAX_ATTEMPTS": str(ATTEMPTS),
        "ENTITIES_CALLS_PER_SECOND": str(CALLS_PER_SECOND),
        "ENTITIES_CALLS_AT_ONCE": str(CALLS_AT_ONCE),
        "ENTITIES_CALL_SECONDS": str(CALL_SECONDS),
    }


def send(client: httpx2.Client, mentions: list[Made]) -> None:
    lines = [
        json.dumps(
            {
                "name": made.mention.name, "entity_type": made.mention.type, "context": made.mention.context,
                "properties": dict(made.mention.known), "dataset": "demo", "external_id": str(number),
            }
        )
        for number, made in enumerate(mentions)
    ]  # fmt: skip
    answer = client.post("/entities/bulk", content="\n".join(lines), headers={"content-type": "application/x-ndjson"})
    answer.raise_for_status()
    assert answer.json()["accepted"] == len(mentions), answer.text


def wait(client: httpx2.Client, final: int, result: Result, on_progress: OnProgress) -> None:
    """Wait until so many entities are final."""
    deadline = time.monotonic() + LONGEST
    while True:
        stats = client.get("/enrichment/stats").json()
        done = sum(stats["by_status"][word] for word in FINAL)
        reasons = [f"{one['service']} {one['why']}" for one in stats["services"] if one["why"] in ("parked", "open")]
        result.waited_for += [reason for reason in reasons if reason not in result.waited_for]
        on_progress(f"linking{': ' + ', '.join(reasons) if reasons else ''}", done, result.entities)
        if done >= final:
            return
        if time.monotonic() > deadline:
            raise TimeoutError(f"not done after {LONGEST:.0f} s: {stats}")
        time.sleep(LOOK_SECONDS)


def look(client: httpx2.Client, mentions: list[Made], wanted: list[str | None], result: Result) -> None:
    """Compare each entity with the right answer, and with the result of healthy services."""
    after: str | None = None
    counts = Counter[str]()
    while True:
        page = client.get("/entities", params={"limit": 500, **({"after": after} if after else {})}).json()
        for entity in page["entities"]:
            number = int(entity["external_id"])
            counts[entity["enrichment_status"]] += 1
            found, meant = entity["wikidata_id"], mentions[number].right
            result.otherwise += found != wanted[number] or entity["enrichment_status"] != "COMPLETE"
            result.linked += entity["linking_source"] is not None
            result.without_link += entity["enrichment_note"] == "No external link found"
            result.right += found is not None and found == meant
            result.wrong += found is not None and found != meant
            result.missed += found is None and meant is not None
        if (after := page["next"]) is None:
            break
    result.by_status = dict(counts)


def judge(result: Result) -> None:
    say = result.problems.append
    if result.by_status != {"COMPLETE": result.entities}:
        say(f"not all are complete: {result.by_status}")
    if result.otherwise:
        say(f"{result.otherwise} entities came out otherwise than with services that are always well")
    if result.linked + result.without_link != result.entities:
        say("an entity is complete without a link and without a note that says so")
    for name, saw in result.services.items():
        if saw["answered_twice"]:
            say(f"{name} was asked {saw['answered_twice']} questions again that it had answered")
        if saw["most_in_a_second"] > CALLS_PER_SECOND:
            say(f"{name} had {saw['most_in_a_second']} calls in a second, more than {CALLS_PER_SECOND}")
        if saw["most_at_once"] > CALLS_AT_ONCE:
            say(f"{name} had {saw['most_at_once']} calls at once, more than {CALLS_AT_ONCE}")
    if any(result.stopped):
        say(f"workers that were told to stop ended with {result.stopped}")
    if not {"outage", "500", "429"} <= {fault for saw in result.services.values() for fault in saw["faults"]}:
        say("the services did not misbehave as they should have")
