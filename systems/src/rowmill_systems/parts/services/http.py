"""A service over HTTP: cached, limited, and asked once for what several callers want."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

import httpx2

import rowmill as rm
from rowmill_systems.parts.services import failures
from rowmill_systems.parts.services.batch_loader import BatchLoader, Take
from rowmill_systems.parts.services.cache import AnswerCache
from rowmill_systems.parts.services.call_slots import CallSlots
from rowmill_systems.parts.services.calling import call
from rowmill_systems.parts.services.errors import RequestRejected
from rowmill_systems.parts.services.failures import FailureCheck
from rowmill_systems.parts.services.freshness import current
from rowmill_systems.parts.services.question import Question
from rowmill_systems.parts.services.service import BatchQuery, never
from rowmill_systems.parts.services.settings import ServiceSettings
from rowmill_systems.parts.services.single_flight import SingleFlight

Wanted = tuple[str, datetime | None]
"""An item, and the time after which an answer about it counts."""


class HttpService:
    """A ServiceClient over HTTP. Close it before the client that it was given."""

    def __init__(
        self,
        name: str,
        base_url: str,
        limit: rm.limits.Limit,
        client: httpx2.AsyncClient,
        cache: AnswerCache,
        settings: ServiceSettings,
        *,
        fault: FailureCheck = failures.no_failure,
    ) -> None:
        self.name, self.base_url = name, base_url.rstrip("/")
        self._client, self._cache, self._settings, self._fault = client, cache, settings, fault
        self._turns = CallSlots(limit, settings.concurrent_calls, settings.wait_seconds)
        self._flights = SingleFlight()
        self._gatherers: dict[str, BatchLoader[Wanted]] = {}

    async def get(self, path: str, parameters: Mapping[str, str], *, nothing: Callable[[Any], bool] = never) -> Any:
        return await self._answered(Question.of("GET", self._url(path), parameters), nothing)

    async def post(self, path: str, form: Mapping[str, str], *, nothing: Callable[[Any], bool] = never) -> Any:
        return await self._answered(Question.of("POST", self._url(path), form), nothing)

    async def each(self, batch: BatchQuery, items: Sequence[str]) -> Mapping[str, Any]:
        if batch.name not in self._gatherers:

            def key(item: str) -> str:
                return Question.of(batch.method, self._url(batch.path), batch.join([item])).key(batch.name)

            async def known(wanted: Sequence[Wanted]) -> Mapping[Wanted, Any]:
                asked = {(key(item), since): (item, since) for item, since in wanted}
                found = await self._cache.find(self.name, list(asked))
                return {asked[each]: answer for each, answer in found.items()}

            async def ask(take: Take[Wanted]) -> Mapping[Wanted, Any]:
                found = await self._ask(batch, lambda: list(dict.fromkeys(item for item, _ in take())), key)
                return {(item, since): found[item] for item, since in take()}

            self._gatherers[batch.name] = BatchLoader(known, ask, most=batch.most)
        since = current()
        found = await self._gatherers[batch.name].get([(item, since) for item in items])
        return {item: found[item, since] for item in items}

    async def close(self) -> None:
        await self._flights.close()
        for gatherer in self._gatherers.values():
            await gatherer.close()

    def _url(self, path: str) -> str:
        """Add a path to the service's address. A whole address must be on the same host."""
        if not path.startswith(("http://", "https://")):
            return self.base_url + path
        try:
            same = urlsplit(path)[:2] == urlsplit(self.base_url)[:2]
        except ValueError:
            same = False
        if not same:
            raise RequestRejected(f"{self.name} names an address of another host")
        return path

    async def _answered(self, question: Question, nothing: Callable[[Any], bool]) -> Any:
        key, since = question.key(), current()

        async def answer() -> Any:
            known = await self._cache.find(self.name, [(key, since)])
            if known:
                return known[key, since]
            found = await self._call(lambda: question, self._checked(nothing))
            await self._cache.store(self.name, {key: found}, self._days(nothing(found)))
            return found

        return await self._flights.join(f"{key} {since}", answer)

    async def _call(self, question: Callable[[], Question], fault: FailureCheck) -> Any:
        """Wait for a slot, then build the question and send it."""
        async with self._turns.turn():
            return await call(
                self._client,
                question(),
                name=self.name,
                base=self.base_url,
                settings=self._settings,
                fault=fault,
            )

    def _checked(self, empty: Callable[[Any], bool], *, must: bool = False) -> FailureCheck:
        """Return a check that also finds answers of another form; with `must`, empty ones too."""

        def fault(name: str, answer: Any, headers: httpx2.Headers) -> rm.errors.WorkError | None:
            if (wrong := self._fault(name, answer, headers)) is not None:
                return wrong
            try:
                if not (empty(answer) and must):
                    return None
            except (AttributeError, IndexError, KeyError, TypeError):
                pass  # not a cause: it may quote what was answered
            return rm.errors.ProviderDown(f"{name} answers with something else than was asked for")

        return fault

    async def _ask(self, batch: BatchQuery, take: Take[str], key: Callable[[str], str]) -> dict[str, Any]:
        """Return an answer or an exception for each item.

        If the service rejects a batch, its halves are asked, until the bad item is alone: it must not fail the others.
        """

        def question() -> Question:
            return Question.of(batch.method, self._url(batch.path), batch.join(take()))

        def empty(answer: Any) -> bool:
            return not batch.split(answer, take())

        try:
            answer = await self._call(question, self._checked(empty, must=True))
        except RequestRejected as error:
            items = take()
            if len(items) == 1:
                return {items[0]: error}
            half = len(items) // 2
            first = await self._ask(batch, lambda: items[:half], key)
            return first | await self._ask(batch, lambda: items[half:], key)
        except rm.errors.WorkError as error:
            return dict.fromkeys(take(), error)
        items = take()
        found = dict(batch.split(answer, items))
        for nothing in (True, False):
            kept = {key(item): answer for item, answer in found.items() if batch.nothing(answer) is nothing}
            await self._cache.store(self.name, kept, self._days(nothing))
        left = [item for item in items if item not in found]
        return found | (await self._ask(batch, lambda: left, key) if left else {})

    def _days(self, nothing: bool) -> float:
        return self._settings.cache_no_match_days if nothing else self._settings.cache_days
