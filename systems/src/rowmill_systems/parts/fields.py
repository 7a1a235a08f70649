"""Fields and models of what endpoints take and return."""

import math
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict

from rowmill_systems.parts.database import in_utc
from rowmill_systems.parts.values import UNSTORABLE

DEEPEST = 20


def fit(value: Any, depth: int = 0) -> Any:
    """Return the value if every database can store it as JSON; raise ValueError otherwise. Python's parser accepts
    more."""
    match value:
        case str() if UNSTORABLE.search(value):
            raise ValueError("a text has no NUL and no halves of characters")
        case float() if not math.isfinite(value):
            raise ValueError("a number is finite")
        case list() | dict() if depth == DEEPEST:
            raise ValueError(f"it nests deeper than {DEEPEST} times")
        case list():
            for one in value:
                fit(one, depth + 1)
        case dict():
            for name, one in value.items():
                fit(name)
                fit(one, depth + 1)
    return value


def moment_in_utc(moment: datetime) -> datetime:
    try:
        return in_utc(moment)
    except OverflowError:
        raise ValueError("it is before the year 1 or after 9999 in UTC") from None


Moment = Annotated[datetime, AfterValidator(in_utc)]
GivenMoment = Annotated[datetime, AfterValidator(moment_in_utc)]
"""A time in a request. Without a zone, it is UTC."""
PlainJson = Annotated[Any, AfterValidator(fit)]


class ResponseModel(BaseModel):
    """The base of what endpoints return: made from rows and objects by their attributes."""

    model_config = ConfigDict(from_attributes=True)


class Health(ResponseModel):
    status: Literal["ok"] = "ok"
