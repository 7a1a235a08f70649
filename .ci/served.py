"""A system that serves, started by the command of the wheel and told to stop at the end."""

import re
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Callable


def get(url: str) -> tuple[str, bytes]:
    with urllib.request.urlopen(url, timeout=30) as answer:
        return answer.headers.get_content_type(), answer.read()


def check_served(command: str, system: str, check: Callable[[str], None]) -> None:
    server = subprocess.Popen(
        [command, "systems", system, "serve", "--port", "0", "--with-worker"], stderr=subprocess.PIPE, text=True
    )
    try:
        assert server.stderr is not None
        line = next(line for line in server.stderr if line.startswith("serving on "))
        check(line.split()[-1])
        server.terminate()
        assert server.wait(60) == 0
    finally:
        server.kill()


def check_assets(url: str) -> None:
    """Every style sheet, script and picture that a page asks for is in the wheel."""
    page = get(url)[1].decode()
    paths = re.findall(r'(?:href|src)="([^"]*/static/[^"]+)"', page)
    for kind in (".css", ".js"):
        assert any(kind in path for path in paths), paths
    for path in paths:
        assert get(urllib.parse.urljoin(url, path))[1], path
