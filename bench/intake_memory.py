"""Ten-page PDFs, hostile ones among them, through a worker of document intake: what becomes of them, in what memory?

    python -m bench.intake_memory [--documents 200] [--json]

Memory is looked at every few milliseconds: that of the worker, of the process which reads for it, and of both together.
"""

import argparse
import asyncio
import io
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
import zlib
from collections import Counter
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, Self

import psutil
import sqlalchemy as sa

from rowmill_systems.intake.intake import Intake
from rowmill_systems.intake.models import ProjectFile
from rowmill_systems.intake.settings import IntakeSettings
from rowmill_systems.intake.upload import Upload, add

SEED, PAGES, BOUND_MB = 7, 10, 600.0
OFTEN = {"text": 90, "broken": 30, "truncated": 25, "encrypted": 20, "scanned": 10, "table": 15, "bomb": 10}
"""How many of two hundred documents are of which kind."""
WORDS = ("invoice", "amount", "payable", "fourteen", "days", "thank", "order", "delivery", "address", "paper", "total")


def sorts(documents: int) -> list[str]:
    """Return the same mixture for any number of documents, shuffled, with at least one of each kind."""
    whole = sum(OFTEN.values())
    found = [sort for sort, often in OFTEN.items() for _ in range(max(1, round(documents * often / whole)))]
    random.Random(SEED).shuffle(found)
    return found


def make(folder: Path, documents: int) -> None:
    for number, sort in enumerate(sorts(documents)):
        chance = random.Random(f"{SEED} {number}")
        (folder / f"{number:04}-{sort}.pdf").write_bytes(MAKERS[sort](chance))


def paper(chance: random.Random, *, scans: int = 0, table: bool = False, **options: Any) -> bytes:
    from reportlab.pdfgen.canvas import Canvas

    file = io.BytesIO()
    canvas = Canvas(file, pagesize=(595, 842), invariant=1, **options)
    for page in range(PAGES):
        if page < scans:
            canvas.drawImage(scan(chance), 0, 0, 595, 842)
        else:
            canvas.setFont("Helvetica", 10)
            for row in range(50):
                for column in range(4 if table else 1):
                    canvas.drawString(
                        60 + 130 * column, 790 - 15 * row, " ".join(chance.choices(WORDS, k=2 if table else 14))
                    )
        canvas.showPage()
    canvas.save()
    return file.getvalue()


def scan(chance: random.Random) -> Any:
    from PIL import Image, ImageDraw, ImageFont
    from reportlab.lib.utils import ImageReader

    image = Image.new("L", (1240, 1754), 250)
    for row in range(6):
        text = " ".join(chance.choices(WORDS, k=6))
        ImageDraw.Draw(image).text((120, 120 + 60 * row), text, fill=20, font=ImageFont.load_default(26))
    return ImageReader(image)


def broken(chance: random.Random) -> bytes:
    file = bytearray(paper(chance))
    for _ in range(chance.randint(1, 200)):
        file[chance.randrange(8, len(file))] = chance.randrange(256)
    return bytes(file)


def truncated(chance: random.Random) -> bytes:
    file = paper(chance)
    return file[: chance.randrange(8, len(file))]


def encrypted(chance: random.Random) -> bytes:
    from reportlab.lib.pdfencrypt import StandardEncryption

    return paper(chance, encrypt=StandardEncryption("secret", ownerPassword="owner", strength=128))


def bomb(chance: random.Random) -> bytes:
    """Return a PDF whose stream unpacks to half a gigabyte, or with endless pages."""
    packer = zlib.compressobj(9)
    spaces = b" " * 2**20
    packed = b"".join(packer.compress(spaces) for _ in range(500)) + packer.flush() if chance.random() < 0.5 else b""
    kids = b"3 0 R " * (1 if packed else 5_000)
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[%s]/Count %d>>" % (kids, kids.count(b"R")),
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 595 842]/Contents 4 0 R>>",
        b"<</Filter/FlateDecode/Length %d>>stream\n%s\nendstream" % (len(packed), packed),
    ]
    body = b"".join(b"%d 0 obj\n%s\nendobj\n" % (number, one) for number, one in enumerate(objects, 1))
    return b"%PDF-1.5\n" + body + b"trailer<</Size 5/Root 1 0 R>>\n%%EOF"


MAKERS: dict[str, Callable[[random.Random], bytes]] = {
    "text": paper,
    "table": lambda chance: paper(chance, table=True),
    "scanned": lambda chance: paper(chance, scans=1),
    "broken": broken,
    "truncated": truncated,
    "encrypted": encrypted,
    "bomb": bomb,
}


