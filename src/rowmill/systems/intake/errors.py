"""Why a file could not be read. Each reason has a stable code, and is permanent or not: nobody matches texts.

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
"""

import rowmill as rm


class EmptyFile(rm.PermanentError):
    """There is nothing in it."""

    code = "empty"


class FileTooLarge(rm.PermanentError):
    """It is, or unpacks to, more than is allowed."""

    code = "too_large"


class OutOfMemory(FileTooLarge):
    """Reading it takes more memory than a reader has. `Reader` believes it of a fresh process only."""


class EncryptedFile(rm.PermanentError):
    """It needs a password."""

    code = "encrypted"


class CorruptFile(rm.PermanentError):
    """It is not what it says, or broken."""

    code = "corrupt"


class UnsupportedFile(rm.PermanentError):
    """Nobody here can read files of this kind."""

    code = "unsupported"


class MissingObject(rm.PermanentError):
    """The storage does not have it."""

    code = "missing_object"


class ForbiddenObject(rm.PermanentError):
    """The storage does not give it to us."""

    code = "forbidden"


class ReadingTimedOut(rm.TransientError):
    """It took longer than is allowed."""

    code = "timeout"


class NetworkFailed(rm.TransientError):
    """Something on the way did not answer."""

    code = "network"


class OcrFailed(rm.TransientError):
    """The engine that reads images could not do its work."""

    code = "ocr"


class StorageFailed(rm.TransientError):
    """The storage can't do it now: it is full, or not there at all. That says nothing of the object."""

    code = "storage"


class ReaderDied(rm.TransientError):
    """The process that read it ended, for want of memory or by a fault of a parser."""

    code = "unknown"
