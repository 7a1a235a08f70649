"""Detect the kind of a file by its bytes. The uploader's claim decides only between kinds of text."""

import re
from dataclasses import dataclass
from pathlib import PurePath

from rowmill_systems.parts.documents.document import Kind
from rowmill_systems.parts.documents.errors import EncryptedFile, UnsupportedFile
from rowmill_systems.parts.documents.limits import DocumentLimits
from rowmill_systems.parts.documents.zips import main_content_type, open_zip
from rowmill_systems.parts.texts import looks_like_text

OOXML = "application/vnd.openxmlformats-officedocument."
OFFICE = {
    "wordprocessingml.document": Kind.DOCX,
    "spreadsheetml.sheet": Kind.XLSX,
    "presentationml.presentation": Kind.PPTX,
}
IMAGES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"II*\x00", "image/tiff"),
    (b"MM\x00*", "image/tiff"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)
PRINTED = (b"{\\rtf", b"%!PS")
"""Starts of files that are text, but not for people."""
OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
TEXTS = {
    "csv": Kind.CSV, "tsv": Kind.CSV, "text/csv": Kind.CSV, "text/tab-separated-values": Kind.CSV,
    "html": Kind.HTML, "htm": Kind.HTML, "xhtml": Kind.HTML, "text/html": Kind.HTML, "application/xhtml+xml": Kind.HTML,
    "eml": Kind.EMAIL, "message/rfc822": Kind.EMAIL,
    "txt": Kind.TEXT, "text": Kind.TEXT, "md": Kind.TEXT, "log": Kind.TEXT,
}  # fmt: skip
"""By extension or media type. Without text/plain, which browsers say of every file that they don't know."""
MEDIA_TYPES = {Kind.CSV: "text/csv", Kind.HTML: "text/html", Kind.EMAIL: "message/rfc822", Kind.TEXT: "text/plain"}
# Atomic: comments without end would otherwise be parted in every possible way.
HTML_START = re.compile(rb"(?>(?:\s|<!--.*?-->|<\?xml.*?\?>)*)<(!doctype\s+html|html|head|body)\b", re.I | re.S)
MAIL_HEADER = re.compile(
    rb"^(from|to|subject|date|received|return-path|message-id|mime-version|delivered-to):", re.I | re.M
)


@dataclass(frozen=True, slots=True)
class Sniffed:
    kind: Kind
    media_type: str


def sniff(file_bytes: bytes, *, filename: str, media_type: str | None, limits: DocumentLimits) -> Sniffed:
    """Return the kind of a file.

    Raises UnsupportedFile if no format reads it, and EncryptedFile for an office file with a password.
    """
    start = file_bytes[:1024]
    if b"%PDF-" in start:  # readers of PDFs let up to a kilobyte stand before it
        return Sniffed(Kind.PDF, "application/pdf")
    if image := _image_type(start):
        return Sniffed(Kind.IMAGE, image)
    if start.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return _office(file_bytes, limits)
    if start.startswith(OLE):
        if "EncryptedPackage".encode("utf-16-le") in file_bytes:
            raise EncryptedFile("an office file with a password")
        raise UnsupportedFile("an office file of the formats before 2007")
    if start.startswith(PRINTED) or not looks_like_text(file_bytes):
        raise UnsupportedFile("not a kind of file that can be read here")
    kind = _text_kind(file_bytes[:8192], filename, media_type)
    return Sniffed(kind, MEDIA_TYPES[kind])


def _image_type(start: bytes) -> str | None:
    for magic, media_type in IMAGES:
        if start.startswith(magic):
            return media_type
    if start[:4] == b"RIFF" and start[8:12] == b"WEBP":
        return "image/webp"
    if start[:2] == b"BM" and start[6:10] == bytes(4) and start[14:18] in (b"\x28\0\0\0", b"\x6c\0\0\0", b"\x7c\0\0\0"):
        return "image/bmp"
    return None


def _office(file_bytes: bytes, limits: DocumentLimits) -> Sniffed:
    with open_zip(file_bytes, limits) as archive:
        found = main_content_type(archive)
    for name, kind in OFFICE.items():
        if found == f"{OOXML}{name}.main+xml":
            return Sniffed(kind, f"{OOXML}{name}")
    raise UnsupportedFile("a zip that is not a docx, xlsx or pptx")


def _text_kind(start: bytes, filename: str, media_type: str | None) -> Kind:
    extension = PurePath(filename).suffix.lower().lstrip(".")
    said = (media_type or "").split(";")[0].strip().lower()
    if hint := TEXTS.get(extension) or TEXTS.get(said):
        return hint
    if HTML_START.match(start):
        return Kind.HTML
    head = start.replace(b"\r\n", b"\n").split(b"\n\n")[0]
    if MAIL_HEADER.match(head) and len({name.lower() for name in MAIL_HEADER.findall(head)}) >= 3:
        return Kind.EMAIL
    return Kind.TEXT
