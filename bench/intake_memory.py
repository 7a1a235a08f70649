"""Ten-page PDFs, hostile ones among them, through the reader of document intake: what becomes of them, in what memory?

    python -m bench.intake_memory [--documents 200] [--json]

The files are made by a process of its own, so that only what reads them is measured. Memory is looked at every few
milliseconds, in the process that asks, in the one that reads, and in both together.
"""

import argparse
import asyncio
import io
import json
import random
import subprocess
import sys
import tempfile
import threading
import time
import zlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import psutil

import rowmill as rm
from rowmill.systems.intake.documents.reader import Reader

SEED, PAGES, BOUND_MB = 7, 10, 600.0
OFTEN = {"text": 90, "broken": 30, "truncated": 25, "encrypted": 20, "scanned": 10, "table": 15, "bomb": 10}
"""How many of two hundred are of which sort."""
WORDS = ("invoice", "amount", "payable", "fourteen", "days", "thank", "order", "delivery", "address", "paper", "total")


def sorts(documents: int) -> list[str]:
    """The same mixture for any number of documents, shuffled; at least one of each."""
    whole = sum(OFTEN.values())
    found = [sort for sort, often in OFTEN.items() for _ in range(max(1, round(documents * often / whole)))]
    random.Random(SEED).shuffle(found)
    return found


def make(folder: Path, documents: int) -> None:
    for number, sort in enumerate(sorts(documents)):
        chance = random.Random(f"{SEED} {number}")
        (folder / f"{number:04}-{sort}.pdf").write_bytes(MAKERS[sort](chance))


def paper(chance: random.Random, *, scans: int = 0, table: bool = False, **options: Any) -> bytes:
    from reportlab.pdfgen.canvas import Canvas  # type: ignore[import-untyped]

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
    from reportlab.lib.utils import ImageReader  # type: ignore[import-untyped]

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
    from reportlab.lib.pdfencrypt import StandardEncryption  # type: ignore[import-untyped]

    return paper(chance, encrypt=StandardEncryption("secret", ownerPassword="owner", strength=128))


def bomb(chance: random.Random) -> bytes:
    """A stream that unpacks to half a gigabyte, or pages without end."""
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
    """The most memory that was seen in us, in the process that reads, and in both together."""

    def __init__(self, reader: Reader) -> None:
        self._reader, self._over = reader, threading.Event()
        self.parent = self.child = self.together = 0
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def _watch(self) -> None:
        us = psutil.Process()
        while not self._over.wait(0.01):
            parent, child, pid = us.memory_info().rss, 0, self._reader.pid
            if pid is not None:
                try:
                    process = psutil.Process(pid)
                    child = sum(one.memory_info().rss for one in (process, *process.children(recursive=True)))
                except psutil.Error:
                    continue
            self.parent, self.child = max(self.parent, parent), max(self.child, child)
            self.together = max(self.together, parent + child)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()


async def read_all(files: list[Path]) -> dict[str, Any]:
    outcomes: dict[str, Counter[str]] = {sort: Counter() for sort in OFTEN}
    scanned = pages = 0
    async with Reader() as reader:
        began = time.perf_counter()
        with Peak(reader) as peak:
            for file in files:
                content = await asyncio.to_thread(file.read_bytes)
                try:
                    document = await reader.read(content, filename=file.name, media_type=None)
                    pages += len(document.pages)
                    scanned += sum(page.scanned for page in document.pages)
                    outcome = "read"
                except rm.WorkError as error:
                    outcome = error.code
                outcomes[file.stem.split("-")[1]][outcome] += 1
        seconds = time.perf_counter() - began
    return {
        "documents": len(files), "pages": pages, "scanned_pages": scanned,
        "outcomes": {sort: dict(counted) for sort, counted in outcomes.items()},
        "seconds": round(seconds, 1), "documents_a_second": round(len(files) / seconds, 2),
        "parent_mb": round(peak.parent / 2**20, 1), "child_mb": round(peak.child / 2**20, 1),
        "together_mb": round(peak.together / 2**20, 1), "bound_mb": BOUND_MB,
    }  # fmt: skip


def show(found: dict[str, Any]) -> str:
    codes = sorted({code for counted in found["outcomes"].values() for code in counted})
    rows = [["sort", *codes]]
    rows += [[sort, *(str(counted.get(code, "")) for code in codes)] for sort, counted in found["outcomes"].items()]
    table = "\n".join("  ".join(cell.rjust(10) for cell in row) for row in rows)
    memory = f"peak MB: parent {found['parent_mb']}, child {found['child_mb']}, together {found['together_mb']}"
    return (
        f"{table}\n{found['documents']} documents, {found['pages']} pages, {found['scanned_pages']} of them "
        f"scanned, in {found['seconds']} s ({found['documents_a_second']} documents/s)\n{memory} "
        f"of {found['bound_mb']:g} allowed"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=200)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--make", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.make:
        make(options.make, options.documents)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "bench.intake_memory", "--documents", str(options.documents), "--make", folder]
        subprocess.run(command, check=True)
        found = asyncio.run(read_all(sorted(Path(folder).iterdir())))
    print(json.dumps(found) if options.json else show(found))
    return 0 if found["together_mb"] <= BOUND_MB else 1


if __name__ == "__main__":
    sys.exit(main())
