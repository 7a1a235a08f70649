"""Why a document could not be read. Each error has a stable `code` and is `retryable` or not.

DocumentAnalysisError      a document could not be analysed
└── ImageAnalysisError     an image in it could not be

PermanentError
├── EmptyFile          empty
├── FileTooLarge       too_large: bytes, pages or what they unpack to
│   └── OutOfMemory    too_large: reading it takes more memory than a fresh process has
├── EncryptedFile      encrypted
├── CorruptFile        corrupt
└── UnsupportedFile    unsupported
TransientError
├── ReadingTimedOut    timeout
├── OcrFailed          ocr: the engine failed, not the page
└── ReaderDied         unknown: the process that read the file ended

All of them are DocumentAnalysisErrors as well; OcrFailed is an ImageAnalysisError.
"""

import rowmill as rm


class DocumentAnalysisError(rm.errors.WorkError):
    """A document could not be analysed. Raise it with a `code` of your own, and `retryable=False` where that holds."""

    code = "document_analysis"


class ImageAnalysisError(DocumentAnalysisError):
    """An image could not be analysed."""

    code = "image_analysis"


class EmptyFile(rm.PermanentError, DocumentAnalysisError):
    """The file has no content."""

    code = "empty"


class FileTooLarge(rm.PermanentError, DocumentAnalysisError):
    """The file is, or unpacks to, more than is allowed."""

    code = "too_large"


class OutOfMemory(FileTooLarge):
    """Reading takes more memory than the process may have. `Reader` raises it only after a fresh process failed."""


class EncryptedFile(rm.PermanentError, DocumentAnalysisError):
    """The file needs a password."""

    code = "encrypted"


class CorruptFile(rm.PermanentError, DocumentAnalysisError):
    """The file is broken, or of another kind than it claims."""

    code = "corrupt"


class UnsupportedFile(rm.PermanentError, DocumentAnalysisError):
    """No reader is installed for files of this kind."""

    code = "unsupported"


class ReadingTimedOut(rm.TransientError, DocumentAnalysisError):
    """Reading took longer than is allowed."""

    code = "timeout"


class OcrFailed(rm.TransientError, ImageAnalysisError):
    """The OCR engine failed."""

    code = "ocr"


class ReaderDied(rm.TransientError, DocumentAnalysisError):
    """The process that read the file ended: killed, out of memory, or by a fault of a parser."""

    code = "unknown"
