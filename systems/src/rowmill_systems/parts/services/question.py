"""What is asked, and the name under which its answer is kept."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass

from rowmill_systems.parts.values import storable


@dataclass(frozen=True, slots=True)
class Question:
    """The parameters go into the address of a GET and into the form of a POST."""

    method: str
    url: str
    parameters: tuple[tuple[str, str], ...]
    """Sorted: the same question has the same key in whatever order it was put together."""

    @classmethod
    def of(cls, method: str, url: str, parameters: Mapping[str, str]) -> "Question":
        return cls(method, url, tuple(sorted((name, storable(text)) for name, text in parameters.items())))

    def key(self, *more: str) -> str:
        told = json.dumps([self.method, self.url, self.parameters, *more])
        return hashlib.sha256(told.encode()).hexdigest()
