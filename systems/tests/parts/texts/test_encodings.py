"""Text is decoded in the encoding that it was written in."""

import io
from collections.abc import Iterator

import pytest

from rowmill_systems.parts.texts import declared_charset, decode, detect_encoding, looks_like_text
from systems.tests.parts.texts.samples import LETTERS, TABLES


def written() -> Iterator[tuple[str, str, str]]:
    """Yield language, encoding and text: whole letters, their last line alone, and small tables."""
    for language, (text, encodings) in LETTERS.items():
        for encoding in encodings:
            for part in (text, text[-50:]):
                yield language, encoding, part.encode(encoding, "ignore").decode(encoding)
    for language, (text, encodings) in TABLES.items():
        for encoding in encodings:
            yield language, encoding, text


def test_nineteen_of_twenty_texts_in_old_encodings_are_decoded() -> None:
    cases = list(written())
    wrong = [(language, encoding) for language, encoding, text in cases if decode(text.encode(encoding)) != text]
    assert len(wrong) <= len(cases) / 20, wrong


@pytest.mark.parametrize("language", ["German", "French", "Swedish", "Polish", "Russian", "Greek", "Japanese"])
def test_a_letter_is_decoded(language: str) -> None:
    text, encodings = LETTERS[language]
    for encoding in encodings:
        shown = text.encode(encoding, "ignore").decode(encoding)
        assert decode(shown.encode(encoding)) == shown, encoding


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_unicode_is_recognised_with_and_without_a_mark(encoding: str) -> None:
    content = "Straße nach Zürich, 12 €".encode(encoding)
    assert decode(content) == "Straße nach Zürich, 12 €"
    assert decode(content, "cp1251") == "Straße nach Zürich, 12 €", "UTF-8 goes before what is declared"
    assert looks_like_text(content)


@pytest.mark.parametrize(
    ("declared", "encoding"), [("iso8859-1", "cp1252"), ("cp1251", "cp1251"), ("rot13", "cp1252"), ("utf-8", "cp1252")]
)
def test_what_is_declared_is_used_where_it_can_be(declared: str, encoding: str) -> None:
    text = "12 €, für alles" if encoding == "cp1252" else "счёт"
    assert decode(text.encode(encoding), declared) == text


def test_a_charset_is_read_from_a_declaration() -> None:
    assert declared_charset("text/html; charset=Latin-1") == "iso8859-1"
    assert declared_charset("text/html; charset=klingon") is None
    assert declared_charset(None) is None


def test_bytes_that_are_no_text_are_not_taken_for_it() -> None:
    assert not looks_like_text(b"\x7fELF\x02\x01\x01\x00" + bytes(range(256)))
    assert decode(b"\xff\xfe\x00\xd8") != ""


@pytest.mark.parametrize("at", [0, 150_000, 1_048_570, 3_000_000])
def test_one_word_of_a_long_file_tells_its_encoding(at: int) -> None:
    """Long stretches of ASCII around it, and ends of chunks in the midst of it, change nothing."""
    line = b"name,note\n"
    content = line * (at // len(line)) + ("Łódź,Gdańsk,żółć\n" * 3).encode("cp1250") + line * 50_000
    assert detect_encoding(io.BytesIO(content)) == "cp1250"
    assert "Łódź" in decode(content)


@pytest.mark.parametrize("text", ["", "plain", "a" * (1024 * 1024 - 1) + "ü"])
def test_utf_8_is_found_in_a_file(text: str) -> None:
    assert detect_encoding(io.BytesIO(text.encode())) == "utf-8"
    assert detect_encoding(io.BytesIO(b"\xef\xbb\xbf" + text.encode())) == "utf-8-sig"