class Peak:
    """The most memory that was observed in a worker, in its reader process, and in both together."""

    def __init__(self, pid: int) -> None:
        self._worker, self._over = psutil.Process(pid), threading.Event()
        self.worker = self.reader = self.together = 0
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def _watch(self) -> None:
        while not self._over.wait(0.01):
            try:
                worker = self._worker.memory_info().rss
                reader = sum(child.memory_info().rss for child in self._worker.children(recursive=True))
            except psutil.Error:
                continue
            self.worker, self.reader = max(self.worker, worker), max(self.reader, reader)
            self.together = max(self.together, worker + reader)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()


async def put_in(intake: Intake, files: list[Path]) -> None:
    await intake.migrate()
    for file in files:
        await add(intake, Upload(1, 1, file.name), chunks_of(file))


async def chunks_of(file: Path) -> AsyncIterator[bytes]:
    yield await asyncio.to_thread(file.read_bytes)


async def until_final(intake: Intake, worker: "subprocess.Popen[bytes]") -> list[Any]:
    """Wait until all files are final. Return their rows."""
    wanted = sa.select(
        ProjectFile.filename, ProjectFile.processing_status, ProjectFile.processing_error, ProjectFile.page_count
    )
    while True:
        rows = await intake.mill.run(lambda connection: connection.execute(wanted).all(), write=False)
        if all(row.processing_status in ("completed", "failed") for row in rows):
            return list(rows)
        if worker.poll() is not None:
            raise RuntimeError(f"the worker ended with {worker.returncode}")
        await asyncio.sleep(0.5)


def start_worker(environment: dict[str, str]) -> "subprocess.Popen[bytes]":
    return subprocess.Popen([sys.executable, "-m", "rowmill", "systems", "intake", "work"], env=environment)


async def read_all(files: list[Path], folder: Path) -> dict[str, Any]:
    intake = Intake(IntakeSettings(database_url=f"sqlite:///{folder / 'intake.db'}", storage=str(folder / "files")))
    async with intake.opened():
        await put_in(intake, files)
        given = os.environ | {"INTAKE_DATABASE_URL": str(intake.mill.url), "INTAKE_STORAGE": intake.settings.storage}
        began = time.perf_counter()
        worker = start_worker(given)
        try:
            with Peak(worker.pid) as peak:
                rows = await until_final(intake, worker)
            seconds = time.perf_counter() - began
            worker.terminate()
            ended = await asyncio.to_thread(worker.wait, 60)
        finally:
            worker.kill()
    outcomes: dict[str, Counter[str]] = {sort: Counter() for sort in OFTEN}
    for row in rows:
        code = "read" if row.processing_status == "completed" else row.processing_error.split(":")[0]
        outcomes[Path(row.filename).stem.split("-")[1]][code] += 1
    return {
        "documents": len(rows), "pages": sum(row.page_count or 0 for row in rows if row.processing_error is None),
        "outcomes": {sort: dict(counted) for sort, counted in outcomes.items()}, "worker_ended_with": ended,
        "seconds": round(seconds, 1), "documents_a_second": round(len(files) / seconds, 2),
        "worker_mb": round(peak.worker / 2**20, 1), "reader_mb": round(peak.reader / 2**20, 1),
        "together_mb": round(peak.together / 2**20, 1), "bound_mb": BOUND_MB,
    }  # fmt: skip


def show(found: dict[str, Any]) -> str:
    codes = sorted({code for counted in found["outcomes"].values() for code in counted})
    rows = [["sort", *codes]]
    rows += [[sort, *(str(counted.get(code, "")) for code in codes)] for sort, counted in found["outcomes"].items()]
    table = "\n".join("  ".join(cell.rjust(10) for cell in row) for row in rows)
    memory = f"peak MB: worker {found['worker_mb']}, its reader {found['reader_mb']}, together {found['together_mb']}"
    return (
        f"{table}\n{found['documents']} documents final, {found['pages']} pages read, in {found['seconds']} s "
        f"({found['documents_a_second']} documents/s)\n{memory} of {found['bound_mb']:g} allowed"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=200)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        make(Path(folder), options.documents)
        with tempfile.TemporaryDirectory() as place:
            found = asyncio.run(read_all(sorted(Path(folder).iterdir()), Path(place)))
    print(json.dumps(found) if options.json else show(found))
    return 0 if found["together_mb"] <= BOUND_MB else 1


if __name__ == "__main__":
    sys.exit(main())
