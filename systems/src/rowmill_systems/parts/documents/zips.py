"""Open zips safely.

Python's zipfile never unpacks more of an entry than the directory declares, so that a directory that declares too
little makes a broken file, and not a large one. It is enough to add up the declared sizes; overlapping entries count
each.
"""

import io
import re
import zipfile
import zlib

from rowmill_systems.parts.documents.errors import CorruptFile, EncryptedFile
from rowmill_systems.parts.documents.limits import MB, DocumentLimits

ENTRY = b"PK\x01\x02"
TYPES = "[Content_Types].xml"
MAIN = re.compile(r"""ContentType\s*=\s*["']([^"']+\.main\+xml)["']""")
DTD = tuple("<!DOCTYPE".encode(encoding) for encoding in ("ascii", "utf-16-le", "utf-16-be"))
BROKEN = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, ValueError, KeyError, OSError)


def open_zip(file_bytes: bytes, limits: DocumentLimits) -> zipfile.ZipFile:
    """Open a zip. Raises FileTooLarge for zip bombs before anything is unpacked, EncryptedFile and CorruptFile."""
    # Before zipfile makes an object for each of a million entries.
    limits.check("entries of the zip", file_bytes.count(ENTRY), limits.zip_entries)
    try:
        archive = zipfile.ZipFile(io.BytesIO(file_bytes))
    except BROKEN as error:
        raise CorruptFile("a broken zip") from error
    entries = archive.infolist()
    if any(entry.flag_bits & 1 for entry in entries):
        raise EncryptedFile("a zip with a password")
    limits.check("unpacked bytes of the zip", sum(entry.file_size for entry in entries), limits.unpacked_bytes)
    for entry in entries:
        if entry.file_size > MB:
            limits.check("ratio of the zip", entry.file_size // max(entry.compress_size, 1), limits.zip_ratio)
    return archive


def main_content_type(archive: zipfile.ZipFile) -> str:
    """Return the content type that an office file declares; an empty text for other zips."""
    if TYPES not in archive.namelist():
        return ""
    try:
        with archive.open(TYPES) as part:
            found = MAIN.search(part.read(MB).decode("utf-8", "replace"))
    except BROKEN as error:
        raise CorruptFile("a broken zip") from error
    return found[1] if found else ""


def refuse_dtds(archive: zipfile.ZipFile) -> None:
    """Raise CorruptFile if an office file has a document type: it would serve to expand entities, or to read other
    files."""
    for entry in archive.infolist():
        if entry.filename.endswith((".xml", ".rels", ".vml")):
            try:
                with archive.open(entry) as part:
                    start = part.read(65536)
            except BROKEN as error:
                raise CorruptFile("a broken zip") from error
            if any(mark in start for mark in DTD):
                raise CorruptFile("a document type in a part of an office file")
