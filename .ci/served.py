"""A system that serves, started by the command of the wheel and told to stop at the end."""

import subprocess
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
