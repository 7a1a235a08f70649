"""From bytes to text, when nobody or the wrong one says how it is encoded."""

import codecs
import re

BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
"""UTF-32 first: its mark begins with the one of UTF-16."""
CONTROLS = bytes(set(range(32)) - set(b"\t\n\r\f\x1b\x0b\x08"))
UNFIT = re.compile("[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]")
CHARSET = re.compile(r"charset\s*=\s*[\"']?([\w.:-]+)", re.I)


def clean(text: str) -> str:
    """Without control characters and halves of characters: databases refuse them, and nobody sees them."""
    return UNFIT.sub("", text)


def bare_utf16(start: bytes) -> str | None:
    """UTF-16 without a mark: of western text, every other byte is zero."""
    even, odd = start[0::2].count(0), start[1::2].count(0)
    if odd > len(start) * 0.4 and even == 0:
        return "utf-16-le"
    if even > len(start) * 0.4 and odd == 0:
        return "utf-16-be"
    return None


def looks_like_text(file_bytes: bytes) -> bool:
    start = file_bytes[:65536]
    if any(start.startswith(bom) for bom, _ in BOMS) or bare_utf16(start[:4096]):
        return True
    controls = len(start) - len(start.translate(None, CONTROLS))
    return b"\0" not in start and controls * 100 <= len(start)


def charset_of(said: str | None) -> str | None:
    """The charset in `text/html; charset=latin-1`, if Python knows it."""
    found = CHARSET.search(said or "")
    try:
        return codecs.lookup(found[1]).name if found else None
    except LookupError:
        return None


def decode(file_bytes: bytes, charset: str | None = None) -> str:
    """The mark at the start wins, then UTF-8 if it is that, then what was said, then Windows' western code page.

    UTF-8 goes before what was said: text of another encoding is hardly ever valid UTF-8 by chance, and labels lie.
    """
    for bom, encoding in BOMS:
        if file_bytes.startswith(bom):
            return file_bytes.decode(encoding, "replace")
    if bare := bare_utf16(file_bytes[:4096]):
        return file_bytes.decode(bare, "replace")
    try:
        return file_bytes.decode("utf-8")
    except UnicodeDecodeError:
        return _decode_as(file_bytes, charset)


def _decode_as(file_bytes: bytes, charset: str | None) -> str:
    if charset and charset not in ("utf-8", "ascii", "iso8859-1"):  # browsers, too, take latin-1 to be cp1252
        try:
            return file_bytes.decode(charset, "replace")
        except (LookupError, UnicodeError):  # a codec of Python that is not for text
            pass
    return file_bytes.decode("cp1252", "replace")
