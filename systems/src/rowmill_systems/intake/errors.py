"""Why a file could not be processed. Each error has a stable `code` and is `retryable` or not: match these, not texts.

    try:
        analysis = await analyze_project_file_document(...)
    except RetryableError as error:
        error.retryable, error.code

RetryableError             the base of all, Rowmill's WorkError
├── PermanentError         never tried again
├── TransientError         tried again, after the backoff
└── DocumentAnalysisError  a document could not be analysed
    └── ImageAnalysisError   an image in it could not be

`parts.documents.errors` and `parts.objects.errors` list what the reader and the store raise.
"""

import rowmill as rm
from rowmill_systems.parts.documents.errors import (
    CorruptFile,
    DocumentAnalysisError,
    EmptyFile,
    EncryptedFile,
    FileTooLarge,
    ImageAnalysisError,
    OcrFailed,
    OutOfMemory,
    ReaderDied,
    ReadingTimedOut,
    UnsupportedFile,
)
from rowmill_systems.parts.objects.errors import (
    CorruptObject,
    ForbiddenObject,
    MissingObject,
    NetworkFailed,
    ObjectTooLarge,
    StorageFailed,
    StorageTimedOut,
)

__all__ = [
    "CorruptFile", "CorruptObject", "DocumentAnalysisError", "EmptyFile", "EncryptedFile", "FileTooLarge",
    "ForbiddenObject", "ImageAnalysisError", "MissingObject", "NetworkFailed", "ObjectTooLarge", "OcrFailed",
    "OutOfMemory", "PermanentError", "ReaderDied", "ReadingTimedOut", "RetryableError", "StorageFailed",
    "StorageTimedOut", "TransientError", "UnsupportedFile",
]  # fmt: skip

RetryableError = rm.errors.WorkError
PermanentError = rm.PermanentError
TransientError = rm.TransientError
