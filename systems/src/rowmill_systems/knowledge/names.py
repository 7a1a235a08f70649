"""Names of collections and objects. Each carries the id of its knowledge base, so that its row can be found again."""

from uuid import UUID

COLLECTION, OWNER = "kb_", "kb-"


def collection_of(kb_id: UUID) -> str:
    """Return the collection of a knowledge base in the vector store."""
    return f"{COLLECTION}{kb_id}"


def owner_of(kb_id: UUID) -> str:
    """Return what the keys of its objects begin with, before the slash."""
    return f"{OWNER}{kb_id}"


def kb_of_collection(name: str) -> UUID | None:
    """Return the knowledge base of a collection; None if the collection is somebody else's."""
    return _id_after(COLLECTION, name)


def kb_of_key(object_key: str) -> UUID | None:
    """Return the knowledge base of an object; None if the object is somebody else's."""
    return _id_after(OWNER, object_key.split("/")[0])


def document_of_key(object_key: str) -> UUID | None:
    """Return the document of an object: `kb-{kb_id}/{document_id}/{sha256}`. None if the object is somebody else's."""
    parts = object_key.split("/")
    return _id_after("", parts[1]) if len(parts) == 3 and kb_of_key(object_key) else None


def _id_after(prefix: str, name: str) -> UUID | None:
    """Return the id that follows the prefix, as we write ids."""
    text = name.removeprefix(prefix)
    try:
        found = UUID(text)
    except ValueError:
        return None
    return found if name == f"{prefix}{found}" else None
