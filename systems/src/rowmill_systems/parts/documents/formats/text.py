"""Plain text. Form feeds separate pages."""

from rowmill_systems.parts.documents.reading import Contents, ReadingState, plain_lines
from rowmill_systems.parts.texts import decode


def read(file_bytes: bytes, reading: ReadingState) -> Contents:
    parts = decode(file_bytes).strip("\f").split("\f")
    reading.progress(1, len(parts))
    return Contents(tuple(reading.page(number, plain_lines([part])) for number, part in enumerate(parts, 1)))
