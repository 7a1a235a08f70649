"""Do what the README and the first guide say, with nothing but the wheel: python .ci/newcomer.py WHEEL CONSTRAINTS

Every command and file is taken from the pages: the virtual environment, the installation, a queue on SQLite, and on a
PostgreSQL of its own. What a command says has to be what its page shows.
"""

import sys
import tempfile
from pathlib import Path

from tests.docs.transcript import Command, Terminal, plain_environment
from tests.support.databases import fresh_database
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
            start, readme = ((ROOT / page).read_text() for page in ("docs/guides/start.md", "README.md"))
            with fresh_database(server.url) as one, fresh_database(server.url) as other:
                follow(folder / "start", environment, start, one, wheel)
                inside = environment | {"PATH": f"{folder / 'start/.venv/bin'}:{environment['PATH']}"}
                follow(folder / "readme", inside, readme, None, wheel)
                follow(folder / "readme-on-postgres", inside, readme, other, wheel)
        finally:
            server.stop()


def follow(folder: Path, environment: dict[str, str], page: str, database: str | None, wheel: str) -> None:
    folder.mkdir()
    url = (database or "").replace("postgresql:", "postgresql+psycopg:")
    # What the package index would serve is the wheel.
    with Terminal(folder, environment, {PAGE_URL: url, "install rowmill": f"install {wheel}"}) as terminal:
        if database is not None and PAGE_URL not in page:
            terminal.run(Command(f"export DATABASE_URL={url}", ""))
        commands = terminal.follow(page)
    print(f"{folder.name}: {commands} commands do what the page says")


if __name__ == "__main__":
    main(*sys.argv[1:])
