"""Checks the names of options, and suggests the one that was probably meant."""

from collections.abc import Iterable
from dataclasses import fields
from difflib import get_close_matches
from functools import wraps
from typing import Any, TypeVar

from rowmill.model.errors import UnknownOption

T = TypeVar("T")


def check_options(subject: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Raise UnknownOption if an option is given that `subject` does not have."""
    names = list(known)
    unknown = [name for name in given if name not in names]
    if unknown:
        raise UnknownOption(" ".join(_complaint(subject, name, names) for name in unknown))


def _complaint(subject: str, name: str, known: list[str]) -> str:
    near = get_close_matches(name, known, n=1)
    hint = f"Did you mean {near[0]}?" if near else f"It has: {', '.join(known)}."
    return f"{subject} has no option {name}. {hint}"


def listed(known: Iterable[str], name: str) -> str:
    """Return the existing names as text for an error message, with the one that was probably meant."""
    names = list(known)
    near = get_close_matches(name, names, n=1)
    return (", ".join(names) or "none") + (f". Did you mean {near[0]}?" if near else "")


def checks_options(cls: type[T]) -> type[T]:
    """Make a dataclass raise UnknownOption for a misspelled field."""
    plain: Any = cls.__init__
    known = [field.name for field in fields(cls) if field.init]  # type: ignore[arg-type]

    @wraps(plain)
    def checked(self: Any, *args: Any, **options: Any) -> None:
        check_options(cls.__name__, options, known)
        plain(self, *args, **options)

    cls.__init__ = checked  # type: ignore[method-assign]
    return cls
