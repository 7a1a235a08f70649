"""Parse the requests of the Reconciliation API 0.2: a batch of queries, or a request for properties."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator

MOST_QUERIES = 100
"""In one batch; the manifest says so."""
MOST_CANDIDATES = 50
"""Of one query; whoever wants more gets so many."""
MOST_PROPERTIES = 100
MOST_VALUES = 100
"""Of one property of a query."""
MOST_IDS = 1000
"""Things in one request for properties."""
LONGEST_NAME = 500
"""No thing has a longer one."""
LONGEST_VALUE = 2000

Asked = TypeVar("Asked")


class BadQuery(ValueError):
    """The request is not JSON, or not in the form of the specification."""


class TooMany(ValueError):
    """The request asks for more at once than the limits allow."""


class Reference(BaseModel):
    """A value that is a thing: the client reconciled it before."""

    model_config = ConfigDict(strict=True)

    id: str
    name: str = ""


Value = str | bool | int | float | Reference


class PropertyValues(BaseModel):
    """A property of the thing that the client knows, with one value or several."""

    model_config = ConfigDict(strict=True, allow_inf_nan=False)

    pid: str
    v: Value | list[Value]

    @property
    def values(self) -> Sequence[Value]:
        return self.v if isinstance(self.v, list) else [self.v]


class Query(BaseModel):
    """One query. Unknown keys are refused, as the specification says: a misspelt restriction would be ignored in
    silence."""

    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)

    query: str | None = None
    type: str | list[str] = []
    limit: Annotated[float, Field(ge=0)] = 0
    """Zero: as many as usual."""
    properties: list[PropertyValues] = []
    type_strict: Literal["any", "all", "should"] = "should"

    @model_validator(mode="after")
    def _asks_something(self) -> "Query":
        if self.query is None and not self.properties:
            raise ValueError("a query has a text or properties")
        return self

    @property
    def types(self) -> Sequence[str]:
        return [self.type] if isinstance(self.type, str) else self.type


class RequestedProperty(BaseModel):
    """A property that the client asks for, with its settings."""

    model_config = ConfigDict(strict=True)

    id: str
    settings: dict[str, Any] = {}

    @property
    def most(self) -> int | None:
        """The most values per thing; None: all. Forms send numbers as text, and an empty text for none."""
        try:
            return max(int(self.settings.get("limit") or 0), 0) or None
        except (ValueError, TypeError, OverflowError):
            raise BadQuery("the setting `limit` is a number") from None


class Extension(BaseModel):
    """A request for properties of things."""

    model_config = ConfigDict(strict=True)

    ids: list[str]
    properties: list[RequestedProperty]


BATCH = TypeAdapter(dict[str, Query])
EXTENSION = TypeAdapter(Extension)


def read_batch(text: str) -> dict[str, Query]:
    batch = _read(BATCH, text)
    _bound(len(batch), MOST_QUERIES, "queries in a batch")
    for query in batch.values():
        _bound(len(query.types), MOST_PROPERTIES, "types in a query")
        _bound(len(query.properties), MOST_PROPERTIES, "properties in a query")
        for known in query.properties:
            _bound(len(known.values), MOST_VALUES, "values of a property")
    return batch


def read_extension(text: str) -> Extension:
    asked = _read(EXTENSION, text)
    _bound(len(asked.ids), MOST_IDS, "ids")
    _bound(len(asked.properties), MOST_PROPERTIES, "properties")
    return asked


def _read(adapter: TypeAdapter[Asked], text: str) -> Asked:
    try:
        return adapter.validate_json(text)
    except ValidationError as error:
        # What is wrong and what kind of place it is at; never what stood there.
        first = error.errors(include_input=False, include_url=False, include_context=False)[0]
        raise BadQuery(f"it is not what the specification calls a query: {first['msg']}") from None


def _bound(number: int, most: int, what: str) -> None:
    if number > most:
        raise TooMany(f"no more than {most} {what} are answered at once")
