"""Queries about files."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from rowmill.web.keyset import Keyset, KeysetPage, contains
from rowmill_systems.intake.fields.catalogue import Catalogue
from rowmill_systems.intake.models import FieldSuggestion, FileAnalysis, ProjectFile, SuggestionState, UnmappedNote

STATES = ("queued", "processing", "completed", "failed")


@dataclass(frozen=True, slots=True)
class Project:
    """The organization and project whose files are read."""

    organization_id: int
    project_id: int

    @property
    def condition(self) -> sa.ColumnElement[bool]:
        return (ProjectFile.organization_id == self.organization_id) & (ProjectFile.project_id == self.project_id)


def counts(connection: sa.Connection, project: Project) -> dict[str, int]:
    counted = (
        sa.select(ProjectFile.processing_status, sa.func.count())
        .where(project.condition)
        .group_by(ProjectFile.processing_status)
    )
    return dict.fromkeys(STATES, 0) | dict(connection.execute(counted).all())


def files(
    connection: sa.Connection, project: Project, *, state: str | None = None, before: int | None = None, most: int = 100
) -> Sequence[sa.RowMapping]:
    """Return a page of files, the latest first, before the file with the id `before`."""
    wanted = sa.select(ProjectFile.__table__, _pending()).where(project.condition).order_by(ProjectFile.id.desc())
    if state is not None:
        wanted = wanted.where(ProjectFile.processing_status == state)
    if before is not None:
        wanted = wanted.where(ProjectFile.id < before)
    return connection.execute(wanted.limit(most)).mappings().all()


FILES_ON_A_PAGE = 100
FILES = Keyset(
    {
        "name": sa.func.lower(ProjectFile.filename, type_=sa.Text()),
        "size": ProjectFile.size_bytes,
        "state": ProjectFile.processing_status,
        "added": ProjectFile.id,
    },
    ProjectFile.id,
    default="-added",
)


def file_list(
    connection: sa.Connection, project: Project, *, search: str = "", state: str = "", sort: str = "", after: str = ""
) -> KeysetPage:
    """Return a page of the files whose name contains a text, in an order that a person chose. Raises UnknownPage."""
    wanted = sa.select(ProjectFile.__table__, _pending()).where(project.condition)
    if search:
        wanted = wanted.where(contains(ProjectFile.filename, search))
    if state:
        wanted = wanted.where(ProjectFile.processing_status == state)
    return FILES.read(connection, wanted, sort=sort, after=after, limit=FILES_ON_A_PAGE)


def projects(connection: sa.Connection) -> Sequence[sa.RowMapping]:
    """Count the files of every project, the one with the latest file first."""

    def number(*states: str) -> sa.ColumnElement[int]:
        return sa.func.count().filter(ProjectFile.processing_status.in_(states))

    pending = (
        sa.select(ProjectFile.organization_id, ProjectFile.project_id, sa.func.count().label("pending"))
        .join(FieldSuggestion, FieldSuggestion.file_id == ProjectFile.id)
        .where(FieldSuggestion.state == SuggestionState.PENDING)
        .group_by(ProjectFile.organization_id, ProjectFile.project_id)
        .subquery()
    )
    counted = (
        sa.select(
            ProjectFile.organization_id,
            ProjectFile.project_id,
            sa.func.count().label("files"),
            number("queued", "processing").label("open"),
            number("failed").label("failed"),
            sa.func.max(ProjectFile.created_at).label("latest"),
            sa.func.max(ProjectFile.id).label("last_id"),
        )
        .group_by(ProjectFile.organization_id, ProjectFile.project_id)
        .subquery()
    )
    same = (counted.c.organization_id == pending.c.organization_id) & (counted.c.project_id == pending.c.project_id)
    wanted = (
        sa.select(counted, sa.func.coalesce(pending.c.pending, 0).label("pending"))
        .outerjoin(pending, same)
        .order_by(counted.c.last_id.desc())
    )
    return connection.execute(wanted).mappings().all()


def one_file(connection: sa.Connection, project: Project, file_id: int) -> sa.RowMapping | None:
    wanted = sa.select(ProjectFile.__table__, _pending()).where(project.condition, ProjectFile.id == file_id)
    return connection.execute(wanted).mappings().first()


def _pending() -> sa.Label[int]:
    """Count the pending suggestions of a file."""
    counted = sa.select(sa.func.count()).where(
        FieldSuggestion.file_id == ProjectFile.id, FieldSuggestion.state == SuggestionState.PENDING
    )
    return counted.scalar_subquery().label("pending")


def suggestions(connection: sa.Connection, file_id: int) -> Sequence[sa.RowMapping]:
    wanted = sa.select(FieldSuggestion.__table__).where(FieldSuggestion.file_id == file_id).order_by(FieldSuggestion.id)
    return connection.execute(wanted).mappings().all()


def notes(connection: sa.Connection, file_id: int) -> Sequence[sa.RowMapping]:
    wanted = sa.select(UnmappedNote.__table__).where(UnmappedNote.file_id == file_id).order_by(UnmappedNote.id)
    return connection.execute(wanted).mappings().all()


def analysis(connection: sa.Connection, file: sa.RowMapping) -> dict[str, Any] | None:
    """Return the analysis of the bytes of a file; None if there is none."""
    wanted = sa.select(FileAnalysis.analysis).where(
        FileAnalysis.organization_id == file["organization_id"],
        FileAnalysis.project_id == file["project_id"],
        FileAnalysis.file_hash == file["file_hash"],
    )
    return connection.scalar(wanted)


def outdate_analysis(connection: sa.Connection, file: sa.RowMapping) -> None:
    """Mark the analysis as outdated, so that the bytes are analysed again."""
    connection.execute(
        sa.update(FileAnalysis)
        .where(
            FileAnalysis.organization_id == file["organization_id"],
            FileAnalysis.project_id == file["project_id"],
            FileAnalysis.file_hash == file["file_hash"],
        )
        .values(outdated=True)
    )


def applied(connection: sa.Connection, project: Project, catalogue: Catalogue) -> list[dict[str, Any]]:
    """Return the applied values of a project: the latest of each field, or all where a field has many."""
    several = {field.key for field in catalogue.fields if field.many}
    wanted = (
        sa.select(FieldSuggestion.__table__, ProjectFile.filename)
        .join(ProjectFile, ProjectFile.id == FieldSuggestion.file_id)
        .where(project.condition, FieldSuggestion.state == SuggestionState.APPLIED)
        .order_by(FieldSuggestion.decided_at.desc(), FieldSuggestion.id.desc())
    )
    found: list[dict[str, Any]] = []
    seen: set[str] = set()
    for row in connection.execute(wanted).mappings():
        key = row["field_key"]
        if key in several or key not in seen:
            seen.add(key)
            value = row["value"] if row["applied_value"] is None else row["applied_value"]
            found.append({**row, "value": value})
    return sorted(found, key=lambda row: str(row["field_key"]))
