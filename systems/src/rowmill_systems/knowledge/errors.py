"""Why something could not be done. Each error has a stable `code`.

PermanentError
├── KbMissing            kb_missing
├── DocumentMissing      document_missing
├── EmptyUpload          empty
├── UploadExpired        upload_expired
└── NothingToRead        no_text: the document was read, and has no words
TransientError
├── StoreDisagrees       not_confirmed: a store still has what was deleted, or lacks what was written
├── EventSuperseded      superseded: the document has a later run, or is being deleted
├── ModelDiffers         wrong_model: the knowledge base has vectors of another model than this worker's
└── WrongSettings        wrong_settings: a store or the model can't be used until somebody corrects something

An upload also raises ObjectTooLarge and the errors of `parts.objects.errors`.
"""

import rowmill as rm


class KbMissing(rm.PermanentError):
    """There is no such knowledge base, or it is being deleted."""

    code = "kb_missing"


class DocumentMissing(rm.PermanentError):
    """There is no such document, or it was deleted."""

    code = "document_missing"


class EmptyUpload(rm.PermanentError):
    """A file without bytes."""

    code = "empty"


class UploadExpired(rm.PermanentError):
    """The upload took longer than allowed, and was removed."""

    code = "upload_expired"


class NothingToRead(rm.PermanentError):
    """The document was read, and there are no words in it."""

    code = "no_text"


class StoreDisagrees(rm.TransientError):
    """A store still has what it said was deleted, or lacks what it said was written."""

    code = "not_confirmed"


class EventSuperseded(rm.TransientError):
    """The document has a later run, or is being deleted. This run may write nothing more."""

    code = "superseded"


class ModelDiffers(rm.TransientError):
    """The knowledge base has vectors of another model than this worker's."""

    code = "wrong_model"


class WrongSettings(rm.TransientError):
    """A store or the model can't be used until somebody corrects the settings, or the rights that they name."""

    code = "wrong_settings"
