"""A file linked from the command line, by services over real HTTP."""

import asyncio
import csv
import json
import re
from pathlib import Path

from demos.entities.plan import Plan
from demos.entities.server import Server
from rowmill_systems.parts.names.types import EntityType
from systems.tests.shell import Shell

NAMES = 12


def shell_for(server: Server, url: str, folder: Path) -> Shell:
    settings = {name: value if isinstance(value, str) else json.dumps(value) for name, value in server.settings.items()}
    given = {f"ENTITIES_{name.upper()}": value for name, value in settings.items()} | {
        "ENTITIES_DATABASE_URL": url,
        "ENTITIES_CONTACT": "team@example.org",
        "ENTITIES_CALLS_PER_SECOND": "1000",
        "ROWMILL_POLL_BASE": "0.02",
        "ROWMILL_POLL_MAX": "0.2",
    }
    return Shell("entities", folder, given)


def requests(server: Server) -> int:
    return sum(len(count.arrivals) for count in server.counts.values())


async def test_a_service_that_asks_to_wait_is_waited_for_and_nobody_is_asked_twice(
    sqlite_url: str, tmp_path: Path, server: Server
) -> None:
    """The second run of the file makes no call at all."""
    people = [thing.name for thing in server.world.of_type(EntityType.PERSON)]
    unique = [name for name in people if people.count(name) == 1][:NAMES]
    (tmp_path / "in.csv").write_text("".join(f"{name}\n" for name in ["name", *unique]))
    server.plan = Plan(next={"wikidata": ["429"]}, retry_after=5)
    shell = shell_for(server, sqlite_url, tmp_path)
    words = ("link", "in.csv", "-c", "name", "--type", "person", "--sources", "wikidata,dbpedia")
    first = await asyncio.to_thread(shell.call, *words, "-o", "out.csv")
    said = first.stderr.decode()
    assert first.returncode == 0, said
    assert re.search(r"^waiting for wikidata until \d\d:\d\d UTC$", said, re.MULTILINE)
    with (tmp_path / "out.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["name"] for row in rows] == unique
    ids = {thing.name: thing.wikidata_id for thing in server.world.of_type(EntityType.PERSON)}
    linked = [row for row in rows if row["wikidata_id"]]
    assert len(linked) >= NAMES // 2
    assert all(row["wikidata_id"] == ids[row["name"]] for row in linked)
    assert any(row["entity_birth_date"] for row in linked)
    before = requests(server)
    assert before > NAMES
    again = await asyncio.to_thread(shell.call, *words)
    assert again.returncode == 0, again.stderr
    assert again.stdout == (tmp_path / "out.csv").read_bytes()
    assert requests(server) == before
