"""Names of collections and keys of objects name their knowledge base, and those of others are not ours."""

from uuid import UUID

import pytest

from rowmill_systems.knowledge.names import collection_of, document_of_key, kb_of_collection, kb_of_key, owner_of
from rowmill_systems.parts.objects.keys import key_of

KB, DOCUMENT = UUID(int=7, version=4), UUID(int=9, version=4)


def test_names_are_as_promised_and_read_back() -> None:
    """K4: the collection `kb_{kb_id}`, objects under `kb-{kb_id}/`."""
    assert collection_of(KB) == f"kb_{KB}"
    key = key_of(owner_of(KB), DOCUMENT, "a" * 64)
    assert key == f"kb-{KB}/{DOCUMENT}/{'a' * 64}"
    assert (kb_of_collection(collection_of(KB)), kb_of_key(key), document_of_key(key)) == (KB, KB, DOCUMENT)


@pytest.mark.parametrize("name", ["", "kb_", "kb_1", f"kb_{KB.hex}", f"KB_{KB}", f"kb-{KB}", f"kb_{KB}x", "other"])
def test_collections_of_others(name: str) -> None:
    assert kb_of_collection(name) is None


@pytest.mark.parametrize("key", ["", "kb-1/2/3", f"{KB}/{DOCUMENT}/a", f"kb-{KB}", f"kb-{KB}/{DOCUMENT}", "a/b/c"])
def test_objects_of_others(key: str) -> None:
    assert document_of_key(key) is None
