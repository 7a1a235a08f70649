"""Which handler an event is dispatched to."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from rowmill.model.errors import DeclarationError
from rowmill.model.queue import blocks, name_of
from rowmill.outbox.event import Event

PATTERN = frozenset("*?[")


@dataclass(frozen=True, slots=True)
class Route:
    """Sends events of a type, or of all types that match a pattern, to a handler."""

    types: str
    call: Callable[[Event], Any]

    @property
    def exact(self) -> bool:
        return PATTERN.isdisjoint(self.types)

    @property
    def threaded(self) -> bool:
        return blocks(self.call)


class Routes:
    """The handlers of an outbox: exact types first, then patterns in the order of registration."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._exact: dict[str, Route] = {}
        self._patterns: list[Route] = []

    def add(self, types: tuple[str, ...], call: Callable[[Event], Any]) -> None:
        problems = [] if types else ['name a type of event, as in on("document.process")']
        for wanted in types:
            there = next((route for route in self if route.types == wanted), None)
            if there is not None and not _same(there.call, call):
                problems.append(
                    f"events of type {wanted} have a handler already, {name_of(there.call)}: an event is settled once, "
                    "by one. Call the other from it, or take one of them away"
                )
        if problems:
            raise DeclarationError(self._name, problems)
        for wanted in types:
            route = Route(wanted, call)
            if route.exact:
                self._exact[wanted] = route
            else:
                self._patterns = [*(one for one in self._patterns if one.types != wanted), route]

    def __iter__(self) -> Iterator[Route]:
        yield from self._exact.values()
        yield from self._patterns

    @property
    def threaded(self) -> bool:
        return any(route.threaded for route in self)

    def find(self, event_type: str) -> Route | None:
        found = self._exact.get(event_type)
        if found is None and self._patterns:
            found = next((route for route in self._patterns if fnmatchcase(event_type, route.types)), None)
        return found


def _same(one: Callable[..., Any], other: Callable[..., Any]) -> bool:
    """Return whether both are the same function. A reloaded module or a notebook cell that runs again registers its
    handler twice."""
    return one is other or (hasattr(one, "__qualname__") and name_of(one) == name_of(other))
