"""The types of things that have names."""

import enum


class EntityType(enum.StrEnum):
    PERSON = "person"
    ORGANISATION = "organisation"
    PLACE = "place"
    WORK = "work"
    EVENT = "event"
    OTHER = "other"
    """A type that is none of these."""
