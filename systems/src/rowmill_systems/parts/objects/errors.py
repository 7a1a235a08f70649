"""Why an object could not be stored or read. Each error has a stable `code` and is `retryable` or not.

PermanentError
├── MissingObject      missing_object: the store does not have the bytes
├── ForbiddenObject    forbidden: the store refuses access
├── ObjectTooLarge     too_large
└── CorruptObject      corrupt: the bytes differ from those that were stored
TransientError
├── StorageTimedOut    timeout
├── NetworkFailed      network
└── StorageFailed      storage: full, not mounted, without its bucket
"""

import rowmill as rm


class MissingObject(rm.PermanentError):
    """The store does not have the object."""

    code = "missing_object"


class ForbiddenObject(rm.PermanentError):
    """The store refuses access to the object."""

    code = "forbidden"


class ObjectTooLarge(rm.PermanentError):
    """The object has more bytes than are allowed."""

    code = "too_large"


class CorruptObject(rm.PermanentError):
    """The store returns other bytes than were stored."""

    code = "corrupt"


class StorageTimedOut(rm.TransientError):
    """The store took longer than is allowed."""

    code = "timeout"


class NetworkFailed(rm.TransientError):
    """The store can't be reached, or the connection broke."""

    code = "network"


class StorageFailed(rm.TransientError):
    """The store can't do it now: full, not mounted, without its bucket. Says nothing about the object."""

    code = "storage"
