"""Suggestions: written when a file was read, then decided once by a person."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession

from rowmill_systems.intake.analysis import Mapped
from rowmill_systems.intake.models import FieldSuggestion, ProjectFile, SuggestionState, UnmappedNote
from rowmill_systems.parts.values import value_hash

PENDING = SuggestionState.PENDING
PROCESSING = "processing"


async def replace_pending(session: AsyncSession, file_id: int, mapped: Mapped) -> None:
    """Replace the pending suggestions of a file. Decided ones stay, and are not suggested again."""
    pending = sa.delete(FieldSuggestion).where(FieldSuggestion.file_id == file_id, FieldSuggestion.state == PENDING)
    await session.execute(pending)
    await session.execute(sa.delete(UnmappedNote).where(UnmappedNote.file_id == file_id))
    # After the deletion, which waited for whoever was deciding: what is left now is decided.
    decided = sa.select(FieldSuggestion.field_key, FieldSuggestion.value_hash).where(FieldSuggestion.file_id == file_id)
    known = {(key, digest) for key, digest in await session.execute(decided)}
    for found in mapped.suggestions:
        digest = value_hash(found.value)
        if (found.field, digest) not in known:
            known.add((found.field, digest))
            session.add(
                FieldSuggestion(
                    file_id=file_id,
                    field_key=found.field,
                    value=found.value,
                    value_hash=digest,
                    confidence=found.confidence,
                    page=found.evidence.page,
                    quote=found.evidence.quote,
                    boxes=[[box.left, box.top, box.right, box.bottom] for box in found.evidence.boxes],
                )
            )
    session.add_all(
        UnmappedNote(
            file_id=file_id, label=note.label, value=note.value, page=note.evidence.page, quote=note.evidence.quote
        )
        for note in mapped.unmapped
    )


class UnknownFile(LookupError):
    """There is no such file in this project."""


class UnknownSuggestion(LookupError):
    """There never was such a suggestion of this file."""


class BeingProcessed(Exception):
    """The file is being processed: pending suggestions may be replaced at any moment."""


class SuggestionChanged(Exception):
    """Another person decided before, or the file was read again. `state` is its present state; None if it is gone."""

    def __init__(self, state: str | None) -> None:
        super().__init__(f"the suggestion is {state} by now" if state else "the suggestion was replaced meanwhile")
        self.state = state


@dataclass(frozen=True, slots=True)
class SuggestionDecision:
    """The decision of a person. `value` replaces the suggested one."""

    state: SuggestionState
    by: str | None = None
    value: Any = None


def decide(connection: sa.Connection, file_id: int, suggestion_id: int, decision: SuggestionDecision) -> None:
    """Apply or reject a pending suggestion.

    Raises SuggestionChanged if it is not pending any more, and UnknownSuggestion if there is none.

    While the file is being processed, nothing is applied (BeingProcessed); what a person rejects stays rejected.
    """
    values = {"state": decision.state, "decided_by": decision.by, "applied_value": decision.value}
    applies = decision.state is SuggestionState.APPLIED
    _change(connection, file_id, suggestion_id, (PENDING,), values, while_processing=not applies)


def edit(connection: sa.Connection, file_id: int, suggestion_id: int, value: Any, by: str | None = None) -> None:
    """Put another value in the place of one that was applied. Raises SuggestionChanged, or UnknownSuggestion."""
    values = {"applied_value": value} | ({} if by is None else {"decided_by": by})
    _change(connection, file_id, suggestion_id, (SuggestionState.APPLIED,), values, while_processing=True)


def undo(connection: sa.Connection, file_id: int, suggestion_id: int) -> None:
    """Make a suggestion pending again that was applied or rejected. Raises SuggestionChanged, or UnknownSuggestion.

    Not while the file is being processed (BeingProcessed): what is pending is about to be replaced.
    """
    values = {"state": PENDING, "applied_value": None, "decided_by": None}
    decided = (SuggestionState.APPLIED, SuggestionState.REJECTED)
    _change(connection, file_id, suggestion_id, decided, values, while_processing=False)


def _change(
    connection: sa.Connection,
    file_id: int,
    suggestion_id: int,
    states: Sequence[SuggestionState],
    values: Mapping[str, Any],
    *,
    while_processing: bool,
) -> None:
    """Write to a suggestion that is in one of these states. The statement itself checks, so that of two people who
    change it at once, one gets the error."""
    this = (FieldSuggestion.id == suggestion_id) & (FieldSuggestion.file_id == file_id)
    processed = sa.select(ProjectFile.id).where(ProjectFile.id == file_id, ProjectFile.processing_status == PROCESSING)
    decided_at = None if values.get("state") == PENDING else sa.func.now()
    change = (
        sa.update(FieldSuggestion)
        .where(this, FieldSuggestion.state.in_(states))
        .values({**values, "decided_at": decided_at})
    )
    if not while_processing:
        change = change.where(~processed.exists())
    if connection.execute(change).rowcount:
        return
    if connection.scalar(sa.select(ProjectFile.id).where(ProjectFile.id == file_id)) is None:
        raise UnknownFile
    state = connection.scalar(sa.select(FieldSuggestion.state).where(this))
    if state in states:
        raise BeingProcessed(f"file {file_id} is being processed; decide when that is done")
    if state is None and not was_there(connection, suggestion_id):
        raise UnknownSuggestion
    raise SuggestionChanged(state)


def was_there(connection: sa.Connection, suggestion_id: int) -> bool:
    """Tell whether a missing suggestion may have belonged to the file.

    Numbers are never reused, and the database knows the last one.
    """
    if connection.scalar(sa.select(FieldSuggestion.id).where(FieldSuggestion.id == suggestion_id)) is not None:
        return False  # it is another file's
    if connection.dialect.name == "postgresql":
        last = sa.text("SELECT pg_sequence_last_value(pg_get_serial_sequence('field_suggestions', 'id')::regclass)")
    else:
        last = sa.text("SELECT seq FROM sqlite_sequence WHERE name = 'field_suggestions'")
    return suggestion_id <= (connection.scalar(last) or 0)
