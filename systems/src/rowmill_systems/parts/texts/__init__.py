"""Detect the encoding of a text, and what separates the cells of a CSV file.

    from rowmill_systems.parts.texts import decode, detect_delimiter

    text = decode("Name;Ort\\nMüller;Köln\\n".encode("cp1252"))
    assert text == "Name;Ort\\nMüller;Köln\\n"
    assert detect_delimiter(text) == ";"

`detect_encoding` reads a file that may be larger than memory.
"""

from rowmill_systems.parts.texts.delimiters import DELIMITERS, detect_delimiter
from rowmill_systems.parts.texts.encodings import declared_charset, decode, detect_encoding, looks_like_text

__all__ = ["DELIMITERS", "declared_charset", "decode", "detect_delimiter", "detect_encoding", "looks_like_text"]
