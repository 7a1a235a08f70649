"""Names of people: a comparison that gives its reasons.

    from rowmill_systems.parts.names.people import MatchVerdict, compare_people

    assert compare_people("Владимир Владимирович Соколов", "Sokolov, Vladimir").verdict is MatchVerdict.SAME
    assert compare_people("Arthur Penhaligon Jr.", "Arthur Penhaligon Sr.").verdict is MatchVerdict.DIFFERENT
    assert compare_people("Einstein", "Albert Einstein").verdict is MatchVerdict.UNSURE

A score means what it means for companies: from 0.85 it is the same name, from 0.65 nobody can tell.
"""

from rowmill_systems.parts.names.company_matching import MatchReason, MatchVerdict
from rowmill_systems.parts.names.person_matching import PersonMatch, compare_people

__all__ = ["MatchReason", "MatchVerdict", "PersonMatch", "compare_people"]
