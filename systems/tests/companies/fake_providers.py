"""A provider that knows what a test tells it."""

import threading
from collections.abc import Callable, Mapping, Sequence

import rowmill as rm
from rowmill_systems.companies.providers.port import Answer, CompanyCandidate, SpendCall


class ScriptedProvider:
    """Answers from a mapping: a company id, an error, or a list of candidates. Other names are unknown to it."""

    name = "scripted"
    batch_size = 1

    def __init__(self, answers: Mapping[str, str | rm.errors.WorkError | Sequence[str]] | None = None) -> None:
        self.answers = dict(answers or {})
        self.asked: list[str] = []
        self.closed = 0
        self.before_answer: Callable[[str], None] = lambda name: None
        self._lock = threading.Lock()

    def search(self, names: Sequence[str], spend: SpendCall) -> Sequence[Answer]:
        spend()
        with self._lock:
            self.asked += names
        for name in names:
            self.before_answer(name)
        return [self._answer(name) for name in names]

    def _answer(self, name: str) -> Answer:
        found = self.answers.get(name, ())
        if isinstance(found, rm.errors.WorkError):
            return found
        ids = [found] if isinstance(found, str) else list(found)
        return [CompanyCandidate(each, name) for each in ids]

    def close(self) -> None:
        self.closed += 1
