"""What answers of the Reconciliation API 0.2 look like, as we understand it; stricter where we promise more."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, RootModel

from systems.tests.entities.reconciliation import specification

Template = Annotated[str, Field(pattern=r"^https?://.*\{\{id\}\}")]
Address = Annotated[str, Field(pattern=r"^https?://")]
NotEmpty = Annotated[str, Field(min_length=1)]


class Shape(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")


class Word(Shape):
    id: NotEmpty
    name: NotEmpty
    description: NotEmpty | None = None


class Suggest(Shape):
    service_url: Address
    service_path: str
    flyout_service_path: Annotated[str, Field(pattern=r"\$\{id\}")]


class View(Shape):
    url: Template


class Preview(View):
    width: int
    height: int


class Place(Shape):
    service_url: Address
    service_path: str


class Setting(Shape):
    name: str
    label: str
    type: Literal["number"]
    default: int
    help_text: str


class Extend(Shape):
    propose_properties: Place
    property_settings: list[Setting]


class Suggests(Shape):
    entity: Suggest
    type: Suggest
    property: Suggest


class Manifest(Shape):
    versions: list[Literal["0.2"]]
    name: NotEmpty
    identifierSpace: Address
    schemaSpace: Address
    serviceVersion: str
    defaultTypes: list[Word]
    view: View
    preview: Preview
    suggest: Suggests
    extend: Extend
    batchSize: int


class Feature(Shape):
    id: str
    value: bool | float


class Candidate(Word):
    type: list[Word]
    score: Annotated[float, Field(ge=0, le=100)]
    match: bool
    features: list[Feature]


class Result(Shape):
    result: list[Candidate]


class Suggested(Word):
    notable: list[Word]


class SuggestedEntities(Shape):
    prefix: str
    result: list[Suggested]


class SuggestedWords(Shape):
    prefix: str
    result: list[Word]


class Proposal(Shape):
    type: str | None = None
    limit: int | None = None
    properties: list[Word]


class Named(Shape):
    id: NotEmpty
    name: NotEmpty


class Text(Shape):
    str: str


class Whole(Shape):
    int: int


class Fraction(Shape):
    float: float


class Moment(Shape):
    date: Annotated[str, Field(pattern=r"^-?\d{4,}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")]


class Extended(Shape):
    meta: list[Word]
    rows: dict[str, dict[str, list[Named | Text | Whole | Fraction | Moment]]]


SHAPES: dict[str, type[BaseModel]] = {
    "manifest": Manifest,
    "reconciliation-result-batch": RootModel[dict[str, Result]],
    "suggest-entities-response": SuggestedEntities,
    "suggest-types-response": SuggestedWords,
    "suggest-properties-response": SuggestedWords,
    "data-extension-property-proposal": Proposal,
    "data-extension-response": Extended,
}


def check(name: str, answer: Any) -> Any:
    """The answer, if it is of this shape; and of the specification's schema of this name, where that is at hand."""
    SHAPES[name].model_validate(answer)
    if specification.FOLDER is not None:
        specification.validator(name).validate(answer)
    return answer
