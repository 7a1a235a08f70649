"""Knowledge bases from the wheel: a document is added, found and served. `python check_knowledge.py ROWMILL`."""

import json
import os
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from pathlib import Path

from served import check_assets, check_served, get

TEXT = "# Hotels\n\nA night in a hotel may cost 140 euros.\n\n# Trains\n\nTrains are booked in second class.\n"
EMAIL, PASSWORD = "ann@example.org", "only for this check"
SECONDS = 120


def call(command: str, *words: str, given: str = "") -> dict[str, object]:
    ran = subprocess.run(
        [command, "systems", "knowledge", *words, "--json"],
        capture_output=True,
        text=True,
        input=given,
        timeout=SECONDS,
    )
    assert ran.returncode == 0, ran.stderr
    found: dict[str, object] = json.loads(ran.stdout)
    return found


def ask(url: str, path: str, token: str = "", given: object = None) -> dict[str, object]:
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
    body = None if given is None else json.dumps(given).encode()
    with urllib.request.urlopen(urllib.request.Request(url + path, body, headers), timeout=30) as answer:
        found: dict[str, object] = json.load(answer)
        return found


def check(url: str) -> None:
    assert get(url + "/login")[0] == "text/html"
    check_assets(url + "/login")
    token = str(ask(url, "/api/v1/login", given={"email": EMAIL, "password": PASSWORD})["token"])
    hits = ask(url, "/api/v1/search", token, {"query": "price of a hotel room"})["hits"]
    assert [hit["filename"] for hit in hits][:1] == ["travel.md"], hits  # type: ignore[attr-defined]
    stats = ask(url, "/api/v1/admin/outbox/stats", token)
    assert (stats["pending_events"], stats["failed_events"]) == (0, 0), stats
    assert refusal(url + "/api/v1/admin/outbox/stats") == 401


def refusal(url: str) -> int:
    """Return the status of an answer that is no success; 0 for a success."""
    try:
        get(url)
    except urllib.error.HTTPError as error:
        return error.code
    return 0


if __name__ == "__main__":
    command = sys.argv[1]
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {
            "KNOWLEDGE_DATABASE_URL": f"sqlite:///{Path(folder) / 'knowledge.db'}",
            "KNOWLEDGE_STORAGE": str(Path(folder) / "files"),
            "KNOWLEDGE_VECTORS": str(Path(folder) / "vectors.db"),
        }
        paper = Path(folder) / "travel.md"
        paper.write_text(TEXT)
        call(command, "migrate")
        (added,) = call(command, "add", str(paper), "--kb", "Handbook")["documents"]  # type: ignore[misc,attr-defined]
        assert added["status"] == "ready", added  # type: ignore[index]
        assert call(command, "fsck")["clean"]
        call(command, "users", "add", EMAIL, "--superuser", "--password-stdin", given=f"{PASSWORD}\n")
        check_served(command, "knowledge", check)
    print("documents are added, found, served and consistent from the wheel")
