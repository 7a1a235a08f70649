"""A question to a service, and the key of its answer in the cache."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass

from rowmill_systems.parts.values import storable


@dataclass(frozen=True, slots=True)
class Question:
    """A request. Its parameters go into the address of a GET, and into the form of a POST."""

    method: str
    url: str
    parameters: tuple[tuple[str, str], ...]
    """Sorted, so that the same question has the same key."""

    @classmethod
    def of(cls, method: str, url: str, parameters: Mapping[str, str]) -> "Question":
        return cls(method, url, tuple(sorted((name, storable(text)) for name, text in parameters.items())))

    def key(self, *more: str) -> str:
        told = json.dumps([self.method, self.url, self.parameters, *more])
        return hashlib.sha256(told.encode()).hexdigest()
