"""Durations in the public API: seconds as a number, or a `timedelta`. The engine keeps seconds."""

from datetime import timedelta
from typing import Generic, TypeVar, overload

Duration = float | timedelta
"""Seconds, or a `timedelta`."""
T = TypeVar("T", bound=float | None)


@overload
def in_seconds(given: Duration) -> float: ...
@overload
def in_seconds(given: Duration | None) -> float | None: ...
def in_seconds(given: Duration | None) -> float | None:
    """Return a duration as seconds. None stays None."""
    return given.total_seconds() if isinstance(given, timedelta) else given


class DurationField(Generic[T]):
    """A field of a dataclass that takes seconds or a `timedelta`, and is read as seconds.

        @dataclass(frozen=True)
        class Breaker:
            pause: DurationField[float] = DurationField(5.0)

    The dataclass must not have slots: the value is kept in the instance's `__dict__`.
    """

    def __init__(self, default: T) -> None:
        self._default = default

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: object | None, owner: type) -> T:
        if instance is None:  # dataclasses read the default from the class
            return self._default
        value: T = instance.__dict__[self._name]
        return value

    def __set__(self, instance: object, value: T | timedelta) -> None:
        instance.__dict__[self._name] = in_seconds(value)
