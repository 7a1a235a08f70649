"""What a name can be the name of."""

import enum


class EntityType(enum.StrEnum):
    PERSON = "person"
    ORGANISATION = "organisation"
    PLACE = "place"
    WORK = "work"
    EVENT = "event"
    OTHER = "other"
    """Something else: it has a type, and none of these."""
