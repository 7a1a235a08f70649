"""Entities as installed from the wheel: they serve their pages, take an entity in, link it with the knowledge base that
is embedded, and do the same for a file."""

import csv
import io
import json
import subprocess
import sys
import time
import urllib.request
from typing import Any

from served import check_assets, check_served, get

SECONDS = 60.0
BERLIN = {"name": "Berlin", "entity_type": "place"}


def check(url: str) -> None:
    for path in ("/", "/browse"):
        assert get(url + path)[0] == "text/html", path
        check_assets(url + path)
    assert "paths" in json.loads(get(url + "/openapi.json")[1])
    sent = urllib.request.Request(url + "/entities", json.dumps(BERLIN).encode(), {"content-type": "application/json"})
    with urllib.request.urlopen(sent, timeout=30) as answer:
        place = answer.headers["location"]
    deadline = time.monotonic() + SECONDS
    entity: dict[str, Any] = {}
    while entity.get("enrichment_status") not in ("COMPLETE", "FAILED"):
        assert time.monotonic() < deadline, entity
        time.sleep(0.2)
        entity = json.loads(get(url + place)[1])
    assert (entity["wikidata_id"], entity["linking_source"]) == ("Q64", "embedded"), entity
    assert entity["enriched_properties"], entity
    assert "https://www.wikidata.org/wiki/Q64" in get(f"{url}/browse/{entity['id']}")[1].decode()


def check_file(command: str) -> None:
    done = subprocess.run(
        [command, "systems", "entities", "link", "-", "--column", "city", "--type", "place"],
        input="city;note\nBerlin;capital\n", capture_output=True, text=True, timeout=SECONDS,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    [row] = csv.DictReader(io.StringIO(done.stdout), delimiter=";")
    assert (row["note"], row["wikidata_id"]) == ("capital", "Q64"), done.stdout


def main(command: str) -> None:
    check_served(command, "entities", check)
    check_file(command)
    print("entities serve from the wheel, and are linked")


if __name__ == "__main__":
    main(sys.argv[1])
