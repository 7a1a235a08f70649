"""Requests and responses of the API."""

import uuid
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints

from rowmill.web.login.passwords import LONGEST_PASSWORD
from rowmill_systems.knowledge.accounts.account import LONGEST_EMAIL, SHORTEST_PASSWORD
from rowmill_systems.knowledge.accounts.roles import KnowledgeRole
from rowmill_systems.knowledge.accounts.tokens import LONGEST_TOKEN_NAME
from rowmill_systems.knowledge.bases import LONGEST_DESCRIPTION, LONGEST_KB_NAME
from rowmill_systems.knowledge.consistency.orphans import MOST
from rowmill_systems.knowledge.models import DocumentStatus
from rowmill_systems.knowledge.search.answering import LONGEST_QUESTION, AnswerOutcome
from rowmill_systems.knowledge.search.filters import SearchFilters
from rowmill_systems.knowledge.search.query import LONGEST
from rowmill_systems.knowledge.search.searching import MOST_HITS, Degraded
from rowmill_systems.parts.fields import GivenMoment, Moment, ResponseModel, fit

Fit = AfterValidator(fit)
"""Limits of a length stand before it. After it, the message on a text that is too long counts "items"."""
Next = Annotated[str | None, Field(description="Give it as `after` for the next page; null: there is none.")]
Email = Annotated[str, Field(max_length=LONGEST_EMAIL, examples=["ann@example.org"])]
GivenPassword = Annotated[str, Field(max_length=LONGEST_PASSWORD)]
NewPassword = Annotated[str, Field(min_length=SHORTEST_PASSWORD, max_length=LONGEST_PASSWORD)]
KbName = Annotated[str, StringConstraints(min_length=1, max_length=LONGEST_KB_NAME), Fit]
KbDescription = Annotated[str, StringConstraints(max_length=LONGEST_DESCRIPTION), Fit]
Plain = Annotated[str, Fit]
MOST_KBS = 100
"""Knowledge bases that one search looks at."""
MOST_FILTERED = 1000
"""Documents that a search may be limited to."""
VisibleStatus = Literal["pending", "processing", "ready", "failed"]


class RequestModel(BaseModel):
    """The base of what endpoints take: a misspelt name is an error."""

    model_config = ConfigDict(extra="forbid")


class LoginIn(RequestModel):
    email: Email
    password: GivenPassword


class UserOut(ResponseModel):
    id: uuid.UUID
    email: str
    role: KnowledgeRole
    is_superuser: bool
    is_active: bool
    created_at: Moment
    last_login_at: Moment | None


class LoginOut(ResponseModel):
    """A login. Send the token as `Authorization: Bearer …`."""

    token: str = Field(description="Shown here only.")
    token_type: Literal["bearer"] = "bearer"  # noqa: S105
    expires_at: Moment
    user: UserOut


class MeOut(UserOut):
    logged_in_by: Literal["session", "bearer"] = Field(description="With a password, or with a token for programs.")


class PasswordIn(RequestModel):
    current: GivenPassword
    new: NewPassword


class TokenIn(RequestModel):
    name: Annotated[str, StringConstraints(max_length=LONGEST_TOKEN_NAME), Fit] = ""
    days: float | None = Field(default=None, gt=0, le=3660, description="How long it holds; null: until it is revoked.")


class TokenOut(ResponseModel):
    id: uuid.UUID
    name: str
    created_at: Moment
    expires_at: Moment | None
    last_used_at: Moment | None = Field(description="Within five minutes.")


class NewTokenOut(TokenOut):
    token: str = Field(description="Shown here only.")


class TokenList(ResponseModel):
    tokens: list[TokenOut]


class UserIn(RequestModel):
    email: Email
    password: NewPassword
    role: KnowledgeRole = KnowledgeRole.VIEWER


class UserEdit(RequestModel):
    role: KnowledgeRole | None = None
    is_active: bool | None = Field(default=None, description="Whether the user may log in; false logs out everywhere.")


class UserPasswordIn(RequestModel):
    password: NewPassword


class UserList(ResponseModel):
    users: list[UserOut]
    next: Next


class KbIn(RequestModel):
    name: KbName
    description: KbDescription = ""


class KbEdit(RequestModel):
    name: KbName | None = None
    description: KbDescription | None = None


