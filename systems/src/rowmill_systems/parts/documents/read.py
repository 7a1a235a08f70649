"""Read the bytes of a file into a `Document`."""

import warnings
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module

import rowmill as rm
from rowmill_systems.parts.documents.document import Document, Kind
from rowmill_systems.parts.documents.errors import CorruptFile, EmptyFile, FileTooLarge, OutOfMemory
from rowmill_systems.parts.documents.kinds import sniff
from rowmill_systems.parts.documents.language import language_of
from rowmill_systems.parts.documents.limits import DocumentLimits
from rowmill_systems.parts.documents.ocr.engine import Ocr
from rowmill_systems.parts.documents.reading import Contents, ReadingState
from rowmill_systems.parts.documents.zips import open_zip, refuse_dtds

FORMATS = "rowmill_systems.parts.documents.formats"
"""Has a module for each kind of file, imported with the first file of its kind: all libraries together take half a
second and 40 MB."""
Format = Callable[[bytes, ReadingState], Contents]
OFFICE = (Kind.DOCX, Kind.XLSX, Kind.PPTX)


def read_document(
    file_bytes: bytes,
    *,
    filename: str,
    media_type: str | None,
    limits: DocumentLimits,
    ocr: Ocr | None,
    progress: Callable[[int, int], None],
) -> Document:
    """Read a document. Raises only errors of `parts.documents.errors`.

    `progress(page, of_pages)` is called before each page. Time and memory are not limited here: `Reader` runs this in a
    process that it can kill.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # libraries warn of what is odd in a document; nobody can act on it
        return _read(file_bytes, filename, media_type, ReadingState(limits, ocr, progress, _read_attachment))


def _read(file_bytes: bytes, filename: str, media_type: str | None, reading: ReadingState) -> Document:
    if not file_bytes:
        raise EmptyFile("no bytes")
    reading.limits.check("bytes", len(file_bytes), reading.limits.bytes)
    sniffed = sniff(file_bytes, filename=filename, media_type=media_type, limits=reading.limits)
    contents = _contents(sniffed.kind, file_bytes, reading)
    document = Document(sniffed.kind, sniffed.media_type, contents.pages, facts=contents.facts)
    return replace(document, language=language_of(document.text))


def _contents(kind: Kind, file_bytes: bytes, reading: ReadingState) -> Contents:
    read: Format = import_module(f"{FORMATS}.{kind.value}").read
    try:
        if kind in OFFICE:
            with open_zip(file_bytes, reading.limits) as archive:
                refuse_dtds(archive)
        return read(file_bytes, reading)
    except rm.errors.WorkError:
        raise
    except MemoryError as error:
        raise OutOfMemory("memory") from error
    except RecursionError as error:
        raise FileTooLarge("it takes too much to read") from error
    except Exception as error:
        # Parsers meet broken files with whatever they were doing when they noticed: KeyError, AttributeError, …
        raise CorruptFile(f"a broken {kind} file") from error


def _read_attachment(file_bytes: bytes, filename: str, media_type: str, reading: ReadingState) -> Contents:
    if not file_bytes:
        raise EmptyFile("no bytes")
    sniffed = sniff(file_bytes, filename=filename, media_type=media_type, limits=reading.limits)
    return _contents(sniffed.kind, file_bytes, reading)
