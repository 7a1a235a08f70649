"""Which documents a search looks at."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING
from uuid import UUID

import sqlalchemy as sa

from rowmill_systems.knowledge.models import KbDocument

if TYPE_CHECKING:
    from rowmill_systems.parts.documents.document import Kind


@dataclass(frozen=True, slots=True)
class SearchFilters:
    """All that are given must hold."""

    documents: Sequence[UUID] | None = None
    kinds: "Sequence[Kind | str] | None" = None
    filename: str = ""
    """A part of the name of the file, in any case."""
    created_from: datetime | None = None
    created_before: datetime | None = None

    def conditions(self) -> "list[sa.ColumnElement[bool]]":
        """Return what holds for `KbDocument`."""
        found: list[sa.ColumnElement[bool]] = []
        if self.documents is not None:
            found.append(KbDocument.id.in_(list(self.documents)))
        if self.kinds is not None:
            found.append(KbDocument.kind.in_([str(kind) for kind in self.kinds]))
        if self.filename:
            found.append(KbDocument.filename.icontains(self.filename, autoescape=True))
        if self.created_from is not None:
            found.append(KbDocument.created_at >= self.created_from)
        if self.created_before is not None:
            found.append(KbDocument.created_at < self.created_before)
        return found
