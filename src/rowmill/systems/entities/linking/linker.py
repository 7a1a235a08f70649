"""Asks all sources, and chooses."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from rowmill.systems.entities.things import Candidate, Link, Mention


@dataclass(frozen=True, slots=True)
class Scored:
    """A candidate, or several of different sources that are the same thing, and how likely it is meant."""

    candidates: tuple[Candidate, ...]
    """The best first."""
    score: float


class Choosing(Protocol):
    def __call__(self, mention: Mention, candidates: Sequence[Candidate]) -> Link | None:
        """The thing that is meant, if it is likely enough and far enough ahead of the next one; never a guess."""
