"""Compare names of people, organisations, places and works.

    from rowmill_systems.parts.names import EntityType, folded, name_similarity

    assert folded("Müller-Lüdenscheidt") == "muller ludenscheidt"
    assert name_similarity("Tolkien, J.R.R.", "John Ronald Reuel Tolkien", EntityType.PERSON) > 0.8
    assert name_similarity("Siemens AG", "Siemens") > 0.9
    assert name_similarity("Apollo 11", "Apollo 13") < 0.5

Legal forms, titles, initials, the order of words and slips of the pen matter little; other numbers matter much.
"""

from rowmill_systems.parts.names.folding import folded
from rowmill_systems.parts.names.similarity import name_similarity
from rowmill_systems.parts.names.types import EntityType

__all__ = ["EntityType", "folded", "name_similarity"]
