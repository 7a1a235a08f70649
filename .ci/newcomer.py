"""Do what the README and the first guides say, with nothing but the wheel: python .ci/newcomer.py WHEEL CONSTRAINTS

Every command and file is taken from the pages: the virtual environment, the installation, a queue on SQLite, and on a
PostgreSQL of its own. What a command says has to be what its page shows.
"""

import sys
import tempfile
from pathlib import Path

from tests.docs.transcript import Command, Terminal, plain_environment
from tests.support.databases import fresh_database
from tests.support.nats import free_port
from tests.support.postgres import TemporaryPostgres, in_memory

ROOT = Path(__file__).parents[1]
PAGE_URL = "postgresql+psycopg://app:secret@localhost:5432/app"


def main(wheel: str, constraints: str) -> None:
    server = TemporaryPostgres({"shared_buffers": "64MB"}, root=in_memory())
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        environment = plain_environment() | {
            "PIP_CONSTRAINT": str(Path(constraints).resolve()), "PIP_DISABLE_PIP_VERSION_CHECK": "1"
        }  # fmt: skip
        for name in ("PYTHONPATH", "VIRTUAL_ENV"):
            environment.pop(name, None)
        server.start()
        try:
            with fresh_database(server.url) as one, fresh_database(server.url) as other:
                start = folder / "start"
                follow(start, environment, "docs/guides/start.md", one, wheel)
                inside = environment | {"PATH": f"{start / '.venv/bin'}:{environment['PATH']}"}
                follow(start, inside, "docs/guides/testing.md", None, wheel)
                follow(folder / "readme", inside, "README.md", None, wheel)
                follow(folder / "readme-on-postgres", inside, "README.md", other, wheel)
                follow(folder / "fastapi", inside, "docs/guides/fastapi.md", None, wheel)
                follow(folder / "sqlmodel", inside, "docs/guides/sqlmodel.md", None, wheel)
        finally:
            server.stop()


def follow(folder: Path, environment: dict[str, str], name: str, database: str | None, wheel: str) -> None:
    folder.mkdir(exist_ok=True)
    page = (ROOT / name).read_text()
    url, port = (database or "").replace("postgresql:", "postgresql+psycopg:"), free_port()
    replace = {
        PAGE_URL: url,
        "install rowmill": f"install {wheel}",  # what the package index would serve
        "127.0.0.1:8000": f"127.0.0.1:{port}",
        "uvicorn main:app": f"uvicorn main:app --port {port}",
    }
    with Terminal(folder, environment, replace) as terminal:
        if database is not None and PAGE_URL not in page:
            terminal.run(Command(f"export DATABASE_URL={url}", ""))
        commands = terminal.follow(page)
    on = "PostgreSQL" if database else "SQLite"
    print(f"{name} on {on}: {commands} commands do what the page says", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