class KbOut(ResponseModel):
    id: uuid.UUID
    name: str
    description: str
    created_at: Moment
    updated_at: Moment
    documents: dict[DocumentStatus, int] = Field(description="By status, each counted up to 1,001.")


class KbList(ResponseModel):
    knowledge_bases: list[KbOut]
    next: Next


class DocumentOut(ResponseModel):
    """A document, and how far it is."""

    id: uuid.UUID
    kb_id: uuid.UUID
    filename: str
    media_type: str | None = Field(description="As the uploader said; once it was read, by its bytes.")
    kind: str | None = Field(description="By its bytes.")
    size: int
    sha256: str
    status: DocumentStatus
    stage: str | None = Field(description="While it is processed: reading or embedding.")
    progress_done: int
    progress_total: int | None
    pages: int | None
    chunk_count: int | None = Field(description="Passages that search shows.")
    language: str | None
    title: str | None
    embedding_model: str | None
    retry_count: int
    error_code: str | None = Field(description="Why it failed, or failed last: stable.")
    last_error: str | None
    created_at: Moment
    updated_at: Moment
    processing_started_at: Moment | None
    processed_at: Moment | None


class PlaceOut(ResponseModel):
    """What one store has of a document."""

    name: str
    state: Literal["here", "coming", "absent", "wrong", "unknown"]
    note: str


class DocumentError(ResponseModel):
    """An error in plain words."""

    what: str
    to_do: str


class DocumentEvent(ResponseModel):
    """An event about a document."""

    id: int
    event_type: str
    state: str
    attempts: int
    created_at: Moment
    available_at: Moment | None = Field(description="Not before this time.")
    processed_at: Moment | None
    last_error: str | None


class WholeDocument(DocumentOut):
    """A document with where it is and why."""

    places: list[PlaceOut] = Field(description="What the stores themselves say now.")
    error: DocumentError | None
    events: list[DocumentEvent] = Field(description="The latest first.")


class DocumentList(ResponseModel):
    documents: list[DocumentOut]
    next: Next


class AcceptedDocument(ResponseModel):
    """A document that was taken in, and is processed in the background."""

    id: uuid.UUID
    filename: str
    status: DocumentStatus
    status_url: str


class RequestedChange(ResponseModel):
    """Something that the workers do in the background."""

    id: uuid.UUID
    requested: Literal["deletion", "processing"]


class FiltersIn(RequestModel):
    """Which documents are searched. All that are given must hold."""

    documents: Annotated[list[uuid.UUID] | None, Field(max_length=MOST_FILTERED)] = None
    kinds: Annotated[list[Plain] | None, Field(max_length=20, examples=[["pdf", "docx"]])] = None
    filename: Annotated[str, Field(max_length=200, description="A part of the name, in any case."), Fit] = ""
    created_from: GivenMoment | None = None
    created_before: GivenMoment | None = None

    def as_filters(self) -> SearchFilters:
        return SearchFilters(self.documents, self.kinds, self.filename, self.created_from, self.created_before)


class KbSearchIn(RequestModel):
    query: Annotated[str, Field(min_length=1, max_length=LONGEST), Fit]
    limit: int = Field(default=10, ge=1, le=MOST_HITS)
    filters: FiltersIn = FiltersIn()


class SearchIn(KbSearchIn):
    kb_ids: Annotated[list[uuid.UUID], Field(max_length=MOST_KBS, description="All, if it is empty.")] = []


class HitOut(ResponseModel):
    """A passage that was found, and where it stands."""

    document_id: uuid.UUID
    kb_id: uuid.UUID
    filename: str
    number: int = Field(description="Of the passage in its document, from 0.")
    page: int | None
    page_title: str
    heading: str
    text: str
    before: str = Field(description="The passage before it.")
    after: str
    score: float
    by: Literal["meaning", "words", "both"]
    highlights: list[tuple[int, int]] = Field(description="Where words of the query stand in the text: from, to.")


class SearchOut(ResponseModel):
    hits: list[HitOut] = Field(description="Best first.")
    degraded: Degraded | None = Field(description="Why passages may be missing that would be found by meaning.")


