"""Rankings by meaning and by words become one."""

from uuid import UUID

from rowmill_systems.knowledge.search.fusion import FoundBy, fused
from rowmill_systems.knowledge.search.words import ChunkKey, TermCounts

ONE, ALIKE, OTHER = (ChunkKey(UUID(int=1), 1, number) for number in range(3))


def test_the_passage_with_the_number_comes_before_one_that_is_only_alike() -> None:
    """Ranks alone would put the one first that both rankings have."""
    found = fused([ALIKE, OTHER], [(ONE, 0.9), (ALIKE, 0.3)], "wordllama-l2-supercat-256")
    assert [(hit.chunk, hit.by) for hit in found] == [
        (ONE, FoundBy.WORDS), (ALIKE, FoundBy.BOTH), (OTHER, FoundBy.MEANING),
    ]  # fmt: skip


def test_what_both_find_comes_first_where_words_tell_the_same() -> None:
    found = fused([OTHER, ALIKE], [(ONE, 0.3), (ALIKE, 0.3)], "wordllama-l2-supercat-256")
    assert found[0].chunk == ALIKE


def test_a_number_tells_more_than_a_word_that_is_as_rare() -> None:
    counts = TermCounts(chunks=100, length=10.0, having={"invoice": 3, "44111": 3})
    assert counts.weight("44111") == 4 * counts.weight("invoice")
    assert counts.share(counts.weight("44111")) == 4 / 5
