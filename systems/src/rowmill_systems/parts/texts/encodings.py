"""Detect how bytes encode a text."""

import codecs
import re
from typing import BinaryIO

import chardet

BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
"""UTF-32 first: its mark begins with the one of UTF-16."""
LEGACY = (
    "cp1250", "cp1251", "cp1252", "cp1253", "cp1254", "cp1255", "cp1256", "cp1257",
    "iso8859-1", "iso8859-2", "iso8859-5", "iso8859-7", "iso8859-9", "iso8859-15", "koi8-r", "koi8-u",
    "cp437", "cp850", "cp852", "cp866", "mac-roman", "mac-cyrillic",
    "cp932", "shift_jis_2004", "euc_jis_2004", "iso2022_jp_2", "gb18030", "big5hkscs", "cp949",
)  # fmt: skip
"""Encodings that programs still write. Others win only by mistake: on short texts, many encodings look alike."""
CHUNK = 1024 * 1024
SAMPLE = 200_000
"""Bytes from which an encoding is guessed."""
CONTROLS = bytes(set(range(32)) - set(b"\t\n\r\f\x1b\x0b\x08"))
ESCAPES = re.compile(rb"\x1b\$[@B]")
CHARSET = re.compile(r"charset\s*=\s*[\"']?([\w.:-]+)", re.I)


def decode(content: bytes, declared: str | None = None) -> str:
    """Decode bytes to text. What can't be decoded becomes U+FFFD.

    A byte order mark decides; then UTF-8, if the bytes are valid UTF-8; then the `declared` encoding; then a guess by
    the bytes. UTF-8 goes before the declaration: text in another encoding is hardly ever valid UTF-8 by chance, and
    declarations are often wrong.
    """
    encoding = _marked_encoding(content[:4096])
    if encoding is not None:
        return content.decode(encoding, "replace")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        at = error.start
    if declared == "iso8859-1":
        declared = "cp1252"  # as browsers do
    if declared and declared not in ("utf-8", "ascii"):
        try:
            return content.decode(declared, "replace")
        except (LookupError, UnicodeError):  # a codec of Python that is not for text
            pass
    return content.decode(_guess(content, at), "replace")


def detect_encoding(file: BinaryIO) -> str:
    """Return the encoding of a file that may be larger than memory, in the same order as `decode`.

    The whole file is read once: the first character outside of ASCII may be the last of the file.
    """
    file.seek(0)
    encoding = _marked_encoding(file.read(4096))
    if encoding is not None:
        return encoding
    file.seek(0)
    decoder = codecs.getincrementaldecoder("utf-8")()
    before = b""
    while True:
        chunk = file.read(CHUNK)
        try:
            decoder.decode(chunk, not chunk)
        except UnicodeDecodeError:
            seen = before[-SAMPLE:] + chunk + file.read(SAMPLE)
            return _guess(seen, _first_invalid(seen))
        if not chunk:
            return "utf-8"
        before = chunk


def declared_charset(declaration: str | None) -> str | None:
    """Return the charset of a declaration such as `text/html; charset=latin-1`, if Python knows it."""
    found = CHARSET.search(declaration or "")
    try:
        return codecs.lookup(found[1]).name if found else None
    except LookupError:
        return None


def looks_like_text(content: bytes) -> bool:
    """Tell whether the start of a file is text in any encoding."""
    start = content[:65536]
    if _marked_encoding(start[:4096]) is not None:
        return True
    controls = len(start) - len(start.translate(None, CONTROLS))
    return b"\0" not in start and controls * 100 <= len(start)


def _marked_encoding(start: bytes) -> str | None:
    """Detect an encoding by its byte order mark; UTF-16 without one by the zeros in western text; the Japanese one that
    is ASCII with escape sequences by these."""
    for mark, encoding in BYTE_ORDER_MARKS:
        if start.startswith(mark):
            return encoding
    even, odd = start[0::2].count(0), start[1::2].count(0)
    if odd > len(start) * 0.4 and even == 0:
        return "utf-16-le"
    if even > len(start) * 0.4 and odd == 0:
        return "utf-16-be"
    return "iso2022_jp_2" if ESCAPES.search(start) else None


def _guess(content: bytes, at: int) -> str:
    """Guess from the bytes around the first one that is not UTF-8: long stretches of ASCII tell nothing."""
    sample = content[max(at - SAMPLE // 2, 0) :][:SAMPLE]
    found = chardet.detect(sample, compat_names=False, include_encodings=LEGACY)["encoding"]
    return codecs.lookup(found or "cp1252").name


def _first_invalid(content: bytes) -> int:
    try:
        content.decode("utf-8")
    except UnicodeDecodeError as error:
        return error.start
    return 0
