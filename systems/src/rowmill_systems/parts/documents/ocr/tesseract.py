"""Tesseract, where it is installed. It runs as a program, once per page."""

import csv
import io
import os
import shutil
import subprocess
from functools import cached_property

from PIL import Image

from rowmill_systems.parts.documents.document import Box, Line, Word
from rowmill_systems.parts.documents.errors import OcrFailed, ReadingTimedOut
from rowmill_systems.parts.documents.layout import Spot, lines_of

LANGUAGES = ("eng", "deu", "fra", "spa", "ita", "nld", "por", "pol")
"""Those of these that are installed are used. Each one makes it slower."""
WORD = "5"
"""The level of rows that are words."""
UNSURE = 20.0


class Tesseract:
    name = "tesseract"

    def __init__(self, program: str = "tesseract", *, seconds: float = 60.0) -> None:
        self._program, self._seconds = program, seconds

    @staticmethod
    def installed() -> bool:
        return shutil.which("tesseract") is not None

    def read(self, image: Image.Image) -> tuple[Line, ...]:
        page = io.BytesIO()
        image.convert("RGB").save(page, "BMP")
        languages = "+".join(self._languages)
        answer = self._run("stdin", "stdout", "-l", languages, "--psm", "3", "tsv", given=page.getvalue())
        return lines_of(spots_of(answer, image.size))

    @cached_property
    def _languages(self) -> list[str]:
        installed = set(self._run("--list-langs").split())
        return [language for language in LANGUAGES if language in installed] or ["eng"]

    def _run(self, *arguments: str, given: bytes = b"") -> str:
        try:
            done = subprocess.run(
                [self._program, *arguments],
                input=given,
                capture_output=True,
                timeout=self._seconds,
                check=True,
                env={**os.environ, "OMP_THREAD_LIMIT": "2"},
            )
        except subprocess.TimeoutExpired as error:
            raise ReadingTimedOut("tesseract") from error
        except (OSError, subprocess.CalledProcessError) as error:
            raise OcrFailed("tesseract") from error
        return done.stdout.decode("utf-8", "replace")


def spots_of(answer: str, size: tuple[int, int]) -> list[Spot]:
    """Return the words in tesseract's table."""
    width, height = size
    spots = []
    for row in csv.DictReader(io.StringIO(answer), delimiter="\t", quoting=csv.QUOTE_NONE):
        text = (row.get("text") or "").strip()
        if row["level"] != WORD or not text or float(row["conf"]) < UNSURE:
            continue
        left, top = int(row["left"]), int(row["top"])
        right, bottom = left + int(row["width"]), top + int(row["height"])
        parts = (left / width, top / height, right / width, bottom / height)
        box = Box(*(round(min(max(part, 0.0), 1.0), 5) for part in parts))
        spots.append(Spot(Word(text, box), left, top, right, bottom, (top + bottom) / 2))
    return spots
