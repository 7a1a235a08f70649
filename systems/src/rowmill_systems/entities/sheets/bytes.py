"""The bytes of a file: which text they are, and a digest of them."""

import codecs
import hashlib
from dataclasses import dataclass
from typing import BinaryIO

from rowmill_systems.entities.sheets.errors import BadSheet

CHUNK = 1024 * 1024
BOM = b"\xef\xbb\xbf"
UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
SPREADSHEETS = (b"PK\x03\x04", b"\xd0\xcf\x11\xe0")
"""How files of Excel and LibreOffice begin."""


@dataclass(frozen=True, slots=True)
class Bytes:
    encoding: str
    from_spreadsheet: bool
    """It has a byte order mark, or is in the encoding of an older Windows: whoever made it reads it again best so."""
    digest: str


def look_at(file: BinaryIO) -> Bytes:
    """UTF-8; or UTF-16, if it says so; or Windows-1252, if it can't be UTF-8."""
    file.seek(0)
    start = file.read(4)
    if start.startswith(SPREADSHEETS):
        raise BadSheet("it is a spreadsheet. Save it as CSV, in UTF-8")
    candidates = ["utf-16"] if start.startswith(UTF_16) else ["utf-8-sig", "cp1252"]
    decoders = {name: codecs.getincrementaldecoder(name)() for name in candidates}
    digest = hashlib.sha256()
    file.seek(0)
    while True:
        chunk = file.read(CHUNK)
        digest.update(chunk)
        for name in list(decoders):
            try:
                decoders[name].decode(chunk, not chunk)
            except UnicodeDecodeError:
                del decoders[name]
        if not decoders:
            raise BadSheet("it is neither UTF-8 nor Windows-1252. Save it as UTF-8")
        if not chunk:
            break
    encoding = next(iter(decoders))
    return Bytes(encoding, start.startswith(BOM) or encoding != "utf-8-sig", digest.hexdigest())
