"""Articles from the wheel: a feed is synced, classified and served. `python check_articles.py ROWMILL`."""

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from served import check_assets, check_served, get

TITLES = ("Tennis: she wins the final at Wimbledon in three sets", "A rocket carries two astronauts into orbit")
SECONDS = 120


class FeedHandler(BaseHTTPRequestHandler):
    """Answers a small feed; 304 to whoever has it already."""

    def do_GET(self) -> None:
        if self.headers["If-None-Match"] == '"one"':
            self.send_response(304)
            self.end_headers()
            return
        items = "".join(
            f"<item><guid>{number}</guid><title>{title}</title><pubDate>{formatdate()}</pubDate></item>"
            for number, title in enumerate(TITLES)
        )
        body = f'<rss version="2.0"><channel><title>Wheel news</title>{items}</channel></rss>'.encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/rss+xml")
        self.send_header("ETag", '"one"')
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *given: object) -> None: ...


def call(command: str, *words: str) -> dict[str, object]:
    ran = subprocess.run(
        [command, "systems", "articles", *words, "--json"], capture_output=True, text=True, timeout=SECONDS
    )
    assert ran.returncode == 0, ran.stderr
    found: dict[str, object] = json.loads(ran.stdout)
    return found


def work(command: str) -> None:
    """Let a worker classify what waits, and tell it to stop."""
    worker = subprocess.Popen([command, "systems", "articles", "work"])
    try:
        until = time.monotonic() + SECONDS
        while call(command, "stats")["queue"]["completed"] < len(TITLES):  # type: ignore[index]
            assert worker.poll() is None, "the worker ended"
            assert time.monotonic() < until, "nothing is classified"
            time.sleep(0.5)
        worker.terminate()
        assert worker.wait(60) == 0
    finally:
        worker.kill()


def check(url: str) -> None:
    for path in ("/", "/browse", "/interests", "/subscriptions", "/queue"):
        assert get(url + path)[0] == "text/html", path
        check_assets(url + path)
    counts = json.loads(get(url + "/admin/queue-stats")[1])
    assert (counts["completed"], counts["total"]) == (2, 2), counts
    found = json.loads(get(url + "/feed")[1])["articles"]
    topics = {each["title"]: each["topics"] for each in found}
    assert topics[TITLES[0]][0] == "sport.tennis", topics
    assert topics[TITLES[1]][0] == "science.space", topics
    assert json.loads(get(url + "/health/worker")[1])["status"] == "ok"


if __name__ == "__main__":
    command = sys.argv[1]
    server = ThreadingHTTPServer(("127.0.0.1", 0), FeedHandler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as folder:
        database = f"sqlite:///{Path(folder) / 'articles.db'}"
        os.environ |= {"ARTICLES_DATABASE_URL": database, "ARTICLES_ALLOW_PRIVATE_ADDRESSES": "true"}
        call(command, "migrate")
        (added,) = call(command, "add", f"http://127.0.0.1:{server.server_port}/feed")["added"]  # type: ignore[misc,attr-defined]
        assert added["title"] == "Wheel news", added  # type: ignore[index]
        synced = [call(command, "sync") for _ in range(2)]
        assert [(each["new"], each["not_modified"]) for each in synced] == [(2, 0), (0, 1)], synced
        work(command)
        check_served(command, "articles", check)
    server.shutdown()
    print("articles are synced, classified and served from the wheel")
