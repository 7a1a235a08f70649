"""Why a file could not be read. Each reason has a stable `code` and is `retryable` or not: nobody matches texts.

    try:
        analysis = await analyze_project_file_document(...)
    except RetryableError as error:
        error.retryable, error.code

RetryableError             the base of all, Rowmill's WorkError
├── PermanentError         never tried again
├── TransientError         tried again, after the backoff
└── DocumentAnalysisError  a document could not be analysed
    └── ImageAnalysisError   an image in it could not be

PermanentError
├── EmptyFile          empty
├── FileTooLarge       too_large: bytes, pages or what they unpack to
│   └── OutOfMemory    too_large: reading it takes more memory than a fresh reader has
├── EncryptedFile      encrypted
├── CorruptFile        corrupt
├── UnsupportedFile    unsupported
├── MissingObject      missing_object: the storage does not have the bytes
└── ForbiddenObject    forbidden: the storage does not give them to us
TransientError
├── ReadingTimedOut    timeout
├── NetworkFailed      network
├── OcrFailed          ocr: the engine, not the page
├── StorageFailed      storage: full, not mounted, without its bucket
└── ReaderDied         unknown: the process that read the file ended

Those of the document itself, of its reading and of OCR are DocumentAnalysisErrors as well; OcrFailed is an
ImageAnalysisError.
"""

import rowmill as rm

__all__ = [
    "CorruptFile", "DocumentAnalysisError", "EmptyFile", "EncryptedFile", "FileTooLarge", "ForbiddenObject",
    "ImageAnalysisError", "MissingObject", "NetworkFailed", "OcrFailed", "OutOfMemory", "PermanentError", "ReaderDied",
    "ReadingTimedOut", "RetryableError", "StorageFailed", "TransientError", "UnsupportedFile",
]  # fmt: skip

RetryableError = rm.errors.WorkError
PermanentError = rm.PermanentError
TransientError = rm.TransientError


class DocumentAnalysisError(RetryableError):
    """A document could not be analysed. Who implements the seam may raise it with a `code`, and `retryable=False`."""

    code = "document_analysis"


class ImageAnalysisError(DocumentAnalysisError):
    """An image could not be analysed. As above."""

    code = "image_analysis"


class EmptyFile(PermanentError, DocumentAnalysisError):
    """There is nothing in it."""

    code = "empty"


class FileTooLarge(PermanentError, DocumentAnalysisError):
    """It is, or unpacks to, more than is allowed."""

    code = "too_large"


class OutOfMemory(FileTooLarge):
    """Reading it takes more memory than a reader has. `Reader` believes it of a fresh process only."""


class EncryptedFile(PermanentError, DocumentAnalysisError):
    """It needs a password."""

    code = "encrypted"


class CorruptFile(PermanentError, DocumentAnalysisError):
    """It is not what it says, or broken."""

    code = "corrupt"


class UnsupportedFile(PermanentError, DocumentAnalysisError):
    """Nobody here can read files of this kind."""

    code = "unsupported"


class MissingObject(PermanentError):
    """The storage does not have it."""

    code = "missing_object"


class ForbiddenObject(PermanentError):
    """The storage does not give it to us."""

    code = "forbidden"


class ReadingTimedOut(TransientError, DocumentAnalysisError):
    """It took longer than is allowed."""

    code = "timeout"


class NetworkFailed(TransientError):
    """Something on the way did not answer."""

    code = "network"


class OcrFailed(TransientError, ImageAnalysisError):
    """The engine that reads images could not do its work."""

    code = "ocr"


class StorageFailed(TransientError):
    """The storage can't do it now: it is full, or not there at all. That says nothing of the object."""

    code = "storage"


class ReaderDied(TransientError, DocumentAnalysisError):
    """The process that read it ended, for want of memory or by a fault of a parser."""

    code = "unknown"