class QuestionIn(RequestModel):
    question: Annotated[str, Field(min_length=1, max_length=LONGEST_QUESTION), Fit]
    kb_ids: Annotated[list[uuid.UUID], Field(max_length=MOST_KBS, description="All, if it is empty.")] = []
    limit: int = Field(default=6, ge=1, le=20, description="The most passages that the model is given.")
    filters: FiltersIn = FiltersIn()


class CitationOut(ResponseModel):
    """A passage that the answer rests on."""

    number: int = Field(description="It stands in the text as [1].")
    hit: HitOut


class AnswerOut(ResponseModel):
    """An answer with its citations, and the passages that were found."""

    outcome: AnswerOutcome = Field(
        description="answered; not_found: the documents don't say; model_unavailable: passages only, try again."
    )
    text: str | None
    citations: list[CitationOut]
    hits: list[HitOut]
    degraded: Degraded | None


class OutboxStatsOut(ResponseModel):
    """How the outbox stands."""

    model_config = ConfigDict(title="OutboxStats")

    pending_events: int = Field(description="Not processed, and not out of attempts.")
    failed_events: int = Field(description="Out of attempts: kept until somebody requeues them.")
    processed_last_hour: int
    processed_last_24h: int
    queue_depth: int = Field(description="Due, and not begun.")
    average_processing_time_ms: float | None = Field(
        description="From `created_at` to `processed_at`, over the last 100; null if there are none."
    )


class OutboxEventOut(DocumentEvent):
    aggregate_id: str | None
    payload: dict[str, Any]


class OutboxEventList(ResponseModel):
    events: list[OutboxEventOut]
    next: Next


class RequeuedEvents(ResponseModel):
    requeued: int


class ComparisonRun(ResponseModel):
    """A comparison of the stores that mended what it could."""

    id: int
    started_at: Moment | None
    ended_at: Moment | None
    outcome: str | None = Field(description="ok, incomplete, failed or abandoned; null while it runs.")
    findings: int
    corrected: int
    remaining: int = Field(description="Left to the next one.")
    closed: int = Field(description="Findings of earlier ones that are resolved.")
    kinds: dict[str, int]


class ComparisonList(ResponseModel):
    runs: list[ComparisonRun]


class OpenFindingOut(ResponseModel):
    """A finding that is open."""

    kind: str
    key: str
    found_at: Moment | None
    seen_at: Moment | None
    corrected_at: Moment | None
    corrections: int


class FindingList(ResponseModel):
    findings: list[OpenFindingOut]
    next: Next


class ComparisonIn(RequestModel):
    execute: bool = Field(default=False, description="Mend what can be mended. Otherwise nothing is written.")
    believe_empty: bool = Field(default=False, description="A store that lists nothing has lost everything.")


class KindCount(ResponseModel):
    count: int
    mending: Literal["event", "request", "none"] = Field(description="By an event, on request, or by nobody.")


class ListedFinding(ResponseModel):
    """A finding of a report."""

    kind: str
    key: str
    present: list[str]
    absent: list[str]
    times: dict[str, Moment]
    new: bool


class UnreachableStore(ResponseModel):
    """A store that could not be read to its end. Nothing was concluded from what it did not list."""

    store: str
    code: str
    message: str


class ComparisonReport(ResponseModel):
    """What a comparison found and did."""

    clean: bool
    executed: bool
    run: int | None
    started_at: Moment
    ended_at: Moment | None
    compared: dict[str, int]
    findings: int
    kinds: dict[str, KindCount]
    listed: list[ListedFinding] = Field(description="The first thousand findings.")
    in_flight: int = Field(description="Too young to be findings.")
    planned: int
    corrected: int
    failed: int
    remaining: int
    closed: int
    unreachable: list[UnreachableStore]


class OrphanOut(ResponseModel):
    kind: str
    key: str


class OrphanRemovalIn(RequestModel):
    cap: int = Field(default=100, ge=1, le=MOST, description="The most that are removed.")


class OrphansOut(ResponseModel):
    """Orphans that were found, and what became of them."""

    found: int
    kinds: dict[str, int]
    listed: list[OrphanOut] = Field(description="Those that are removed, or would be.")
    removed: int
    kept: int = Field(description="Gone, young or explained when they were looked at again.")
    unreachable: list[str] = Field(description="Stores that could not be read to their end: there may be more.")
