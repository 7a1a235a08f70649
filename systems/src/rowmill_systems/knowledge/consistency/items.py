"""Items of the comparison: documents, knowledge bases and objects, in one order of keys."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Any
from uuid import UUID

from rowmill import reconcile
from rowmill_systems.knowledge.names import document_of_key

DOCUMENT, KB, OBJECT = "document", "kb", "object"
ID_OF = {DOCUMENT: UUID, KB: UUID, OBJECT: str}

Facts = Mapping[str, Any]


def item_key(kind: str, key: object) -> str:
    """Return the key of an item, as findings and the log have it."""
    return f"{kind}:{key}"


def split_key(key: str) -> tuple[str, Any]:
    """Return the kind of an item and its own key."""
    kind, _, text = key.partition(":")
    return kind, ID_OF[kind](text)


def id_in(key: str) -> UUID:
    """Return the id of a document or a knowledge base."""
    return UUID(key.partition(":")[2])


def document_of(key: str) -> UUID:
    """Return the id of a document, also of an object's."""
    kind, own = split_key(key)
    document_id = document_of_key(own) if kind == OBJECT else own
    if document_id is None:
        raise ValueError("the key names no document")
    return UUID(str(document_id))


class ItemInventory(reconcile.Inventory):
    """Lists items of several kinds, one kind after another: the kind is the beginning of each key."""

    def __init__(self, **parts: reconcile.Inventory) -> None:
        super().__init__(at="at")
        self._parts = {kind: parts[kind] for kind in sorted(parts)}

    async def pages(self, store: Any) -> AsyncGenerator[Sequence[tuple[Any, Facts]], None]:
        for kind, part in self._parts.items():
            async with aclosing(part.walk(store)) as pages:
                async for page in pages:
                    yield [(item_key(kind, key), facts) for key, facts in page]

    async def look(self, store: Any, keys: Sequence[Any]) -> dict[Any, Facts]:
        wanted: dict[str, list[Any]] = {}
        for each in keys:
            kind, key = split_key(each)
            wanted.setdefault(kind, []).append(key)
        found: dict[Any, Facts] = {}
        for kind, part in self._parts.items():
            if kind in wanted:
                seen = await part.look(store, wanted[kind])
                found |= {item_key(kind, key): facts for key, facts in seen.items()}
        return found
