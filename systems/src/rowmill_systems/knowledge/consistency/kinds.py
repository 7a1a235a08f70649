"""What a comparison of the stores can find, and what is done about it. Pages, commands and docs show this table."""

from dataclasses import dataclass
from enum import StrEnum


class Mending(StrEnum):
    """Who mends a kind of finding."""

    EVENT = "event"
    """The system: it writes an event, once while the finding is open."""
    REQUEST = "request"
    """A person asks for the removal. Nothing proves that it is ours and obsolete."""
    NONE = "none"
    """Nobody can: it is reported."""


@dataclass(frozen=True, slots=True)
class DriftKind:
    """A kind of finding."""

    name: str
    meaning: str
    mending: Mending
    how: str


READY_WITHOUT_VECTORS = DriftKind(
    "ready_without_vectors",
    "Search shows a document, and the vector store has nothing of it.",
    Mending.EVENT,
    "It is processed again.",
)
WRONG_VECTOR_COUNT = DriftKind(
    "wrong_vector_count",
    "Search shows a document that has more or fewer vectors of that generation than were written.",
    Mending.EVENT,
    "It is processed again.",
)
WRONG_MODEL = DriftKind(
    "wrong_model",
    "Search shows a document that has vectors of another model than its knowledge base.",
    Mending.EVENT,
    "It is processed again.",
)
WRONG_PASSAGES = DriftKind(
    "wrong_passages",
    "Search shows a document that has more or fewer passages, or entries in the full text, than were written.",
    Mending.EVENT,
    "It is processed again.",
)
STALE_PROCESSING = DriftKind(
    "stale_processing",
    "A document is being processed for too long, and no worker makes progress with it.",
    Mending.EVENT,
    "It is reset, which fences the old run, and processed again.",
)
DOCUMENT_STUCK = DriftKind(
    "document_stuck",
    "A document waits to be processed or deleted, and no event is left that does it.",
    Mending.EVENT,
    "The event is written again.",
)
KB_STUCK = DriftKind(
    "kb_stuck",
    "A knowledge base is being deleted or embedded again, or was deleted without all of its documents, and no event is "
    "left that goes on with it.",
    Mending.EVENT,
    "The event is written again.",
)
KB_OTHER_MODEL = DriftKind(
    "kb_other_model",
    "A knowledge base has vectors of another model than the one in use.",
    Mending.EVENT,
    "Its documents are embedded again.",
)
WRONG_DIMENSIONS = DriftKind(
    "wrong_dimensions",
    "The collection of a knowledge base is made for vectors of another length.",
    Mending.EVENT,
    "It is made anew, and its documents are embedded again.",
)
LEFTOVER_VECTORS = DriftKind(
    "leftover_vectors",
    "There are vectors of a deleted document, of a generation that search does not show, or in the collection of "
    "another knowledge base.",
    Mending.EVENT,
    "They are removed: a row proves that they are obsolete.",
)
LEFTOVER_PASSAGES = DriftKind(
    "leftover_passages",
    "There are passages of a deleted document, or of a generation that search does not show.",
    Mending.EVENT,
    "They are removed.",
)
LEFTOVER_OBJECT = DriftKind(
    "leftover_object",
    "There is an object of a deleted document, or one that its document does not name.",
    Mending.EVENT,
    "It is removed: a row proves that it is obsolete.",
)
LEFTOVER_COLLECTION = DriftKind(
    "leftover_collection",
    "There is a collection of a deleted knowledge base.",
    Mending.EVENT,
    "It is removed: a row proves that it is obsolete.",
)
VECTORS_WITHOUT_DOCUMENT = DriftKind(
    "vectors_without_document",
    "There are vectors of a document that the database does not know.",
    Mending.REQUEST,
    "Asked for, they are removed.",
)
OBJECT_WITHOUT_DOCUMENT = DriftKind(
    "object_without_document",
    "There is an object of a document that the database does not know.",
    Mending.REQUEST,
    "Asked for, it is removed.",
)
COLLECTION_WITHOUT_KB = DriftKind(
    "collection_without_kb",
    "There is a collection of a knowledge base that the database does not know.",
    Mending.REQUEST,
    "Asked for, it is removed with all of its vectors.",
)
READY_WITHOUT_OBJECT = DriftKind(
    "ready_without_object",
    "Search shows a document, and its bytes are gone: it can't be downloaded or processed again.",
    Mending.NONE,
    "Restore the object from a backup, or upload the file again and delete the document.",
)

KINDS = (
    READY_WITHOUT_VECTORS, WRONG_VECTOR_COUNT, WRONG_MODEL, WRONG_PASSAGES, STALE_PROCESSING, DOCUMENT_STUCK, KB_STUCK,
    KB_OTHER_MODEL, WRONG_DIMENSIONS, LEFTOVER_VECTORS, LEFTOVER_PASSAGES, LEFTOVER_OBJECT, LEFTOVER_COLLECTION,
    VECTORS_WITHOUT_DOCUMENT, OBJECT_WITHOUT_DOCUMENT, COLLECTION_WITHOUT_KB, READY_WITHOUT_OBJECT,
)  # fmt: skip
KINDS_BY_NAME = {kind.name: kind for kind in KINDS}
ORPHANS = tuple(kind.name for kind in KINDS if kind.mending is Mending.REQUEST)
