"""Steps of a migration."""

from dataclasses import dataclass, field
from enum import StrEnum

from rowmill.store.adopt.fill import Fill


class Part(StrEnum):
    WORD = "word"
    COLUMN = "column"
    OWN = "own tables"
    INDEX = "index"
    TRIGGER = "trigger"
    ROWS = "rows"


@dataclass(frozen=True, slots=True)
class Change:
    """One step."""

    part: Part
    what: str
    """What is missing, in a line."""
    statements: tuple[str, ...] = ()
    undo: tuple[str, ...] = ()
    alone: bool = False
    """Can't be part of a transaction."""
    fill: Fill | None = None


@dataclass(slots=True)
class Plan:
    """Steps, and what stands in their way."""

    changes: list[Change] = field(default_factory=list)
    obstacles: list[str] = field(default_factory=list)
    """What must be done by hand first, each with how."""
    notes: list[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.changes or self.obstacles)
