"""Requests and responses of the API."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from rowmill_systems.parts.fields import Moment, ResponseModel, fit

Status = Literal["queued", "processing", "completed", "failed"]


class File(ResponseModel):
    """A file and the state of its processing."""

    id: int
    organization_id: int
    project_id: int
    filename: str
    doc_type: str | None
    media_type: str | None = Field(description="As the uploader said.")
    kind: str | None = Field(description="By its bytes; known once it was read.")
    language: str | None
    size_bytes: int
    file_hash: str | None
    created_at: Moment
    processing_status: Status
    processing_attempts: int
    processing_error: str | None = Field(description="A stable code, then words: `encrypted: …`.")
    processing_available_at: Moment | None = Field(description="If queued: not before this time.")
    processed_at: Moment | None
    pages_read: int
    page_count: int | None
    reused_from: int | None = Field(description="The file with the same bytes whose analysis it shares.")
    pending: int = Field(description="Suggestions that wait for a person.")


class FileList(ResponseModel):
    files: list[File]
    counts: dict[Status, int] = Field(description="Of all files of the project.")
    next: int | None = Field(description="Give it as `before` for the next page; null: there is none.")


class SuggestionOut(ResponseModel):
    """A suggested value of a field, with its evidence."""

    id: int
    field_key: str
    label: str
    value: Any
    confidence: float
    page: int
    quote: str
    boxes: list[list[float]] = Field(description="Left, top, right, bottom, in parts of the page.")
    state: Literal["pending", "applied", "rejected"]
    applied_value: Any | None
    decided_at: Moment | None
    decided_by: str | None

    @classmethod
    def of(cls, row: Mapping[Any, Any], labels: Mapping[str, str]) -> "SuggestionOut":
        return cls.model_validate({**row, "label": labels.get(row["field_key"], row["field_key"])})


class Note(ResponseModel):
    """A labelled value that fits no field of the catalogue."""

    label: str
    value: str
    page: int
    quote: str


class FileWithSuggestions(File):
    suggestions: list[SuggestionOut]
    unmapped: list[Note]
    facts: dict[str, str | int | float]


class PageText(ResponseModel):
    number: int
    title: str
    scanned: bool
    text: str


class SuggestionDecisionIn(BaseModel):
    """Who decides, and optionally a value in place of the suggested one."""

    model_config = ConfigDict(extra="forbid")

    by: Annotated[str | None, AfterValidator(fit)] = Field(default=None, max_length=200)
    value: Annotated[Any | None, AfterValidator(fit)] = None


class NewValue(BaseModel):
    """A new value of a field, and who sets it."""

    model_config = ConfigDict(extra="forbid")

    value: Annotated[Any, AfterValidator(fit)]
    by: Annotated[str | None, AfterValidator(fit)] = Field(default=None, max_length=200)


class Requeue(BaseModel):
    model_config = ConfigDict(extra="forbid")

    fresh: bool = Field(default=True, description="Analyse the bytes anew, also if that was done before.")


class FieldValue(ResponseModel):
    """A value that was applied to a project."""

    id: int = Field(description="Of the suggestion.")
    field_key: str
    label: str
    value: Any
    confidence: float
    file_id: int
    filename: str
    page: int
    quote: str
    decided_at: Moment
    decided_by: str | None


class CatalogueField(ResponseModel):
    key: str
    label: str
    type: str
    synonyms: list[str]
    scheme: str
    doc_types: list[str]
    many: bool
