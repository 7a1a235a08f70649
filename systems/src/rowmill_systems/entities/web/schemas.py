"""Requests and responses of the API."""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints

from rowmill_systems.parts.fields import Moment, ResponseModel, fit

Name = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=1000), AfterValidator(fit)]
Properties = Annotated[dict[str, Any], AfterValidator(fit)]
Plain = Annotated[str, AfterValidator(fit)]
Word = Annotated[str, StringConstraints(max_length=200), AfterValidator(fit)]
Text = Annotated[str, StringConstraints(max_length=20_000), AfterValidator(fit)]


Id = Annotated[str, BeforeValidator(str)]
"""Of an entity: text, or a uuid, as its table has it."""


class EntityIn(BaseModel):
    """An entity to add."""

    model_config = ConfigDict(extra="forbid")

    name: Name = Field(examples=["Ada Lovelace"])
    entity_type: Word | None = Field(default=None, examples=["person"])
    """In your own words: person, ORG, GPE, film…"""
    context: Text | None = Field(default=None, examples=["She wrote the first program, for Babbage's engine."])
    properties: Properties | None = Field(default=None, examples=[{"birth_date": "1815"}])
    """Facts that you have already. They are never overwritten."""
    dataset: Word | None = None
    external_id: Word | None = None
    """What you call it, in your dataset. Who puts it in twice has it once."""


class EntityEdit(BaseModel):
    model_config = ConfigDict(extra="forbid")

    properties: Properties


class EntityOut(ResponseModel):
    """An entity with its link and the status of its enrichment."""

    id: Id
    name: str
    entity_type: str | None
    dataset: str | None
    external_id: str | None
    created_at: Moment | None
    enrichment_status: str
    enrichment_error: str | None
    enrichment_retry_count: int
    enrichment_available_at: Moment | None
    enriched_at: Moment | None
    enrichment_note: str | None
    wikidata_id: str | None
    dbpedia_uri: str | None
    other_ids: dict[str, str] | None
    linking_confidence: float | None
    linking_source: str | None
    linking_label: str | None
    linking_reason: str | None
    """Why there is no link."""


class EntityList(ResponseModel):
    entities: list[EntityOut]
    next: Id | None = None
    """Ask for those after it; None at the end."""


class ValueSource(ResponseModel):
    source: str
    """`local`, `decision`, or a source."""
    ref: str | None = None
    """What the source calls the entity."""


class MergedValue(ResponseModel):
    value: Any
    sources: list[ValueSource]


class FactOut(ResponseModel):
    source: str
    property: str
    values: list[Any]
    ref: str
    since: Moment


class ConflictOut(ResponseModel):
    """Two values of a property that can have only one."""

    id: int
    entity_id: Id
    name: str
    property: str
    current_value: Any
    current_source: str
    other_value: Any
    other_source: str
    state: Literal["open", "decided", "settled"]
    chosen_value: Any | None
    decided_at: Moment | None
    decided_by: str | None
    created_at: Moment


class Conflicts(ResponseModel):
    conflicts: list[ConflictOut]
    next: int | None = None


class Change(ResponseModel):
    at: Moment
    kind: str
    detail: dict[str, Any]


class CandidateOut(ResponseModel):
    """A thing that the entity may be."""

    label: str
    description: str
    types: list[str]
    score: float
    reasons: dict[str, float]
    """What the score is made of: what speaks for it, up to 1, and what against it, down to -1."""
    source: str
    wikidata_id: str | None
    dbpedia_uri: str | None
    other_ids: dict[str, str]

    @property
    def ref(self) -> tuple[str, str]:
        """The source, and the id of the thing there."""
        if self.wikidata_id:
            return "wikidata", self.wikidata_id
        if self.dbpedia_uri:
            return "dbpedia", self.dbpedia_uri
        return next(iter(self.other_ids.items()))


class WholeEntity(EntityOut):
    """An entity with its facts and their sources, its conflicts and its history."""

    candidates: list[CandidateOut]
    """Who may be meant, the likeliest first, as of the last time that sources were asked."""
    context: str | None
    properties: dict[str, Any] | None
    enriched_properties: dict[str, list[MergedValue]] | None
    facts: list[FactOut]
    conflicts: list[ConflictOut]
    history: list[Change]
    """The latest first."""


class ConflictDecisionIn(BaseModel):
    """The decision of a conflict: the current value, the other one, or one of your own."""

    model_config = ConfigDict(extra="forbid")

    choice: Literal["current", "other", "value"]
    value: Annotated[Any, AfterValidator(fit)] = None
    by: Word | None = None


class LinkDecisionIn(BaseModel):
    """The link of an entity: a `thing` by its source and id, `none`, or `sources` for what the sources find."""

    model_config = ConfigDict(extra="forbid")

    choice: Literal["thing", "none", "sources"] = "thing"
    source: Word = Field(default="", examples=["wikidata"])
    id: Annotated[str, StringConstraints(strip_whitespace=True, max_length=1000), AfterValidator(fit)] = Field(
        default="", examples=["Q312"]
    )
    by: Word | None = None


class Refused(ResponseModel):
    line: int
    message: str


class Taken(ResponseModel):
    """The result of adding many entities."""

    accepted: int
    """Put in now."""
    there_already: int
    """Of a dataset: they are left as they are."""
    refused: list[Refused]
    """The first hundred of them, by line."""
    refused_count: int


class ServiceStatus(ResponseModel):
    """The state of a service, as the whole fleet sees it."""

    service: str
    available: bool
    why: str | None
    """off, parked, open (it is taken to be down), rate, slots…"""
    until: Moment | None


class Stats(ResponseModel):
    """Statistics of the enrichment."""

    total_entities: int
    by_status: dict[str, int]
    success_rate: float
    """The share of all entities that is COMPLETE."""
    failure_rate: float
    """The share of all entities that is FAILED."""
    pending: int
    """PENDING alone."""
    in_progress: int
    """LINKING, ENRICHING and SAVING."""
    average_processing_time_seconds: float
    """At work on a complete entity; without the time that it waited."""
    open_conflicts: int
    waiting_for: dict[str, int]
    """Of those that were tried and wait: why, by code."""
    services: list[ServiceStatus]


class Queued(ResponseModel):
    status: Literal["queued"] = "queued"
    entity_id: Id
